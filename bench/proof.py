"""The matrix at full size: workloads × pairs of servers × lanes × consistency, each compared row by row.

`python -m bench.proof --changes 200000` (or `make proof`) commits each workload once at each source, then replicates
that same backlog into empty tables for every target, number of lanes and mode.  A case is *exact* when no row differs,
the target's log holds no unique violation, and no row is parked.  The table goes to `bench/results/proof.md`, its
figures to `proof.json`; `rows_per_second` counts from the start of the process to its exit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.tidelock import TidelockFailed
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.keyless import Keyless
from bench.harness.workload.mix import Mix
from bench.harness.workload.shop import Shop
from bench.harness.workload.workload import Workload

RESULTS = Path(__file__).parent / "results"
RUN_SECONDS = 900.0
SERVERS: dict[str, type[Server]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
NAMES = {"mariadb": "MariaDB", "mysql": "MySQL 9", "postgres": "PostgreSQL"}
PAIRS = (("mariadb", "postgres"), ("mysql", "postgres"), ("mariadb", "mysql"))
WORKLOADS: dict[str, Callable[[], Workload]] = {kind.name: kind for kind in (Mix, Churn, Family, Keyless, Shop)}
LANES = (1, 4, 8)
MODES = ("row", "transaction")


@dataclasses.dataclass(frozen=True)
class Case:
    """One replication of a backlog, and what came of it; `failure`: what the process said if it ended badly."""

    workload: str
    source: str
    target: str
    lanes: int
    consistency: str
    changes: int
    seconds: float
    rows: int
    differences: int
    unique_violations: int
    parked: int
    failure: str = ""

    @property
    def rows_per_second(self) -> int:
        return round(self.changes / self.seconds)

    @property
    def exact(self) -> bool:
        return not (self.differences or self.unique_violations or self.parked or self.failure)

    def __str__(self) -> str:
        return (
            f"{self.workload:<8} {NAMES[self.source]:>8} → {NAMES[self.target]:<10} {self.lanes} lanes"
            f" {self.consistency:<12} {self.rows_per_second:>7,} rows/s  {self.differences} differences,"
            f" {self.unique_violations} unique violations, {self.parked} parked{self.failure and ' FAILED'}"
        )


def prove(
    changes: int,
    workloads: Sequence[str] = ("mix", "churn"),
    pairs: Sequence[tuple[str, str]] = PAIRS,
    lanes: Sequence[int] = LANES,
    modes: Sequence[str] = MODES,
    seed: int = 1,
) -> Iterator[Case]:
    """Each case as it is done.  Raises ServerMissing."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-proof-")))
        servers = {name: stack.enter_context(SERVERS[name]()) for name in dict.fromkeys(itertools.chain(*pairs))}
        if any(one == two for one, two in pairs):
            raise ValueError("a pair of two servers of one kind needs a second server: the tests have those")
        for workload, source in itertools.product(workloads, dict.fromkeys(one for one, _ in pairs)):
            targets = [two for one, two in pairs if one == source]
            with contextlib.closing(Rig(servers[source], servers[targets[0]], folder, workload)) as rig:
                kind = rig.make(WORKLOADS[workload]())
                rig.load(kind, changes, seed)
                for target, count, mode in itertools.product(targets, lanes, modes):
                    rig.fresh_target(servers[target], kind)
                    rig.options.update(lanes=count, consistency=mode)
                    yield _case(rig, workload, (source, target), changes)


def _case(rig: Rig, workload: str, pair: tuple[str, str], changes: int) -> Case:
    begun, failure = time.perf_counter(), ""
    try:
        rig.catch_up(RUN_SECONDS)
    except TidelockFailed as error:
        failure = str(error)
    seconds = time.perf_counter() - begun
    differences = rig.differences()
    return Case(
        workload=workload,
        source=pair[0],
        target=pair[1],
        lanes=rig.options["lanes"],
        consistency=rig.options["consistency"],
        changes=changes,
        seconds=round(seconds, 3),
        rows=differences.matched,
        differences=differences.total,
        unique_violations=rig.unique_violations(),
        parked=rig.parked(),
        failure=failure,
    )


def markdown(cases: Sequence[Case], changes: int) -> str:
    """One table: a row for each workload, pair and mode, a column for each number of lanes."""
    lanes = sorted({case.lanes for case in cases})
    exact = sum(case.exact for case in cases)
    lines = [
        "# Exactness at full size",
        "",
        f"{changes:,} row changes a case, replicated with `tidelock run --until-caught-up` into empty tables and",
        f"compared row by row: {exact} of {len(cases)} cases have no difference, no unique violation in the target's",
        "log and no parked row.",
        f"Cells are rows/s from process start to exit, on {os.cpu_count()} processors shared with both servers.",
        "",
        f"| workload | from → to | consistency | {' | '.join(f'{n} lanes' for n in lanes)} | verdict |",
        f"|---|---|---|{'---:|' * len(lanes)}---|",
    ]
    groups: dict[tuple[str, str, str, str], dict[int, Case]] = {}
    for case in cases:
        groups.setdefault((case.workload, case.source, case.target, case.consistency), {})[case.lanes] = case
    for (workload, source, target, mode), group in groups.items():
        cells = " | ".join(f"{group[n].rows_per_second:,}" if n in group else "" for n in lanes)
        bad = [f"{n} lanes: {_verdict(case)}" for n, case in group.items() if not case.exact]
        verdict = "; ".join(bad) or "exact"
        lines.append(f"| {workload} | {NAMES[source]} → {NAMES[target]} | {mode} | {cells} | {verdict} |")
    return "\n".join(lines) + "\n"


def _verdict(case: Case) -> str:
    ended = ", ended badly" if case.failure else ""
    return f"{case.differences} differences, {case.unique_violations} violations, {case.parked} parked{ended}"


def write(cases: Sequence[Case], changes: int) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "proof.md").write_text(markdown(cases, changes))
    figures = [{**dataclasses.asdict(case), "rows_per_second": case.rows_per_second} for case in cases]
    (RESULTS / "proof.json").write_text(json.dumps(figures, indent=2) + "\n")


def command(
    changes: Annotated[int, typer.Option(min=1, help="Row changes in each case.")] = 200_000,
    workloads: Annotated[str, typer.Option(help=f"Some of {', '.join(WORKLOADS)}.")] = "mix,churn",
    pairs: Annotated[str, typer.Option(help="As source-target.")] = ",".join(map("-".join, PAIRS)),
    lanes: Annotated[str, typer.Option(help="Numbers of lanes.")] = ",".join(map(str, LANES)),
    modes: Annotated[str, typer.Option(help="Consistency modes.")] = ",".join(MODES),
    keep: Annotated[bool, typer.Option(help="Write bench/results/proof.md and proof.json.")] = True,
) -> int:
    """Replicate every combination, compare every row, and write the table; exit code 3 if one is not exact."""
    chosen = [tuple(pair.split("-")) for pair in pairs.split(",")]
    cases = []
    for case in prove(
        changes,
        workloads.split(","),
        [(source, target) for source, target in chosen],
        [int(count) for count in lanes.split(",")],
        modes.split(","),
    ):
        print(case, flush=True)
        if case.failure:
            print(case.failure, flush=True)
        cases.append(case)
    if keep:
        write(cases, changes)
    return 0 if all(case.exact for case in cases) else 3


def main() -> None:
    sys.exit(typer.main.get_command(_app()).main(standalone_mode=False))


def _app() -> typer.Typer:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return app


if __name__ == "__main__":
    main()
