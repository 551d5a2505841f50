"""The series: one thing grows, all else stays; the cases take turns, so that a busy machine hurts them alike.  A case
leaves empty tables behind, so that its servers are at rest in the turns of others.

| series | what grows | what should stay |
|---|---|---|
| tables | 1 to 2,000 tables, evenly or with 20 of them taking 80 % | the rate |
| width | 100 bytes to 16 kB a row | memory |
| backlog | 100,000 to 10 million changes | the cost of a row, memory |
| lanes | 1 to 16 | – |

Beside the tables stands what PostgreSQL's own logical replication loses on the same work.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.growth.ground import MANY_LOCKS, MARIADB, MEMORY_LIMIT_MB, Differs, Ground, Run, of_source
from bench.growth.many import differences
from bench.growth.narrow import Narrow
from bench.growth.shown import FLAT, KEPT, SKEWED, as_table, costs, shown
from bench.growth.spread import Spread
from bench.harness.servers import Postgres
from bench.harness.workload.workload import Workload
from bench.outcome import RESULTS, Outcome
from bench.peers.backlog import SlotBacklog
from bench.peers.postgres_native import PostgresNative
from bench.peers.target import Target

TABLES: Final = {"1 table": (1, 0), "20": (20, 0), "200": (200, 0), "2,000": (2000, 0), "2,000, 20 hot": (2000, 20)}
NATIVE: Final = ("1 table", "2,000", "2,000, 20 hot")
WIDTHS: Final = (100, 1_000, 4_000, 16_000)
WIDTH_BYTES: Final = 320_000_000
BACKLOGS: Final = (100_000, 1_000_000)
FULL_BACKLOG: Final = 10_000_000
LANES: Final = (1, 2, 4, 8, 16)
EIGHT: Final = 8
SEED: Final = 1


@dataclasses.dataclass(frozen=True)
class Case:
    """One ground to be: `options` of its feed beside the lanes."""

    label: str
    x: int
    workload: Callable[[], Workload]
    changes: int
    lanes: int = EIGHT


@dataclasses.dataclass(frozen=True)
class Native:
    """A catch-up of PostgreSQL's own replication on the case's work."""

    case: str
    changes: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.case:<16}{self.changes / self.seconds:>8,.0f} rows/s by PostgreSQL's own replication"


def tables(changes: int) -> list[Case]:
    return [Case(label, count, partial(Spread, count, hot), changes) for label, (count, hot) in TABLES.items()]


def widths(changes: int) -> list[Case]:
    """Fewer changes where rows are wide: about as many bytes."""
    return [
        Case(f"{size:,} bytes", size, partial(Spread, 1, payload_bytes=size), min(changes, WIDTH_BYTES // size))
        for size in WIDTHS
    ]


def backlogs(full: bool, longest: int = 0) -> list[Case]:
    """`longest`: a short one and this one; 0: the usual ones."""
    sizes = (*BACKLOGS, FULL_BACKLOG) if full else BACKLOGS
    if longest:
        sizes = (min(BACKLOGS[0], max(longest // 10, 1)), longest)
    return [Case(f"{size:,} changes", size, Narrow, size) for size in sizes]


def lanes(changes: int) -> list[Case]:
    return [Case(f"{count} lanes", count, partial(Spread, 1), changes, lanes=count) for count in LANES]


def measure(
    name: str,
    cases: Sequence[Case],
    rounds: int,
    native: Sequence[str] = (),
    folder: Path = RESULTS,
    source: str = MARIADB,
) -> dict[str, Any]:
    """Run all cases `rounds` times in turn and write `growth-NAME.json` to `folder`, with the source in the name where
    it is not MariaDB; `native`: cases of the peer too.

    Raises Differs.
    """
    runs: list[Run | Native] = []
    with contextlib.ExitStack() as stack:
        feeds = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-growth-")))
        outcome: Outcome | None = None
        turns: list[Callable[[], Run | Native]] = []
        for number, case in enumerate(cases):
            ground = Ground(case.label, case.x, case.workload(), case.changes, feeds, number, source, lanes=case.lanes)
            stack.enter_context(ground)
            outcome = outcome or Outcome(of_source(f"growth-{name}", source), ground.servers)
            print(f"{case.label}: {case.changes:,} changes loaded", flush=True)
            turns.append(partial(_ours, ground))
            if case.label in native:
                turns.append(partial(_native, case, *_peer(stack, case)))
        for _ in range(rounds):
            for turn in turns:
                runs.append(turn())
                print(runs[-1], flush=True)
        assert outcome is not None, "a series has cases"
        medians = list(_cases(cases, runs))
        part = shown(name, medians, [run for run in runs if isinstance(run, Run)])
        report = {"rounds": rounds, "cases": medians, "runs": runs, "shown": part}
        path = outcome.write(report, folder)
    print(as_table(part), f"written to {path.name}", sep="\n")
    return report


def _ours(ground: Ground) -> Run:
    run = ground.catch_up()
    ground.rest()
    return run


def _peer(stack: contextlib.ExitStack, case: Case) -> tuple[PostgresNative, SlotBacklog, Target]:
    """PostgreSQL's own replication of the case's work, its backlog and its target: servers of their own."""
    backlog = stack.enter_context(SlotBacklog(Postgres(), case.workload(), case.changes, SEED))
    target = Target(stack.enter_context(Postgres(MANY_LOCKS)))
    return stack.enter_context(PostgresNative(backlog, target)), backlog, target


def _native(case: Case, peer: PostgresNative, backlog: SlotBacklog, target: Target) -> Native:
    seconds = peer.catch_up()
    if found := differences(backlog.url, target.url, backlog.tables):
        raise Differs(f"PostgreSQL's own replication, {case.label}: {found} rows differ")
    target.rest()
    return Native(case.label, case.changes, round(seconds, 3))


def _cases(cases: Sequence[Case], runs: Sequence[Run | Native]) -> Iterator[dict[str, Any]]:
    """The median of each case, and the first case's rate that it keeps (`kept`: 1.0 is all of it)."""
    first: dict[str, float] = {}
    for case in cases:
        ours = [run for run in runs if isinstance(run, Run) and run.case == case.label]
        peers = [run.changes / run.seconds for run in runs if isinstance(run, Native) and run.case == case.label]
        rates = {
            "rows_per_second": statistics.median(run.rows_per_second for run in ours),
            "flowing_rows_per_second": statistics.median(run.flowing_rows_per_second for run in ours),
            **({"native_rows_per_second": statistics.median(peers)} if peers else {}),
        }
        for key, rate in rates.items():
            first.setdefault(key, rate)
        yield {
            "case": case.label,
            "x": case.x,
            "changes": case.changes,
            **{key: round(rate) for key, rate in rates.items()},
            "kept": {key: round(rate / first[key], 3) for key, rate in rates.items()},
            "cpu_us": {
                name: round(statistics.median(run.cpu_us.get(name, 0.0) for run in ours), 2) for name in ours[0].cpu_us
            },
            "tree_mb": max(run.tree_mb for run in ours),
        }


def missed(report: Mapping[str, Any]) -> list[str]:
    """List what fails: bounded memory, the rate of a skewed feed, the cost of a row in a long backlog."""
    lines = [
        f"{case['case']}: the process tree held {case['tree_mb']:.0f} MB, {MEMORY_LIMIT_MB:.0f} may be"
        for case in report["cases"]
        if case["tree_mb"] > MEMORY_LIMIT_MB
    ]
    kept = {case["case"]: case["kept"]["flowing_rows_per_second"] for case in report["cases"]}
    if kept.get(SKEWED, KEPT) < KEPT:
        lines.append(f"{SKEWED}: {kept[SKEWED]:.0%} of the rate of one table is kept, {KEPT:.0%} wanted")
    return lines


def missed_backlog(report: Mapping[str, Any]) -> list[str]:
    """A row of the longest backlog may cost `FLAT` times one of the shortest, whose start weighs more."""
    first, *_, last = costs(report["cases"])
    dearer = f"a row costs {last:.1f} µs in the longest backlog, {first:.1f} in the shortest"
    return missed(report) + ([dearer] if last > first * FLAT else [])
