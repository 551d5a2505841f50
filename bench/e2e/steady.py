"""Steady state: a source that goes on writing at a rate, and a feed that keeps up, or does not.

`behind_seconds` is how long after the last commit at the source its row was at the target: what a feed that is too slow
has piled up, and a few milliseconds for one that keeps up (without `consistency: transaction` that row may pass others
by a batch).  CPU and memory are those of the time while the load ran,
with small batches and idle waits, where a backlog shows the large ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.e2e.backlog import OURS, durability, unhurried
from bench.e2e.report import cost, spread
from bench.e2e.setup import Setup
from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres, Server
from bench.harness.usage import Usage
from bench.harness.workload.named import NAMED
from bench.harness.workload.tables import replica_identity

CATCH_UP_SECONDS: Final = 300.0
SIGN: Final = "sign"


@dataclasses.dataclass(frozen=True)
class Steady:
    """`rate`: asked for, changes a second; `kept_rate`: what the source took.  CPU in seconds, by process."""

    setup: Setup
    rate: float
    changes: int
    kept_rate: float
    behind_seconds: float
    cpu_seconds: Mapping[str, float]
    peak_mb: float
    load: float

    def __str__(self) -> str:
        used = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(self.cpu_seconds.items()))
        return (
            f"{self.setup.label:<52} {self.rate:>7,.0f}/s (kept {self.kept_rate:,.0f}):"
            f" {self.behind_seconds:.2f} s behind at the end; peak {self.peak_mb:.0f} MB; CPU s: {used}"
        )


def run(setup: Setup, source: Server, target: Server, folder: Path, rate: float, seconds: float) -> Steady:
    """Raises AssertionError where rows differ afterwards."""
    changes = max(1, round(rate * seconds))
    with contextlib.ExitStack() as stack:
        stack.enter_context(unhurried(source))
        stack.enter_context(durability(target, setup.commit))
        rig = stack.enter_context(contextlib.closing(Rig(source, target, folder, "steady", **setup.options)))
        if setup.two_way:  # which sites these are, and who decides, stays in the bookkeeping
            rig.options["schema"] = f"{rig.schema}_books"
        workload = rig.make(NAMED[setup.workload]())
        if isinstance(source, Postgres):
            rig.at_source(*replica_identity(workload.specs, setup.identity))
        rig.table(SIGN, "id bigint PRIMARY KEY")
        rig.begin_here()
        process = rig.run()
        _sign(rig, 1)
        leaders = {"run": process.pid, "source": source.pid, "target": target.pid}
        with Usage(lambda: leaders) as usage:
            counts = rig.load(workload, changes, rate=rate)
            ended = time.perf_counter()
            _sign(rig, 2)
            behind = time.perf_counter() - ended
        load = os.getloadavg()[0]
        until(rig.equal, "equal rows", CATCH_UP_SECONDS)
        process.stop()
        rig.assert_exact()
    return Steady(
        setup=setup,
        rate=rate,
        changes=changes,
        kept_rate=round(counts.changes / counts.seconds, 1),
        behind_seconds=round(behind, 3),
        cpu_seconds=usage.cpu_seconds,
        peak_mb=round(sum(usage.peak_bytes.get(name, 0) for name in OURS) / 1e6, 1),
        load=round(load, 2),
    )


def _sign(rig: Rig, number: int) -> None:
    """A row at the source, and until it is at the target."""
    rig.at_source(f"INSERT INTO {SIGN} VALUES ({number})")
    sql = f"SELECT CONCAT(id, '') FROM {rig.schema}.{SIGN} WHERE id={number}"
    until(lambda: bool(rig.rows(sql)), "a row through the feed", CATCH_UP_SECONDS)


def report(done: Sequence[Steady], seconds: float) -> dict[str, Any]:
    """Make the report that is written: one entry for each setup and rate, over its rounds."""
    kinds = dict.fromkeys((one.setup, one.rate) for one in done)
    grouped = [[one for one in done if (one.setup, one.rate) == kind] for kind in kinds]
    return {
        "seconds": seconds,
        "rounds": max(map(len, grouped), default=0),
        "rates": [
            {
                "label": rounds[0].setup.label,
                "setup": dataclasses.asdict(rounds[0].setup),
                "rate": rounds[0].rate,
                "kept_rate": spread([one.kept_rate for one in rounds]),
                "behind_seconds": spread([one.behind_seconds for one in rounds], 3),
                "cpu_seconds_a_million": cost(rounds),
                "peak_mb": max(one.peak_mb for one in rounds),
                "load": [one.load for one in rounds],
            }
            for rounds in grouped
        ],
    }
