"""The control API over a feed that runs under `tidelock serve`: what is asked for there happens at the feed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.lake import HIVE, SPARK
from bench.harness.rig import Rig, until
from bench.harness.served import OWNER, Api, served
from bench.harness.servers import Server
from bench.harness.servers.kafka_broker import Broker

SECONDS = 60.0
LONG = 600.0


@pytest.fixture
def rig(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> Rig:
    made = make_rig(mariadb, postgres, "api", lanes=2)
    made.table("t", "id int PRIMARY KEY, n int")
    return made


def test_a_feed_is_paused_resumed_and_stopped_and_its_failed_row_is_decided_about(rig: Rig, tmp_path: Path) -> None:
    with served(tmp_path, rig) as serving:
        api = serving.api(rig.name)
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
        assert serving.process is not None
        os.kill(serving.process.pid, signal.SIGHUP)  # which starts what waits or needs somebody
        assert api.of_feed("/stop", {})["starts"] == 1 and api.state() == ("stopped", "")
        assert api.of_feed("/start", {})["starts"] == 2
    lines = serving.audit()
    assert [one["path"].rpartition("/")[2] for one in lines] == ["pause", "resume", "skip", "stop", "stop", "start"]
    assert {(one["who"], one["status"]) for one in lines} == {(OWNER, 200)}


@pytest.mark.proof
def test_every_other_command_does_what_it_does_by_hand(rig: Rig, tmp_path: Path) -> None:
    rig.at_source("INSERT INTO t VALUES (1, 1), (2, 2)")
    with served(tmp_path, rig) as serving:
        api = serving.api(rig.name)
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


@pytest.mark.proof
def test_halts_are_ended_failed_rows_retried_and_a_process_begun_anew(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "halts", ddl={"add_column": "halt", "truncate": "halt"})
    rig.table("t", "id int PRIMARY KEY, n int")
    with served(tmp_path, rig) as serving:
        api = serving.api(rig.name)
        rig.at_source("INSERT INTO t VALUES (1, 1)", "ALTER TABLE t ADD COLUMN later int")
        halted(api, "ADD COLUMN later")
        rig.at_target("ALTER TABLE t ADD COLUMN later int")
        assert api.of_feed("/ddl/done", {})["exit_code"] == 0
        until(api.goes_on, "the feed behind its halt", SECONDS)
        rig.at_source("INSERT INTO t VALUES (2, 2, 2)")
        until(rig.equal, "equal ends", SECONDS)
        rig.at_source("TRUNCATE t")
        halted(api, "TRUNCATE")
        assert api.of_feed("/ddl/skip", {})["exit_code"] == 0
        until(api.goes_on, "the feed behind its halt", SECONDS)
        rig.at_target("ALTER TABLE t ADD CONSTRAINT calm CHECK (n < 100)")
        rig.at_source("INSERT INTO t VALUES (3, 500, 3)")
        until(lambda: api.failed_rows() == 1, "a failed row", SECONDS)
        found = rig.differences()
        assert (found.extra, found.missing) == (2, 1), "the target has kept its rows"
        rig.at_target("ALTER TABLE t DROP CONSTRAINT calm", "DELETE FROM t WHERE id < 3")
        (row,) = api.of_feed("/failed-rows")
        assert api.of_feed("/failed-rows/retry", {"ids": [row["id"]]})["exit_code"] == 0
        until(rig.equal, "equal ends", SECONDS)
        assert api.of_feed("/failed-rows") == [] and api.of_feed("/halt") is None
        begins_anew(api)
        rig.at_source("INSERT INTO t VALUES (4, 4, 4)")
        until(rig.equal, "equal ends", SECONDS)
        refused = [api.ask(f"/feeds/{rig.name}/ddl/{word}", {}) for word in ("done", "skip")]
        assert all(status == 409 or status == 503 for status, _ in refused), refused
        assert all("halted" in told["error"] for _, told in refused), refused


def halted(api: Api, statement: str) -> None:
    """Waits until the feed has halted for a statement."""
    until(lambda: api.state()[0] == "needs an operator", "a halt", SECONDS)
    assert statement in json.dumps(api.of_feed("/halt"))
    assert api.of_feed()["exit_code"] == 4


def begins_anew(api: Api, state: str = "") -> None:
    """Has the process restarted.  `state`: of a feed that tells nothing more of itself; '': it runs."""
    before = api.of_feed()["starts"]
    assert api.of_feed("/restart", {})["state"] == "ends"
    runs = api.goes_on if not state else (lambda: api.state() == (state, ""))
    until(lambda: api.of_feed()["starts"] == before + 1 and runs(), "another process", LONG)
    assert api.of_feed()["exit_code"] == 0, "of the one before, which ended in order"


@pytest.mark.proof
def test_a_feed_over_kafka_does_the_same(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, kafka: Broker, tmp_path: Path
) -> None:
    rig = make_rig(mariadb, postgres, "topic", log=kafka.url(), ddl={"add_column": "halt"})
    for table in ("t", "u"):
        rig.table(table, "id int PRIMARY KEY, n int")
    with served(tmp_path, rig) as serving:
        api = serving.api(rig.name)
        assert api.of_feed()["kind"] == "worker"
        rig.at_source("INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1, 1)")
        until(rig.equal, "equal ends", SECONDS)
        assert {one["group"] for one in api.of_feed("/lanes")["lanes"]} == {0, 1}
        assert len(api.of_feed("/status")["scale_out"]["groups"]) == 2
        assert api.of_feed("/pause", {})["exit_code"] == 0
        until(lambda: api.state() == ("runs", "paused"), "a pause", SECONDS)
        rig.at_source("INSERT INTO t VALUES (2, 2)")
        assert api.of_feed("/resume", {})["exit_code"] == 0
        until(rig.equal, "equal ends", SECONDS)
        rig.at_target("ALTER TABLE u ADD CONSTRAINT calm CHECK (n < 100)")
        rig.at_source("INSERT INTO u VALUES (3, 500)")
        until(lambda: api.failed_rows() == 1, "a failed row", SECONDS)
        rig.at_target("ALTER TABLE u DROP CONSTRAINT calm")
        assert api.of_feed("/failed-rows/retry", {"all": True})["exit_code"] == 0
        until(rig.equal, "equal ends", SECONDS)
        begins_anew(api)
        rig.at_source("ALTER TABLE t ADD COLUMN later int")
        until(lambda: api.of_feed("/halt") is not None, "a halt", LONG)
        rig.at_target("ALTER TABLE t ADD COLUMN later int")
        assert api.of_feed("/ddl/done", {})["exit_code"] == 0
        until(api.goes_on, "the feed behind its halt", LONG)
        rig.at_source("INSERT INTO t VALUES (4, 4, 4)")
        until(rig.equal, "equal ends", LONG)
        found = api.done("/verify", {}, LONG)
        assert (found["state"], found["exit_code"]) == ("done", 0), found
        api.of_feed("/stop", {})
        until(lambda: api.state() == ("stopped", ""), "a stop", SECONDS)
    assert "Traceback" not in serving.said()


@pytest.mark.proof
@pytest.mark.timeout(2400)
def test_a_feed_into_hive_is_shown_and_begun_anew_and_refuses_the_rest_by_name(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path
) -> None:
    """Its PostgreSQL end is not used.  Its process tells its merges in words alone."""
    rig = make_rig(mariadb, postgres, "lake", hive=HIVE, spark=SPARK)
    rig.target_url = f"hive://{tmp_path}/warehouse"
    rig.at_source("CREATE TABLE t (id int PRIMARY KEY, n int)")
    with served(tmp_path) as serving:
        serving.put(rig.feed)
        assert serving.process is not None
        os.kill(serving.process.pid, signal.SIGHUP)
        api = serving.api(rig.name)
        until(lambda: api.state() == ("runs", ""), "a process", SECONDS)

        def merged(changes: int) -> None:
            until(lambda: api.of_feed("/status")["changes"] == changes, "a merge", LONG)

        assert api.of_feed()["kind"] == "hive"
        rig.at_source("INSERT INTO t VALUES (1, 1), (2, 2)")
        merged(2)
        begins_anew(api, "runs")
        rig.at_source("UPDATE t SET n = 3 WHERE id = 1")
        merged(3)
        assert api.done("/check", {}, LONG)["report"]["ok"]
        assert api.ask(f"/feeds/{rig.name}/lanes")[0] == 503
        for path, body in (("pause", {}), ("resume", {}), ("ddl/done", {}), ("failed-rows/retry", {"all": True})):
            status, told = api.ask(f"/feeds/{rig.name}/{path}", body)
            assert status in (409, 503) and "Hive" in told["error"], (path, status, told)
        for path, body in (("copy", {"keep": True}), ("verify", {})):
            job = api.done(f"/{path}", body, LONG)
            assert job["state"] == "failed" and "Hive" in job["error"], job
        api.of_feed("/stop", {})
        until(lambda: api.state() == ("stopped", ""), "a stop", LONG)
        assert api.of_feed()["exit_code"] == 0, "it ended before `serve` would have killed it"
        api.of_feed("/start", {})
        until(lambda: api.state() == ("runs", ""), "a start", LONG)
    assert "Traceback" not in serving.said()
