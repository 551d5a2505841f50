"""`tidelock serve` over a folder of feeds, and its control API, asked with a token."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from bench.harness.forking import COMMAND
from bench.harness.rig import Rig, until
from bench.harness.servers.place import free_port
from bench.harness.tidelock import Process

TOKEN: Final = "0123456789abcdef-token"
OWNER: Final = "ann"
"""The name of the token."""
ANSWER_SECONDS: Final = 330.0
BEGIN_SECONDS: Final = 120.0


class Api:
    """The API at an address.  `feed`: that `of_feed` and what is made of it ask about."""

    def __init__(self, address: str, feed: str = "") -> None:
        self.place, self._feed = f"http://{address}/api/v1", feed

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a POST where there is a body; returns status and JSON, (0, None) while nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.place + path, data, headers)
        try:
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())
        except (OSError, HTTPException):
            return 0, None

    def of_feed(self, path: str = "", body: Any = None) -> Any:
        """Returns the answer about the feed.  Raises AssertionError where it is a refusal."""
        status, told = self.ask(f"/feeds/{self._feed}{path}", body)
        assert status in (200, 202), (status, told)
        return told

    def state(self) -> tuple[str, str]:
        """Returns the state of the feed's process, and that of the feed."""
        status, told = self.ask(f"/feeds/{self._feed}")
        return (told["state"], (told["sample"] or {}).get("state", "")) if status == 200 else ("", "")

    def failed_rows(self) -> int:
        """Returns how many the feed's process tells of."""
        return int(self.of_feed()["sample"]["failed_rows"])

    def goes_on(self) -> bool:
        """Tells whether the feed runs."""
        return self.state() in (("runs", "running"), ("runs", "caught up"))

    def done(self, path: str, body: Any, seconds: float = 60.0) -> Any:
        """Begins a job, and returns it once it has ended."""
        number = self.of_feed(path, body)["job"]
        until(lambda: bool(self.ask(f"/jobs/{number}")[1]["state"] != "runs"), f"the job {path}", seconds)
        return self.ask(f"/jobs/{number}")[1]


class Served:
    """A folder of feeds below `place`, and the `serve` that runs them.  `output`: what it has said.  `program`: the
    `tidelock` that is started, this checkout's unless a test says otherwise."""

    def __init__(self, place: Path, program: Sequence[str] = COMMAND) -> None:
        self._program = program
        self.folder, self.output = place / "feeds", place / "said"
        self.address = f"127.0.0.1:{free_port()}"
        self.process: Process | None = None
        self._tokens = place / "tokens"
        self.folder.mkdir()
        self._tokens.write_text(f"{OWNER}:{TOKEN}\n")
        self._tokens.chmod(0o600)

    def put(self, feed: Path) -> Path:
        """Puts a feed's file into the folder."""
        return Path(shutil.copy(feed, self.folder))

    def start(self) -> Process:
        """Starts `serve`."""
        words = ["serve", str(self.folder), "--http", self.address, "--token-file", str(self._tokens)]
        self.process = Process(words, self.output, self._program)
        return self.process

    def api(self, feed: str = "") -> Api:
        """Returns the API, for one feed."""
        return Api(self.address, feed)

    def said(self) -> str:
        """Returns the output so far."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def audit(self) -> list[dict[str, Any]]:
        """Returns the lines of the audit file."""
        return [json.loads(text) for text in (self.folder / ".audit.jsonl").read_text().splitlines()]


@contextmanager
def served(place: Path, *rigs: Rig) -> Iterator[Served]:
    """Serves the rigs' feeds below `place` while the block runs; it begins once they run, and `serve` must end well."""
    made = Served(place)
    for rig in rigs:
        made.put(rig.feed)
    process = made.start()
    try:
        until(lambda: made.api().ask("/feeds")[0] == 200, "the API", BEGIN_SECONDS)
        for rig in rigs:
            until(made.api(rig.name).goes_on, f"the feed {rig.name}", BEGIN_SECONDS)
        yield made
    finally:
        process.stop()
    assert process.code(1.0) == 0, made.said()
