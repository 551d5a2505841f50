"""The control API over a feed that runs under `tidelock serve`: what is asked for there happens at the feed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process

TOKEN = "0123456789abcdef-token"
SECONDS = 60.0


class Api:
    """The API of one `serve`, asked about one feed.  `process`: of `serve`."""

    def __init__(self, address: str, feed: str, process: Process) -> None:
        self.place, self._feed, self.process = f"http://{address}/api/v1", feed, process

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a POST where there is a body; (0, None) while nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.place + path, data, headers)) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def of_feed(self, path: str = "", body: Any = None) -> Any:
        """The answer about the feed."""
        status, told = self.ask(f"/feeds/{self._feed}{path}", body)
        assert status in (200, 202), (status, told)
        return told

    def state(self) -> tuple[str, str]:
        """The state of the feed's process, and that of the feed."""
        status, told = self.ask(f"/feeds/{self._feed}")
        return (told["state"], (told["sample"] or {}).get("state", "")) if status == 200 else ("", "")

    def failed_rows(self) -> int:
        """How many the feed's process tells of."""
        return int(self.of_feed()["sample"]["failed_rows"])

    def goes_on(self) -> bool:
        """Tells whether the feed runs."""
        return self.state() in (("runs", "running"), ("runs", "caught up"))

    def done(self, path: str, body: Any) -> Any:
        """The job, once it has ended."""
        number = self.of_feed(path, body)["job"]
        until(lambda: self.ask(f"/jobs/{number}")[1]["state"] != "runs", f"the job {path}", SECONDS)
        return self.ask(f"/jobs/{number}")[1]


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> Rig:
    made = make_rig(mariadb, postgres, "api", lanes=2)
    made.table("t", "id int PRIMARY KEY, n int")
    return made


@contextmanager
def served(rig: Rig, place: Path) -> Iterator[Api]:
    folder, said, address = place / "feeds", place / "said", f"127.0.0.1:{free_port()}"
    folder.mkdir()
    tokens = place / "tokens"
    tokens.write_text(f"ann:{TOKEN}\n")
    tokens.chmod(0o600)
    shutil.copy(rig.feed, folder)
    process = Process(["serve", str(folder), "--http", address, "--token-file", str(tokens)], said)
    api = Api(address, rig.name, process)
    try:
        until(api.goes_on, "the feed", SECONDS)
        yield api
    finally:
        process.stop()
    assert process.code(1.0) == 0, said.read_text()


def test_a_feed_is_paused_resumed_and_stopped_and_its_failed_row_is_decided_about(rig: Rig, tmp_path: Path) -> None:
    with served(rig, tmp_path) as api:
        told = api.of_feed("/pause", {})
        assert told == {"exit_code": 0, "report": {"feed": rig.name, "desired_state": "paused"}}
        until(lambda: api.state() == ("runs", "paused"), "a pause", SECONDS)
        rig.at_source("INSERT INTO t VALUES (1, 1)")
        assert api.of_feed("/resume", {})["exit_code"] == 0
        until(rig.equal, "equal ends", SECONDS)
        rig.at_target("ALTER TABLE t ADD CHECK (n < 100)")
        rig.at_source("INSERT INTO t VALUES (2, 500)", "INSERT INTO t VALUES (3, 3)")
        until(lambda: api.failed_rows() == 1, "a failed row", SECONDS)
        (row,) = api.of_feed("/failed-rows")
        assert row["table"] == f"{rig.schema}.t" and "check" in row["error"]
        assert api.of_feed("/failed-rows/skip", {"ids": [row["id"]]})["report"]["rows"] == 1
        until(lambda: api.failed_rows() == 0, "the end of the failed row", SECONDS)
        api.of_feed("/stop", {})
        until(lambda: api.state() == ("stopped", ""), "a stop", SECONDS)
        os.kill(api.process.pid, signal.SIGHUP)  # which starts what waits or needs somebody
        assert api.of_feed("/stop", {})["starts"] == 1 and api.state() == ("stopped", "")
        assert api.of_feed("/start", {})["starts"] == 2
    lines = [json.loads(text) for text in (tmp_path / "feeds" / ".audit.jsonl").read_text().splitlines()]
    assert [one["path"].rpartition("/")[2] for one in lines] == ["pause", "resume", "skip", "stop", "stop", "start"]
    assert {(one["who"], one["status"]) for one in lines} == {("ann", 200)}


@pytest.mark.proof
def test_every_other_command_does_what_it_does_by_hand(rig: Rig, tmp_path: Path) -> None:
    rig.at_source("INSERT INTO t VALUES (1, 1), (2, 2)")
    with served(rig, tmp_path) as api:
        until(rig.equal, "equal ends", SECONDS)
        rig.at_target("UPDATE t SET n = 7 WHERE id = 1")
        found = api.done("/verify", {})
        assert (found["state"], found["exit_code"]) == ("done", 3)
        assert found["report"]["tables"][0]["differences"][0]["key"] == {"id": "1"}
        mended = api.done("/repair", {"job": found["id"]})
        assert (mended["state"], mended["exit_code"]) == ("done", 0), mended
        assert rig.equal()
        rig.at_target("DELETE FROM t")
        copied = api.done("/copy", {"replace": True})
        assert (copied["state"], copied["exit_code"]) == ("done", 0), copied
        assert rig.equal() and [one["rows"] for one in api.of_feed("/copy")] == [2]
        rig.at_target("ALTER TABLE t ADD CHECK (n < 100)")
        rig.at_source("INSERT INTO t VALUES (3, 500)")
        until(lambda: api.failed_rows() == 1, "a failed row", SECONDS)
        (row,) = api.of_feed("/failed-rows?limit=5")
        assert api.of_feed(f"/failed-rows/{row['id']}")["after"] == {"id": 3, "n": 500}
        rig.at_source("UPDATE t SET n = 5 WHERE id = 3")
        taken = api.of_feed("/failed-rows/take-source", {"ids": [row["id"]]})
        assert taken["exit_code"] == 0 and rig.equal(), taken
        assert api.of_feed("/halt") is None and api.of_feed("/conflicts") == []
        rig.at_target("ALTER TABLE t DROP CONSTRAINT t_n_check")
        checked = api.done("/check", {})
        assert checked["report"]["ok"] and checked["exit_code"] == 0
