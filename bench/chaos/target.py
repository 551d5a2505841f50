"""Blows to a target that goes on running: all its connections taken, or no write allowed.

The feed has a user of its own, so that what is kept free for administrators is not for the feed.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final

import asyncpg
import pymysql

from bench.chaos.checkpoints import leave
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.servers.place import give
from bench.harness.session import Flavor, Session, connect

FEEDER: Final = "feeder"
CROWD: Final = "crowd"
PASSWORD: Final = "pass-word"
MOST_CONNECTIONS: Final = 40
AGAIN_SECONDS: Final = 0.05
# For a server program: a small hall fills fast.
POSTGRES_HALL: Final = (f"--max-connections={MOST_CONNECTIONS}",)
MYSQL_HALL: Final = (f"--max-connections={MOST_CONNECTIONS}",)
_TOO_MANY: Final = 1040
_MYSQL_GRANTS: Final = (
    "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES, TRIGGER, EXECUTE, LOCK TABLES, PROCESS"
)


class Target:
    """`schema`: where the feed's tables are."""

    def __init__(self, server: Server, schema: str) -> None:
        self.server = server
        self._schema = schema
        self._postgres = server.scheme == "postgresql"

    def admit(self, tables: Sequence[str]) -> None:
        """Make the feed's user and the crowd's."""
        with self._administrator() as session:
            if self._postgres:
                session.send(
                    f"CREATE ROLE {FEEDER} LOGIN PASSWORD '{PASSWORD}';"
                    f"CREATE ROLE {CROWD} LOGIN PASSWORD '{PASSWORD}';"
                    f"GRANT CREATE ON DATABASE postgres TO {FEEDER}; ALTER SCHEMA {self._schema} OWNER TO {FEEDER};"
                    + ";".join(f"ALTER TABLE {self._schema}.{table} OWNER TO {FEEDER}" for table in tables)
                )
            else:
                session.send(
                    f"CREATE USER {FEEDER}@'%' IDENTIFIED BY '{PASSWORD}'; CREATE USER {CROWD}@'%' IDENTIFIED BY"
                    f" '{PASSWORD}'; GRANT {_MYSQL_GRANTS} ON *.* TO {FEEDER}@'%'"
                )

    def url(self, port: int) -> str:
        """For the feed, by way of `port`."""
        return self.server.url(user=FEEDER, password=PASSWORD).replace(f":{self.server.port}/", f":{port}/")

    @contextlib.contextmanager
    def _administrator(self) -> Iterator[Session]:
        session = connect(self.server)
        try:
            yield session
        finally:
            leave(session)

    def unique_violations(self) -> int:
        """Count those of rows.  A receipt that is there already only says that its batch's answer was lost.

        MySQL keeps no text of its errors to tell them apart, so its own are not judged.
        """
        if isinstance(self.server, Postgres):
            found = re.findall(r" 23505 ERROR: .*", self.server.log_text())
        elif isinstance(self.server, MariaDb):
            found = re.findall(r"ERROR (?:1062|1022|1586|1761|1762):.*", self.server.statement_errors())
        else:
            found = []
        return sum("tidelock_progress" not in line for line in found)

    def read_only(self, seconds: float) -> None:
        """For so long it refuses to write.

        A PostgreSQL comes back as a standby that is promoted later, as after a failover that was too early: a default
        for new transactions would not do, as the feed's sessions set their own.
        """
        if self._postgres:
            self.server.stop()
            signal = self.server.data / "standby.signal"
            signal.touch()
            give(signal, self.server.account)
            self.server.start()
        self._set_read_only(True)
        time.sleep(seconds)
        self._set_read_only(False)

    def _set_read_only(self, wanted: bool) -> None:
        with self._administrator() as session:
            if not self._postgres:
                session.send(f"SET GLOBAL read_only = {int(wanted)}")
            elif not wanted:
                session.send("SELECT pg_promote()")

    def crowd(self, seconds: float) -> None:
        """For so long the crowd has every connection; the feed's own are ended, and the crowd takes those too."""
        taken: list[Session] = []
        until = time.monotonic() + seconds
        try:
            with self._administrator() as session:
                while time.monotonic() < until:
                    while (one := self._one_more()) is not None:
                        taken.append(one)
                    self._end_feed(session)
                    time.sleep(AGAIN_SECONDS)
        finally:
            for one in taken:
                leave(one)

    def _one_more(self) -> Session | None:
        try:
            return connect(self.server.url(user=CROWD, password=PASSWORD))
        except asyncpg.TooManyConnectionsError:
            return None
        except pymysql.err.OperationalError as error:
            if error.args[0] != _TOO_MANY:
                raise
            return None

    def _end_feed(self, session: Session) -> None:
        if session.flavor is Flavor.POSTGRES:
            session.send(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{FEEDER}'")
            return
        found = session.rows(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{FEEDER}'")
        for (number,) in found:
            with contextlib.suppress(pymysql.err.OperationalError):  # it has ended by itself
                session.send(f"KILL {number}")
