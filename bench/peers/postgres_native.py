"""The peer to beat: PostgreSQL's own logical replication, one server to another.

A publisher holds the whole backlog; a subscriber on a second server applies it through
one apply worker, as PostgreSQL does by default, with `synchronous_commit = off`.  The
slots are made before the load, one for each round, because a slot that was read once has
nothing left.  A marker row, committed last at the publisher, tells when all of it is
visible: the apply worker commits in the publisher's order.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from bench.harness.servers import Postgres
from bench.harness.session import connect
from bench.harness.workload.workload import Workload
from bench.peers.peer import until, verify

DATABASE = "native"
MARKER = "catchup_marker"
ASYNC = "SET synchronous_commit = off"


class PostgresNative:
    """Context manager: both servers, the backlog loaded; `catch_up()` may be called `rounds` times."""

    def __init__(self, workload: Workload, changes: int, seed: int, rounds: int) -> None:
        self.changes = changes
        self._workload, self._seed = workload, seed
        self._rounds_left = [f"native_{number}" for number in range(rounds)]
        self._publisher = Postgres(extra=("--synchronous-commit=off",))
        # The launcher starts apply workers at most once in this interval (5 s by default), which a second round would
        # count as its own time.
        self._subscriber = Postgres(extra=("--synchronous-commit=off", "--wal-retrieve-retry-interval=50ms"))

    def __enter__(self) -> Self:
        try:
            self._publisher.start()
            self._subscriber.start()
            self._load()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscriber.close()
        self._publisher.close()

    @property
    def source_url(self) -> str:
        return self._publisher.url(DATABASE)

    @property
    def target_url(self) -> str:
        return self._subscriber.url(DATABASE)

    def verify(self) -> None:
        verify(self.source_url, self.target_url, [f"public.{table}" for table in self._workload.tables])

    def catch_up(self) -> float:
        """Seconds from CREATE SUBSCRIPTION, on empty tables, until every change is visible."""
        slot = self._rounds_left.pop(0)
        execute = self._subscriber.execute
        self.rest()
        connection = f"host={self._publisher.host} port={self._publisher.port} user=postgres dbname={DATABASE}"
        begun = time.perf_counter()
        execute(
            f"CREATE SUBSCRIPTION {slot} CONNECTION '{connection}' PUBLICATION everything"
            f" WITH (create_slot = false, slot_name = '{slot}', copy_data = false, enabled = true)",
            database=DATABASE,
        )
        seconds = until(lambda: bool(execute(f"SELECT 1 FROM {MARKER}", database=DATABASE)), lambda: "", begun)
        execute(f"DROP SUBSCRIPTION {slot}", database=DATABASE)  # drops the slot at the publisher too
        return seconds

    def rest(self) -> None:
        """Empty the subscriber's tables: what it still does about them would weigh on the turns of others."""
        self._subscriber.execute(f"TRUNCATE {', '.join([*self._workload.tables, MARKER])}", database=DATABASE)

    def _load(self) -> None:
        for server in (self._publisher, self._subscriber):
            server.execute(f"CREATE DATABASE {DATABASE}")
            for statement in self._workload.ddl("postgres"):
                server.execute(statement, database=DATABASE)
            server.execute(f"CREATE TABLE {MARKER} (id bigint PRIMARY KEY)", database=DATABASE)
        publisher = self._publisher
        publisher.execute("CREATE PUBLICATION everything FOR ALL TABLES", database=DATABASE)
        for slot in self._rounds_left:
            publisher.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", slot, database=DATABASE)
        session = connect(self.source_url)
        try:
            session.send(ASYNC)
            self._workload.run(session, self.changes, self._seed)
            session.send(f"INSERT INTO {MARKER} VALUES (1)")
        finally:
            session.close()
        publisher.execute("VACUUM ANALYZE", database=DATABASE)
        publisher.execute("CHECKPOINT", database=DATABASE)
