"""One case of a series: a source with its backlog, a target, and catch-ups of it, each into empty tables.

Every case has servers of its own, so that a feed's log holds its own work alone and the cases of a series can take
turns.  A catch-up is timed twice: from the start of the process until it ends, and from the first row's commit to the
last one's, as the target's clock gave them.  Memory is what is resident, of tidelock's own processes; pages that two of
them share count twice, so the tree's figure is never too small.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.growth import many
from bench.harness.kept_log import KeptLog
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres, Server
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.harness.workload.workload import Workload

CATCH_UP_SECONDS: Final = 1800.0
OURS: Final = ("run", "capture")
MEMORY_LIMIT_MB: Final = 300.0
MARIADB: Final = "mariadb"
MANY_LOCKS: Final = ("-c", "max_locks_per_transaction=512")
MANY_TABLES: Final = ("--table-definition-cache=4000", "--table-open-cache=8000", "--innodb-flush-log-at-trx-commit=0")
SOURCES: Final[Mapping[str, Callable[[], Server]]] = {
    MARIADB: lambda: MariaDb(MANY_TABLES),
    "postgres": lambda: Postgres(MANY_LOCKS),
}


class Differs(RuntimeError):
    """A catch-up ended with rows that are not those of the source."""


@dataclasses.dataclass(frozen=True)
class Run:
    """`x`: how many tables, bytes, changes or lanes.  `cpu_us`: a row, by process.  `peak_mb`: by process; `tree_mb`:
    of tidelock's processes together.  `curves`: name → (seconds, resident MB), thinned to one point a second."""

    case: str
    x: int
    changes: int
    seconds: float
    flowing_seconds: float
    cpu_us: Mapping[str, float]
    peak_mb: Mapping[str, float]
    tree_mb: float
    load_average: float
    curves: Mapping[str, list[tuple[float, float]]] = dataclasses.field(repr=False)

    @property
    def rows_per_second(self) -> float:
        return self.changes / self.seconds

    @property
    def flowing_rows_per_second(self) -> float:
        return self.changes / max(self.flowing_seconds, 1e-3)

    def __str__(self) -> str:
        used = ", ".join(f"{name} {used:.1f}" for name, used in self.cpu_us.items())
        rates = f"{self.rows_per_second:>8,.0f} rows/s from start, {self.flowing_rows_per_second:>8,.0f} flowing"
        return f"{self.case:<16}{rates}; CPU µs a row: {used}; tree {self.tree_mb:.0f} MB; load {self.load_average:.1f}"


class Ground:
    """Context manager: both servers run and the backlog is committed.

    `label` and `x` name the case in its runs; `number` tells grounds in one folder apart.  `source`: one of `SOURCES`.
    `options`: of the feed.
    """

    def __init__(
        self,
        label: str,
        x: int,
        workload: Workload,
        changes: int,
        folder: Path,
        number: int = 0,
        source: str = MARIADB,
        **options: Any,
    ) -> None:
        self.label, self.x, self.changes, self._number = label, x, changes, number
        self._workload, self._folder, self._options = workload, folder, options
        self._stack = contextlib.ExitStack()
        self._rounds = 0
        self._kept: KeptLog | None = None
        self.source, self.target = SOURCES[source](), Postgres(MANY_LOCKS)
        self.rig: Rig

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.source)
            self._stack.enter_context(self.target)
            self.rig = Rig(self.source, self.target, self._folder, f"growth_{self._number}", **self._options)
            self._stack.callback(self.rig.close)
            self._name = self.rig.name
            self.rig.at_source(*self._workload.ddl(self.rig.flavor))
            self.rig.tables = self._workload.tables
            if isinstance(self.source, Postgres):
                self._kept = KeptLog(self.source, self.rig.schema, self.rig.name, self.tables)
            self.rig.start_at = self.rig.here()
            self.rig.load(self._workload, self.changes)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def servers(self) -> dict[str, Server]:
        return {"source": self.source, "target": self.target}

    @property
    def tables(self) -> list[str]:
        return [f"{self.rig.schema}.{table}" for table in self.rig.tables]

    def fresh(self) -> Rig:
        """Empty tables, no bookkeeping, a feed that never ran; returns its rig."""
        rig = self.rig
        rig.fresh_target(self.target, self._workload)
        self._rounds += 1
        if self._kept:
            self._kept.begin(rig.feed, self.target)
        else:
            rig.name = f"{self._name}_{self._rounds}"
        self.target.execute("CHECKPOINT")
        return rig

    def rest(self) -> None:
        """Drop the target's tables: what it still does about them would weigh on the turns of other cases.  Their files
        go now, at the checkpoint, and not when the case has its next turn: a file system without a journal passes over
        the inodes that were freed lately, one by one, whenever it makes a file."""
        self.rig.at_target(f"DROP SCHEMA IF EXISTS {self.rig.schema} CASCADE")
        self.target.execute("CHECKPOINT")

    def differences(self) -> int:
        return many.differences(self.rig.source_url, self.target.url(), self.tables)

    def catch_up(self, check: bool = True) -> Run:
        """Raises Differs, and TidelockFailed where it is not done in time."""
        rig = self.fresh()
        begun, clock = time.time(), time.perf_counter()
        process = Process(["run", str(rig.feed), "--until-caught-up"], rig.output)
        try:
            with Usage(lambda: {"run": process.pid, "source": self.source.pid, "target": self.target.pid}) as usage:
                process.wait(CATCH_UP_SECONDS)
        finally:
            if process.running:
                process.kill()
        seconds = time.perf_counter() - clock
        load = os.getloadavg()[0]
        first, last = many.commits(self.target.url(), self.tables)
        assert first >= begun, "a row was there before"
        if check and (found := self.differences()):
            raise Differs(f"{self.label}: {found} rows differ\n{rig.said()[-2000:]}")
        curves = {**{name: usage.curve(name) for name in OURS}, "tree": tree(usage)}
        return Run(
            case=self.label,
            x=self.x,
            changes=self.changes,
            seconds=round(seconds, 3),
            flowing_seconds=round(last - first, 3),
            cpu_us={name: round(used / self.changes * 1e6, 2) for name, used in usage.cpu_seconds.items()},
            peak_mb={name: round(usage.peak_bytes[name] / 1e6, 1) for name in OURS if name in usage.peak_bytes},
            tree_mb=round(highest(curves["tree"]), 1),
            load_average=round(load, 2),
            curves={name: thinned(points) for name, points in curves.items()},
        )


def of_source(name: str, source: str) -> str:
    """Returns the name of a result: results of MariaDB, the first source, have none of it."""
    return name if source == MARIADB else f"{name}-{source}"


def tree(usage: Usage) -> list[tuple[float, float]]:
    """(seconds, resident MB) of tidelock's own processes together."""
    held: dict[float, float] = {}
    for sample in usage.samples:
        if sample.name in OURS:
            held[sample.at] = held.get(sample.at, 0.0) + sample.resident_bytes / 1e6
    return sorted(held.items())


def highest(points: list[tuple[float, float]]) -> float:
    return max((value for _, value in points), default=0.0)


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The largest value of each second."""
    seconds: dict[int, float] = {}
    for at, value in points:
        seconds[int(at)] = max(value, seconds.get(int(at), 0.0))
    return [(float(at), round(value, 1)) for at, value in seconds.items()]
