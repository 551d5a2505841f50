"""Tidelock itself, over any pair of source and target, run as its user runs it.

The clock runs from the start of the process, its imports included.  At a PostgreSQL target it stops at the commit of
the last row as the server's own clock gave it; a MariaDB target keeps no such times, and there it stops when the
process has ended, which counts the end of tidelock as work too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.harness.forking import COMMAND
from bench.harness.session import Flavor, connect
from bench.harness.tidelock import Feed, Process, TidelockFailed
from bench.peers.backlog import SCHEMA, Backlog
from bench.peers.peer import CATCH_UP_SECONDS, PeerFailed, verify
from bench.peers.target import Target


class Tidelock:
    """A feed from `backlog` to `target`.  `command`: the program to measure.  `options`: more keys of the feed.

    `exit_seconds`: until the process of the last turn had ended.
    """

    def __init__(
        self,
        backlog: Backlog,
        target: Target,
        folder: Path,
        lanes: int,
        command: Sequence[str] = COMMAND,
        **options: object,
    ) -> None:
        self.changes = backlog.changes
        self.exit_seconds = 0.0
        self._backlog, self._target, self._folder = backlog, target, folder
        self._lanes, self._command, self._options = lanes, command, options
        self._name = backlog.feed or f"{backlog.server.scheme}_{target.server.scheme}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its processes end with their turns."""

    def catch_up(self) -> float:
        backlog, target = self._backlog, self._target
        target.empty(backlog.workload)
        feed = Feed(
            self._name,
            backlog.url,
            target.url,
            SCHEMA,
            start=backlog.start,
            lanes=self._lanes,
            options=self._options,
        )
        path, output = feed.write(self._folder), self._folder / f"{self._name}.log"
        backlog.begin(path, target.server)
        moment, begun = time.time(), time.perf_counter()
        process = Process(["run", str(path), "--until-caught-up"], output, self._command)
        try:
            process.wait(CATCH_UP_SECONDS)
        except TidelockFailed as error:
            raise PeerFailed(str(error)) from error
        finally:
            if process.running:
                process.kill()
        self.exit_seconds = time.perf_counter() - begun
        if target.flavor is not Flavor.POSTGRES:
            return self.exit_seconds
        return last_commit(target.url, backlog.tables) - moment

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)


def last_commit(url: str, tables: Sequence[str]) -> float:
    """Returns when the youngest row of `tables` in PostgreSQL was committed, in seconds since the epoch."""
    session = connect(url)
    try:
        queries = (f"SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::text FROM {t}" for t in tables)
        return max(float(session.rows(query)[0][0] or 0) for query in queries)
    finally:
        session.close()
