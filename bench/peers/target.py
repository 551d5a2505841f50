"""A target that several systems use in turn: emptied for each, and at rest before its clock starts.

Nobody waits for the disk at a target, whichever system writes: PostgreSQL runs without fsync and the writers take
`synchronous_commit = off`; MariaDB and MySQL have `innodb_flush_log_at_trx_commit = 2` and `sync_binlog = 0`.  They
keep their own binary log also as a target, for all alike.
"""

from __future__ import annotations

import time
from typing import Final

from bench.harness.servers import MariaDb, MySql, Postgres
from bench.harness.session import Flavor
from bench.harness.workload.workload import Workload
from bench.peers.backlog import END, SCHEMA

REST_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.05
BOOKS: Final = "tidelock"
"""Schema in which tidelock keeps its bookkeeping."""

FLAVORS: Final = {MariaDb: Flavor.MARIADB, MySql: Flavor.MYSQL, Postgres: Flavor.POSTGRES}


class Target:
    """Tables of `SCHEMA` at a running server."""

    def __init__(self, server: MariaDb | MySql | Postgres) -> None:
        self.server = server
        self.flavor = FLAVORS[type(server)]

    @property
    def url(self) -> str:
        return self.server.url()

    def empty(self, workload: Workload) -> None:
        """Make the workload's tables and the one that marks the end anew; what runs before left nothing to do."""
        execute = self.server.execute
        self._drop()
        for statement in workload.target_ddl(self.flavor, SCHEMA):
            execute(statement)
        execute(f"CREATE TABLE {SCHEMA}.{END} (id bigint NOT NULL PRIMARY KEY)")
        self._rest()

    def rest(self) -> None:
        """Drop the tables: what it still does about them would weigh on the turns of others."""
        self._drop()
        self._rest()

    def ended(self) -> bool:
        """Tell whether the last change of a backlog is visible."""
        return bool(self.server.execute(f"SELECT 1 FROM {SCHEMA}.{END}"))

    def _drop(self) -> None:
        for schema in (SCHEMA, BOOKS):
            self.server.execute(f"DROP SCHEMA IF EXISTS {schema}{' CASCADE' if self.flavor is Flavor.POSTGRES else ''}")

    def _rest(self) -> None:
        """PostgreSQL: a checkpoint now, not during the turn.  MariaDB: the purge of old row versions has ended."""
        if self.flavor is Flavor.POSTGRES:
            self.server.execute("CHECKPOINT")
            return
        deadline = time.monotonic() + REST_SECONDS
        while self._history() > 0 and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _history(self) -> int:
        metric = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
        return int(self.server.execute(metric)[0][0])
