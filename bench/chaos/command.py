"""`tidelock bench chaos`: one process of a feed, or its workers over Kafka, under blows.

tidelock bench chaos --minutes 60                       # bench/results/chaos-one.json
tidelock bench chaos --workers 3 --minutes 15           # bench/results/chaos.json
tidelock bench chaos --blows "target killed,killed"     # these, in this order, once; nothing is kept
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.chaos import one, over_kafka, verdict
from bench.chaos.blows import BLOWS
from bench.outcome import RESULTS

FAILED: Final = 3


def command(
    minutes: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Of the blows and the workload.")] = 1,
    pair: Annotated[str, typer.Option(help=f"SOURCE:TARGET of {', '.join(one.SERVERS)}.")] = "mariadb:postgres",
    workers: Annotated[int, typer.Option(min=0, help="So many workers over Kafka; 0: one `tidelock run`.")] = 0,
    rate: Annotated[float, typer.Option(min=1, help="Row changes a second, with workers.")] = over_kafka.RATE,
    blows: Annotated[str, typer.Option(help=f"Only these, in this order, once: {', '.join(BLOWS)}.")] = "",
    keep: Annotated[bool, typer.Option(help="Write the result into bench/results.")] = True,
    logs: Annotated[Path | None, typer.Option(help="An empty folder for the logs.")] = None,
) -> int:
    """Strike a feed, its servers and its wires while it works; exit code 3 if anything was lost, doubled or late."""
    if workers:
        return _workers(minutes, seed, workers, rate, keep, logs)
    kinds = [kind.strip() for kind in blows.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in BLOWS]
    if unknown:
        raise typer.BadParameter(f"no such blow: {', '.join(unknown)}; there are {', '.join(BLOWS)}")
    result = one.run(minutes, seed, pair, logs, kinds, folder=RESULTS if keep and not kinds else None)
    print(result)
    return FAILED if result.faults else 0


def _workers(minutes: float, seed: int, workers: int, rate: float, keep: bool, logs: Path | None) -> int:
    # Our own look at the control topic would tell of a broker that is away.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    outcome = over_kafka.run(minutes, seed, logs, workers, rate)
    print(outcome)
    if keep:
        verdict.write(outcome)
    return 0 if outcome.ok else FAILED


if __name__ == "__main__":
    from bench.command import alone

    alone("chaos")
