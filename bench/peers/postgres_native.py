"""The peer to beat: PostgreSQL's own logical replication, one server to another.

The publisher holds the backlog behind a slot that was made before it, of which each turn reads a copy; our feeds from
PostgreSQL read copies of the same slot at the same server.  A subscription applies it through one apply worker, as
PostgreSQL does by default, with `synchronous_commit = off`, which is its default too.  The clock runs from its ENABLE
until the row is visible that is committed last: the apply worker commits in the publisher's order.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from bench.peers.backlog import SCHEMA, SlotBacklog
from bench.peers.peer import until, verify
from bench.peers.target import Target

SUBSCRIPTION: Final = "peers_native"
# The launcher starts apply workers at most once in this interval (5 s by default), which a second round would count as
# its own time.
RETRY: Final = "ALTER SYSTEM SET wal_retrieve_retry_interval = '50ms'"


class PostgresNative:
    """`target`: a PostgreSQL."""

    def __init__(self, backlog: SlotBacklog, target: Target) -> None:
        self.changes = backlog.changes
        self._backlog, self._target = backlog, target

    def __enter__(self) -> Self:
        for statement in (RETRY, "SELECT pg_reload_conf()"):
            self._target.server.execute(statement)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Its subscription ends with its turn."""

    def catch_up(self) -> float:
        backlog, target = self._backlog, self._target
        target.empty(backlog.workload)
        self._subscribe()
        begun = time.perf_counter()
        target.server.execute(f"ALTER SUBSCRIPTION {SUBSCRIPTION} ENABLE")
        try:
            return until(target.ended, lambda: "", begun)
        finally:
            target.server.execute(f"DROP SUBSCRIPTION {SUBSCRIPTION}")  # and its slot at the publisher

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)

    def _subscribe(self) -> None:
        backlog, server = self._backlog, self._backlog.server
        backlog.kept.give(SUBSCRIPTION)
        connection = f"host={server.host} port={server.port} user={server.user} dbname={SCHEMA}"
        self._target.server.execute(
            f"CREATE SUBSCRIPTION {SUBSCRIPTION} CONNECTION '{connection}' PUBLICATION {backlog.kept.publication}"
            f" WITH (create_slot = false, slot_name = '{SUBSCRIPTION}', copy_data = false, enabled = false)"
        )
