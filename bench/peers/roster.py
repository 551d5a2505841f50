"""Roster of the systems, and of ours with which each is compared.

Systems that read the same kind of source share one server with one backlog, and those that write the same kind of
target share one that is emptied for each, so that the machine does not carry a server for everybody.  A slow system has
a smaller backlog of its own: rates are compared, not times.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.servers.kafka_jars import kafka_version
from bench.harness.workload.workload import Workload
from bench.peers.backlog import Backlog, BinlogBacklog, SlotBacklog
from bench.peers.connect_jars import debezium_version
from bench.peers.debezium import Debezium
from bench.peers.go_mysql import GoMySql, go_mysql_version
from bench.peers.mariadb_native import MariaDbNative
from bench.peers.peer import Peer
from bench.peers.pg_chameleon import PgChameleon, chameleon_version
from bench.peers.postgres_native import PostgresNative
from bench.peers.target import Target
from bench.peers.tidelock import Tidelock

OURS: Final = (
    "mariadb-postgres",
    "mysql-postgres",
    "mariadb-mariadb",
    "mariadb-mysql",
    "postgres-postgres",
    "postgres-mariadb",
)
BINLOGS: Final[Mapping[str, type[MariaDb] | type[MySql]]] = {"mariadb": MariaDb, "mysql": MySql}
TARGETS: Final[Mapping[str, type[MariaDb] | type[MySql] | type[Postgres]]] = {**BINLOGS, "postgres": Postgres}


@dataclasses.dataclass(frozen=True)
class Plan:
    """Settings that all systems of one run have in common.  `slow_changes`: the backlog of slow systems.  `identity`:
    REPLICA IDENTITY at a PostgreSQL source.  `command`: our program; `against`: another checkout's, where one is."""

    workload: Callable[[], Workload]
    changes: int
    slow_changes: int
    rounds: int
    seed: int
    lanes: int
    command: Sequence[str]
    identity: str = "full"
    against: Sequence[str] = ()


class Field:
    """The servers of one run: each is started when the first system asks for it, and ends with `stack`."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path, plan: Plan) -> None:
        self.plan, self.folder = plan, folder
        self._stack = stack
        self._backlogs: dict[tuple[str, int], BinlogBacklog] = {}
        self._kept: SlotBacklog | None = None
        self._targets: dict[str, Target] = {}

    def source(self, kind: str) -> Backlog:
        """The backlog of a kind of server.  Raises ServerMissing, ServerFailed."""
        return self.backlog(kind) if kind in BINLOGS else self.kept()

    def backlog(self, kind: str, *, slow: bool = False) -> BinlogBacklog:
        """Raises ServerMissing, ServerFailed."""
        changes = self.plan.slow_changes if slow else self.plan.changes
        if (kind, changes) not in self._backlogs:
            work = BinlogBacklog(BINLOGS[kind](), self.plan.workload(), changes, self.plan.seed)
            self._backlogs[kind, changes] = self._stack.enter_context(work)
        return self._backlogs[kind, changes]

    def kept(self) -> SlotBacklog:
        """The backlog at PostgreSQL.  Raises ServerMissing, ServerFailed."""
        if self._kept is None:
            plan = self.plan
            work = SlotBacklog(Postgres(), plan.workload(), plan.changes, plan.seed, plan.identity)
            self._kept = self._stack.enter_context(work)
        return self._kept

    def target(self, kind: str) -> Target:
        """Raises ServerMissing, ServerFailed."""
        if kind not in self._targets:
            server: MariaDb | MySql | Postgres = TARGETS[kind]()
            self._targets[kind] = Target(server)
            self._stack.enter_context(server)
        return self._targets[kind]

    def servers(self) -> dict[str, Server]:
        """One of each kind that runs."""
        servers: dict[str, Server] = {kind: backlog.server for (kind, _), backlog in self._backlogs.items()}
        servers |= {"postgres": self._kept.server} if self._kept else {}
        return servers | {kind: target.server for kind, target in self._targets.items()}


@dataclasses.dataclass(frozen=True)
class Entry:
    """`beside`: those of ours that do the same work.  `version`: of its tools; empty for a server's own replication.

    `make`, and entering what it made, raise PeerMissing, ServerMissing, ServerFailed.
    """

    make: Callable[[Field], Peer]
    beside: tuple[str, ...] = ()
    version: str = ""


def tidelock(pair: str, *, other: bool = False) -> Entry:
    """Our feed from a source to a target, as `OURS` names it; `other`: by the program of another checkout."""
    source, _, target = pair.partition("-")

    def make(field: Field) -> Peer:
        plan = field.plan
        command = plan.against if other else plan.command
        return Tidelock(field.source(source), field.target(target), field.folder, plan.lanes, command)

    return Entry(make, (pair,) if other else ())


def _mariadb_native(threads: int) -> Callable[[Field], Peer]:
    return lambda field: MariaDbNative(field.backlog("mariadb"), field.target("mariadb"), threads)


def _postgres_native(field: Field) -> Peer:
    return PostgresNative(field.kept(), field.target("postgres"))


def _debezium(field: Field) -> Peer:
    return Debezium(field.backlog("mariadb", slow=True), field.target("postgres"))


def _go_mysql(field: Field) -> Peer:
    return GoMySql(field.backlog("mariadb"), field.target("postgres"), field.folder)


def _pg_chameleon(field: Field) -> Peer:
    return PgChameleon(field.backlog("mariadb", slow=True), field.target("postgres"))


PEERS: Final[dict[str, Entry]] = {
    "postgres-native": Entry(_postgres_native, ("postgres-postgres", "mariadb-postgres", "mysql-postgres")),
    "mariadb-native": Entry(_mariadb_native(0), ("mariadb-mariadb",)),
    "mariadb-native-4": Entry(_mariadb_native(4), ("mariadb-mariadb",)),
    "debezium": Entry(_debezium, ("mariadb-postgres",), f"{debezium_version()}, Kafka {kafka_version()}"),
    "go-mysql": Entry(_go_mysql, ("mariadb-postgres",), go_mysql_version()),
    "pg-chameleon": Entry(_pg_chameleon, ("mariadb-postgres",), chameleon_version()),
}
