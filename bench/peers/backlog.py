"""The work to catch up with: committed once at a source, and read by every system from where it begins."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.harness.kept_log import KeptLog
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.session import connect
from bench.harness.workload.tables import replica_identity
from bench.harness.workload.workload import Workload

SCHEMA: Final = "peers"
END: Final = "backlog_end"
"""A table of one column; its only row, 1, is the last change of the backlog."""
STATUS: Final = {"mariadb": "SHOW MASTER STATUS", "mysql": "SHOW BINARY LOG STATUS"}
FLUSH: Final = "innodb_flush_log_at_trx_commit"
ASYNC: Final = "SET synchronous_commit = off"


class Backlog(abc.ABC):
    """Context manager: the source runs and holds the backlog.

    `start`: as a feed's key has it.  `feed`: the name that a feed must have, or empty.
    """

    feed = ""

    def __init__(self, server: Server, workload: Workload, changes: int, seed: int) -> None:
        self.server, self.workload, self.changes = server, workload, changes
        self.start = "now"
        self._seed = seed

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

    @property
    def ddl(self) -> list[str]:
        """Statements that make the tables in the session's schema, the one that marks the end too."""
        return [*self.workload.ddl(self.flavor), f"CREATE TABLE {END} (id bigint NOT NULL PRIMARY KEY)"]

    @property
    @abc.abstractmethod
    def flavor(self) -> str: ...

    @abc.abstractmethod
    def _load(self) -> None:
        """Makes the tables and commits the backlog."""

    def begin(self, feed: Path, target: Server) -> None:  # noqa: B027  # only a slot must be put back
        """Have a feed that never ran begin where the backlog does; its clock has not started."""


class BinlogBacklog(Backlog):
    """At MariaDB or MySQL.

    `start` and `end` are `FILE:OFFSET` behind the tables' creation and behind the last change, `start_gtid` and
    `end_gtid` the same as MariaDB's GTIDs; those are empty where the source is MySQL.
    """

    server: MariaDb | MySql

    def __init__(self, server: MariaDb | MySql, workload: Workload, changes: int, seed: int) -> None:
        super().__init__(server, workload, changes, seed)
        self.end = self.start_gtid = self.end_gtid = ""

    @property
    def flavor(self) -> str:
        return self.server.scheme

    def _load(self) -> None:
        """Nobody waits for the disk meanwhile."""
        server = self.server
        server.execute(f"CREATE DATABASE {SCHEMA}")
        for statement in self.ddl:
            server.execute(statement, database=SCHEMA)
        self.start, self.start_gtid = position(server), gtid(server)
        with _no_flush(server):
            self.workload.run(server.url(SCHEMA), self.changes, self._seed)
            server.execute(f"INSERT INTO {SCHEMA}.{END} VALUES (1)")
        self.end, self.end_gtid = position(server), gtid(server)


class SlotBacklog(Backlog):
    """At PostgreSQL: tables of the database `SCHEMA`.  `identity`: what they log of a row before its change, FULL or
    DEFAULT.  `kept`: the log of the backlog."""

    server: Postgres
    feed = "peers"
    flavor = "postgres"
    kept: KeptLog

    def __init__(self, server: Postgres, workload: Workload, changes: int, seed: int, identity: str = "FULL") -> None:
        super().__init__(server, workload, changes, seed)
        self._identity = identity

    @property
    def url(self) -> str:
        return self.server.url(SCHEMA)

    def _load(self) -> None:
        server = self.server
        server.execute(f"CREATE DATABASE {SCHEMA}")
        server.execute(f"ALTER DATABASE {SCHEMA} SET search_path = {SCHEMA}")
        server.execute(f"CREATE SCHEMA {SCHEMA}", database=SCHEMA)
        for statement in (*self.ddl, *replica_identity(self.workload.specs, self._identity)):
            server.execute(statement, database=SCHEMA)
        self.kept = KeptLog(server, SCHEMA, self.feed, [*self.tables, f"{SCHEMA}.{END}"])
        session = connect(self.url)
        try:
            session.send(ASYNC)
            self.workload.run(session, self.changes, self._seed)
            session.send(f"INSERT INTO {END} VALUES (1)")
        finally:
            session.close()
        for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
            server.execute(statement, database=SCHEMA)

    def begin(self, feed: Path, target: Server) -> None:
        self.kept.begin(feed, target)


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
