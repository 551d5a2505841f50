"""`tidelock bench serve`: many feeds under one `serve`, killed and edited at random, its API asked anything.

tidelock bench serve --feeds 20 --minutes 60     # bench/results/fleet.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.fleet.run import run
from bench.outcome import RESULTS

FAILED = 3


def command(
    feeds: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    minutes: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Of acts, kills, requests and the workloads.")] = 1,
    rate: Annotated[float, typer.Option(min=0.1, help="Row changes a second for each feed.")] = 6.0,
    kill: Annotated[float, typer.Option(min=1, help="Seconds from one SIGKILL of a feed to the next.")] = 12.0,
    keep: Annotated[bool, typer.Option(help="Write the result into bench/results.")] = True,
    logs: Annotated[Path | None, typer.Option(help="An empty folder for feeds and what serve says.")] = None,
) -> int:
    """Run a fleet under acts of operators, kills and random requests; exit code 3 if anything speaks against it.
    Ctrl-C ends it early, and judges what was seen."""
    result = run(feeds, minutes, seed, rate, kill, logs, RESULTS if keep else None)
    print(result)
    return FAILED if result.faults else 0


if __name__ == "__main__":
    from bench.command import alone

    alone("serve")
