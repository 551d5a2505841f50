"""`tidelock bench latency`: from the return of COMMIT at the source to the commit of the row at PostgreSQL.

    tidelock bench latency                                  # 1,000, 5,000 and 10,000 changes a second, about 2 minutes
    tidelock bench latency --rate 5000 --seconds 60 --rounds 5 --source mariadb,mysql

Rates take turns, round by round.  What is kept of a rate is the median of its rounds' percentiles with the spread, and
one histogram of all rounds.  Goals at 5,000: p50 below 40 ms, p99 below 200 ms, memory below 300 MB in every run.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.command import alone
from bench.e2e.report import spread
from bench.e2e.setup import SERVERS, SOURCES
from bench.harness.servers import Postgres, Server
from bench.latency.distribution import Distribution
from bench.latency.measuring import WARM_SECONDS, Run, run
from bench.outcome import RESULTS, Outcome

GOAL_RATE: Final = 5_000.0
GOALS: Final = {"p50_ms": 40.0, "p99_ms": 200.0, "peak_mb": 300.0}
BELOW_GOAL: Final = 3


def measure(
    sources: Sequence[str], rates: Sequence[float], seconds: float, rounds: int, lanes: int, folder: Path = RESULTS
) -> dict[str, Any]:
    """Run, print each run as it ends, and write `latency.json`.  Raises AssertionError where rows differ."""
    runs: list[Run] = []
    outcome = Outcome("latency")
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-latency-")))
        target = stack.enter_context(Postgres())
        servers: dict[str, Server] = {name: stack.enter_context(SERVERS[name]()) for name in sources}
        for _ in range(rounds):
            for name in sources:
                for rate in rates:
                    runs.append(run(servers[name], target, place, rate, seconds, lanes=lanes))
                    print(runs[-1], flush=True)
        found = report(runs, seconds, rounds, lanes)
        outcome.on({**servers, "target": target})
        path = outcome.write(found, folder)
    print(f"goals at {GOAL_RATE:,.0f}/s: {_verdict(found['met'])}; written to {path.name}")
    return found


def report(runs: Sequence[Run], seconds: float, rounds: int, lanes: int) -> dict[str, Any]:
    """Make the report that is written; `met`: None where the rate of the goals was not measured."""
    kinds = dict.fromkeys((one.source, one.rate) for one in runs)
    rates = [_rate([one for one in runs if (one.source, one.rate) == kind]) for kind in kinds]
    judged = [rate for rate in rates if rate["rate"] == GOAL_RATE]
    met = all(
        rate["p50_ms"]["median"] < GOALS["p50_ms"]
        and rate["p99_ms"]["median"] < GOALS["p99_ms"]
        and rate["peak_mb"] < GOALS["peak_mb"]
        for rate in judged
    )
    return {
        "seconds": seconds,
        "warm_seconds": WARM_SECONDS,
        "rounds": rounds,
        "lanes": lanes,
        "goals": GOALS,
        "goal_rate": GOAL_RATE,
        "met": met if judged else None,
        "rates": rates,
    }


def _rate(runs: Sequence[Run]) -> dict[str, Any]:
    """All rounds of one source and rate."""
    latencies = [one.latency for one in runs]
    return {
        "source": runs[0].source,
        "rate": runs[0].rate,
        "kept_rate": spread([one.kept_rate for one in runs]),
        "late_ms": max(one.late_ms for one in runs),
        "samples": sum(latency.samples for latency in latencies),
        "p50_ms": spread([latency.p50 for latency in latencies], 2),
        "p99_ms": spread([latency.p99 for latency in latencies], 2),
        "p999_ms": spread([latency.p999 for latency in latencies], 2),
        "highest_ms": max(latency.highest for latency in latencies),
        "peak_mb": max(one.peak_mb for one in runs),
        "cpu_seconds": [dict(one.cpu_seconds) for one in runs],
        "load": [one.load for one in runs],
        "histogram_ms": _together(latencies),
    }


def _together(latencies: Sequence[Distribution]) -> list[tuple[float, int]]:
    counts: dict[float, int] = {}
    for latency in latencies:
        for edge, count in latency.bins:
            counts[edge] = counts.get(edge, 0) + count
    return sorted(counts.items())


def _verdict(met: bool | None) -> str:
    return "not measured" if met is None else "met" if met else "NOT MET"


def command(
    rate: Annotated[str, typer.Option(help="Row changes a second; one or several, by comma.")] = "1000,5000,10000",
    seconds: Annotated[float, typer.Option(min=0.1, help="Measured in each run.")] = 10.0,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each rate.")] = 3,
    source: Annotated[str, typer.Option(help="mariadb, mysql, postgres; one or several.")] = "mariadb",
    lanes: Annotated[int, typer.Option(min=1, max=64, help="Of the feed.")] = 8,
    folder: Annotated[Path, typer.Option(help="Where the result goes.")] = RESULTS,
) -> int:
    """Measure latency under a paced load; exit code 3 if a goal is missed."""
    sources = source.split(",")
    if unknown := set(sources) - set(SOURCES):
        raise typer.BadParameter(f"no source {', '.join(sorted(unknown))}: there are {', '.join(SOURCES)}")
    try:
        rates = [float(one) for one in rate.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{rate}: a rate is a number of changes a second") from error
    found = measure(sources, rates, seconds, rounds, lanes, folder)
    return BELOW_GOAL if found["met"] is False else 0


if __name__ == "__main__":
    alone("latency")
