"""Servers that the tests of one worker share.  Their files are in memory, so each test takes its databases with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from bench.harness.servers import Postgres, Server
from bench.harness.servers.place import files_in_memory

LOG_FILE_BYTES: Final = 2 << 20
LOG_BYTES: Final = 64 << 20
RUNNING: Final[list[SharedServer]] = []


class SharedServer:
    """One of them, from test to test.  `begin` and `end`: around a test; what was made for longer stays."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._files = server.database_files()
        self._names = self._kept = server.databases()

    def begin(self) -> None:
        """Keeps what is there.  A short file of the log comes first: each start of a feed reads the file where it
        stands from the beginning (`adapters.mysql.binlog.positions`)."""
        self._kept = self.names()
        if not isinstance(self._server, Postgres) and self._log_files()[-1] > LOG_FILE_BYTES:
            self._server.execute("FLUSH BINARY LOGS")

    def names(self) -> frozenset[str]:
        """Returns the names of its databases, and asks only where there may be others than the last time."""
        files = self._server.database_files()
        if files != self._files:
            self._files, self._names = files, self._server.databases()
        return self._names

    def keep(self, names: frozenset[str]) -> None:
        """Has databases that came while a test ran outlive it."""
        self._kept |= names

    def end(self) -> None:
        """Drops the databases that came since the test began."""
        for name in self.names() - self._kept:
            self._server.drop_database(name)

    def between_modules(self) -> None:
        """Gives up files of the log, which nobody goes on to read."""
        if not isinstance(self._server, Postgres) and sum(self._log_files()) > LOG_BYTES:
            last = max(self._server.data.glob("binlog.0*")).name
            self._server.execute(f"PURGE BINARY LOGS TO '{last}'")

    def _log_files(self) -> list[int]:
        return [path.stat().st_size for path in sorted(self._server.data.glob("binlog.0*"))]


@contextlib.contextmanager
def shared(kind: Callable[..., Server]) -> Iterator[Server]:
    """A running server, which is one of `RUNNING` for as long."""
    with files_in_memory():
        made = kind(**({"extra": ["--max-wal-size=256MB"]} if kind is Postgres else {}))
    with made as server:
        RUNNING.append(one := SharedServer(server))
        yield server
        RUNNING.remove(one)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Has databases that come within outlive the test that runs."""
    before = [(server, server.names()) for server in RUNNING]
    yield
    for server, names in before:
        server.keep(server.names() - names)
