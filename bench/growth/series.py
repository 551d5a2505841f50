"""The series: one thing grows, all else stays; the cases take turns, so that a busy machine hurts them alike.

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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.growth.ground import MEMORY_LIMIT_MB, Differs, Ground, Run
from bench.growth.many import differences
from bench.growth.narrow import Narrow
from bench.growth.spread import Spread
from bench.outcome import Outcome, table
from bench.peers.postgres_native import PostgresNative
from bench.workload.workload import Workload

TABLES: Final = {"1 table": (1, 0), "20": (20, 0), "200": (200, 0), "2,000": (2000, 0), "2,000, 20 hot": (2000, 20)}
NATIVE: Final = ("1 table", "2,000", "2,000, 20 hot")
WIDTHS: Final = (100, 1_000, 4_000, 16_000)
WIDTH_BYTES: Final = 120_000_000
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


def backlogs(full: bool) -> list[Case]:
    sizes = (*BACKLOGS, FULL_BACKLOG) if full else BACKLOGS
    return [Case(f"{size:,} changes", size, Narrow, size) for size in sizes]


def lanes(changes: int) -> list[Case]:
    return [Case(f"{count} lanes", count, partial(Spread, 1), changes, lanes=count) for count in LANES]


def measure(name: str, cases: Sequence[Case], rounds: int, native: Sequence[str] = ()) -> dict[str, Any]:
    """Run all cases `rounds` times in turn and write `growth-NAME.json`; `native`: cases that the peer runs too.

    Raises Differs.
    """
    runs: list[Run | Native] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-growth-")))
        outcome: Outcome | None = None
        turns: list[Callable[[], Run | Native]] = []
        for number, case in enumerate(cases):
            ground = Ground(case.label, case.x, case.workload(), case.changes, folder, number, lanes=case.lanes)
            stack.enter_context(ground)
            outcome = outcome or Outcome(f"growth-{name}", ground.servers)
            print(f"{case.label}: {case.changes:,} changes loaded", flush=True)
            turns.append(ground.catch_up)
            if case.label in native:
                peer = stack.enter_context(PostgresNative(case.workload(), case.changes, SEED, rounds))
                turns.append(partial(_native, peer, case))
        for _ in range(rounds):
            for turn in turns:
                runs.append(turn())
                print(runs[-1], flush=True)
        assert outcome is not None, "a series has cases"
        report = {"rounds": rounds, "cases": list(_cases(cases, runs)), "runs": runs}
        path = outcome.write(report)
    print(shown(report), f"written to {path.name}", sep="\n")
    return report


def _native(peer: PostgresNative, case: Case) -> Native:
    seconds = peer.catch_up()
    if found := differences(peer.source_url, peer.target_url, [f"public.{name}" for name in case.workload().tables]):
        raise Differs(f"PostgreSQL's own replication, {case.label}: {found} rows differ")
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


def shown(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    rows = []
    for case in report["cases"]:
        kept, cpu = case["kept"], case["cpu_us"]
        native = f"{kept['native_rows_per_second']:.0%}" if "native_rows_per_second" in kept else "–"
        rows.append(
            [
                case["case"],
                f"{case['rows_per_second']:,}",
                f"{case['flowing_rows_per_second']:,}",
                f"{kept['flowing_rows_per_second']:.0%}",
                native,
                *(f"{cpu.get(name, 0.0):.1f}" for name in ("capture", "run", "target")),
                f"{case['tree_mb']:.0f}",
            ]
        )
    header = ["case", "rows/s", "flowing", "kept", "native keeps", "capture µs", "engine µs", "target µs", "tree MB"]
    return table(header, rows)


def too_large(report: dict[str, Any]) -> list[str]:
    """The cases whose process tree held too much."""
    return [case["case"] for case in report["cases"] if case["tree_mb"] > MEMORY_LIMIT_MB]
