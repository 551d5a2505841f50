"""The full-size proof of exactness: `python -m bench.proof` (part of `make proof`).

Each workload is committed once at each source, then replicated from its start into empty tables once for every number
of lanes and both consistency modes.  Each run must end with zero differences row by row, zero unique violations in the
target's log and zero parked rows.  The table goes to bench/results/proof.json and proof.md.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from bench.rig import Rig
from bench.servers import MariaDb, MySql, Postgres, Server
from bench.workload.churn import Churn
from bench.workload.mix import Mix

RESULTS = Path(__file__).parent / "results"
WORKLOADS = {"mix": Mix, "churn": Churn}
PAIRS = (("mariadb", "postgres"), ("mysql", "postgres"), ("mariadb", "mysql"))
LANES = (1, 4, 8)
MODES = ("row", "transaction")
RUN_SECONDS = 900.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One run.  `load`: the machine's one-minute load average when it ended."""

    workload: str
    pair: str
    lanes: int
    consistency: str
    changes: int
    seconds: float
    rows_per_second: int
    differences: int
    unique_violations: int
    parked: int
    load: float

    @property
    def exact(self) -> bool:
        return not (self.differences or self.unique_violations or self.parked)


def prove(changes: int, seed: int, pairs: Sequence[tuple[str, str]], workloads: Sequence[str]) -> Iterable[Outcome]:
    """Every run of the matrix, as it ends."""
    kinds: dict[str, Callable[[], Server]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
    with ExitStack() as stack:
        servers: dict[tuple[str, str], Server] = {}

        def server(kind: str, role: str) -> Server:
            if (kind, role) not in servers:
                servers[kind, role] = stack.enter_context(kinds[kind]())
            return servers[kind, role]

        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-proof-")))
        for (source, target), workload in itertools.product(pairs, workloads):
            rig = Rig(server(source, "source"), server(target, "target"), folder, f"{workload}_{source}_{target}")
            made = rig.make(WORKLOADS[workload]())
            rig.load(made, changes, seed)
            for number, (lanes, mode) in enumerate(itertools.product(LANES, MODES)):
                if number:
                    rig.drop_target()
                    rig.make_target(made)
                rig.options = {"lanes": lanes, "consistency": mode}
                seconds = rig.catch_up(RUN_SECONDS)
                yield Outcome(
                    workload, f"{source} → {target}", lanes, mode, changes, round(seconds, 2), round(changes / seconds),
                    rig.differences().total, rig.unique_violations(), rig.parked(), round(os.getloadavg()[0], 1),
                )  # fmt: skip
            rig.at_source(f"DROP DATABASE {rig.schema}")
            rig.close()


def table(outcomes: Sequence[Outcome]) -> str:
    """As Markdown."""
    head = "| workload | servers | lanes | consistency | rows/s | differences | unique violations | parked |\n"
    rule = "|---|---|---|---|---|---|---|---|\n"
    return head + rule + "".join(
        f"| {o.workload} | {o.pair} | {o.lanes} | {o.consistency} | {o.rows_per_second:,} | {o.differences} | "
        f"{o.unique_violations} | {o.parked} |\n"
        for o in outcomes
    )  # fmt: skip


def command(
    changes: Annotated[int, typer.Option(min=1, help="Row changes in each workload.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Of the workloads.")] = 1,
    workload: Annotated[str, typer.Option(help="mix or churn; default both.")] = "",
) -> None:
    """Every pair, 1, 4 and 8 lanes, both consistency modes: exit 0 only if every run is exact."""
    outcomes: list[Outcome] = []
    for outcome in prove(changes, seed, PAIRS, [workload] if workload else list(WORKLOADS)):
        outcomes.append(outcome)
        verdict = "exact" if outcome.exact else "WRONG"
        print(
            f"{outcome.workload:6} {outcome.pair:19} {outcome.lanes} lanes {outcome.consistency:12}"
            f"{outcome.rows_per_second:8,} rows/s  {outcome.differences} differences, "
            f"{outcome.unique_violations} unique violations, {outcome.parked} parked: {verdict}",
            flush=True,
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "proof.json").write_text(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1) + "\n")
    (RESULTS / "proof.md").write_text(table(outcomes))
    raise typer.Exit(0 if all(o.exact for o in outcomes) else 1)


if __name__ == "__main__":
    typer.run(command)
