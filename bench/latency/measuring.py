"""One run: a feed that flows, a paced load, and for each row that stays the time from its commit to its visibility.

Both ends are one machine and one clock: the pacer notes when COMMIT returned to it, PostgreSQL when the transaction
that wrote the row was committed (`pg_xact_commit_timestamp(xmin)`).  The version column tells which change wrote a row,
so each row at the target is a sample of the change that wrote it last.  The first seconds are left out.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.harness.rig import Rig, until
from bench.harness.servers import Server
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.latency.distribution import Distribution, distribution
from bench.latency.pacer import Order, Paced, Pacer, workload

WARM_SECONDS: Final = 2.0
CATCH_UP_SECONDS: Final = 120.0
SIGN: Final = "sign"
OURS: Final = ("run", "capture")


@dataclasses.dataclass(frozen=True)
class Run:
    """`rate`: asked for, in changes a second; `kept_rate`: what the source took.  `peak_mb`: of our processes."""

    source: str
    rate: float
    kept_rate: float
    late_ms: float
    latency: Distribution
    peak_mb: float
    cpu_seconds: Mapping[str, float]
    load: float

    def __str__(self) -> str:
        d = self.latency
        return (
            f"{self.source:<8} {self.rate:>7,.0f}/s (kept {self.kept_rate:,.0f}, late at most {self.late_ms:.0f} ms):"
            f" p50 {d.p50:.1f} ms, p99 {d.p99:.1f}, p99.9 {d.p999:.1f}, highest {d.highest:.1f};"
            f" {d.samples:,} samples, peak {self.peak_mb:.0f} MB, load {self.load}"
        )


def run(source: Server, target: Server, folder: Path, rate: float, seconds: float, **options: Any) -> Run:
    """`seconds` are measured, after some to warm up.  Raises AssertionError where rows differ afterwards."""
    with contextlib.closing(Rig(source, target, folder, "latency", **options)) as rig:
        rig.make(workload())
        rig.table(SIGN, "id bigint PRIMARY KEY")
        rig.begin_here()
        with _flowing(rig) as process:
            leaders = {"run": process.pid, "source": source.pid, "target": target.pid}
            with Usage(lambda: leaders) as usage:
                paced = Pacer(Order(source.url(rig.schema), rate, WARM_SECONDS + seconds)).wait()
            load = os.getloadavg()[0]
            _sign(rig, 2)
            until(rig.equal, "equal rows", CATCH_UP_SECONDS)
        rig.assert_exact()
        return Run(
            source=source.scheme,
            rate=rate,
            kept_rate=round(paced.kept_rate, 1),
            late_ms=paced.late_ms,
            latency=distribution(list(latencies(paced, _written(rig)))),
            peak_mb=round(sum(usage.peak_bytes.get(name, 0) for name in OURS) / 1e6, 1),
            cpu_seconds=usage.cpu_seconds,
            load=round(load, 2),
        )


@contextlib.contextmanager
def _flowing(rig: Rig) -> Iterator[Process]:
    """A feed that has applied a row; stopped at the end as an operator would."""
    process = rig.run()
    _sign(rig, 1)
    yield process
    process.stop()


def _sign(rig: Rig, number: int) -> None:
    """A row at the source, and until it is at the target."""
    rig.at_source(f"INSERT INTO {SIGN} VALUES ({number})")
    sql = f"SELECT id::text FROM {rig.schema}.{SIGN} WHERE id={number}"
    until(lambda: bool(rig.rows(sql)), "a row through the feed", CATCH_UP_SECONDS)


def latencies(paced: Paced, written: Iterable[tuple[int, float]]) -> Iterator[float]:
    """Seconds, of each row whose last change was committed after the warm-up.

    `written`: (version, when the target committed it).  One may be negative: the log can be faster than the answer.
    """
    versions = [version for version, _ in paced.commits]
    warm = paced.begun + WARM_SECONDS
    for version, visible in written:
        _, returned = paced.commits[bisect.bisect_left(versions, version)]
        if returned >= warm:
            yield visible - returned


def _written(rig: Rig) -> Iterator[tuple[int, float]]:
    (table,) = workload().tables
    moment = "extract(epoch FROM pg_xact_commit_timestamp(xmin))::text"
    for version, visible in rig.rows(f"SELECT version::text, {moment} FROM {rig.schema}.{table}"):
        yield int(version), float(visible)
