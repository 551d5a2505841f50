"""The work to catch up with: committed once at a source, and read by every system from where it begins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from bench.harness.servers import MariaDb, MySql, Server
from bench.harness.workload.workload import Workload

SCHEMA: Final = "peers"
END: Final = "backlog_end"
"""A table of one column; its only row, 1, is the last change of the backlog."""
STATUS: Final = {"mariadb": "SHOW MASTER STATUS", "mysql": "SHOW BINARY LOG STATUS"}
FLUSH: Final = "innodb_flush_log_at_trx_commit"


class Backlog:
    """Context manager: the source runs and holds the backlog.

    `start` and `end` are `FILE:OFFSET` behind the tables' creation and behind the last change, `start_gtid` and
    `end_gtid` the same as MariaDB's GTIDs; those are empty where the source is MySQL.
    """

    def __init__(self, server: MariaDb | MySql, workload: Workload, changes: int, seed: int) -> None:
        self.server, self.workload, self.changes = server, workload, changes
        self._seed = seed
        self.start = self.end = self.start_gtid = self.end_gtid = ""

    def __enter__(self) -> Self:
        self.server.start()
        try:
            self._load()
        except BaseException:
            self.server.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.close()

    @property
    def url(self) -> str:
        return self.server.url()

    @property
    def tables(self) -> list[str]:
        """By full name, without the one that marks the end."""
        return [f"{SCHEMA}.{table}" for table in self.workload.tables]

    def _load(self) -> None:
        """Nobody waits for the disk meanwhile."""
        server = self.server
        server.execute(f"CREATE DATABASE {SCHEMA}")
        for statement in (*self.workload.ddl(server.scheme), f"CREATE TABLE {END} (id bigint NOT NULL PRIMARY KEY)"):
            server.execute(statement, database=SCHEMA)
        self.start, self.start_gtid = position(server), gtid(server)
        with _no_flush(server):
            self.workload.run(server.url(SCHEMA), self.changes, self._seed)
            server.execute(f"INSERT INTO {SCHEMA}.{END} VALUES (1)")
        self.end, self.end_gtid = position(server), gtid(server)


def position(server: MariaDb | MySql) -> str:
    """Returns the place where the server's log ends, as FILE:OFFSET."""
    file, offset, *_ = server.execute(STATUS[server.scheme])[0]
    return f"{file}:{offset}"


def gtid(server: MariaDb | MySql) -> str:
    """The last GTID in a MariaDB's log."""
    return str(server.execute("SELECT @@gtid_binlog_pos")[0][0]) if isinstance(server, MariaDb) else ""


@contextlib.contextmanager
def _no_flush(server: Server) -> Iterator[None]:
    """MariaDB writes its redo log past the page cache at every commit unless told not to: five times slower here."""
    before = server.execute(f"SELECT @@{FLUSH}")[0][0]
    server.execute(f"SET GLOBAL {FLUSH} = 0")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {FLUSH} = {before}")
