"""One microbenchmark again and again, for a profiler to watch: `python -m bench.micro.profile NAME`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from bench.micro.case import cpu_seconds
from bench.micro.suite import CASES
from tidelock.adapters.process.gc_tuning import calm


def command(
    name: Annotated[str, typer.Argument(help="As `tidelock bench micro --names` has it.")],
    seconds: Annotated[float, typer.Option(min=0, help="How long.")] = 10.0,
) -> None:
    """Do the benchmark's work and nothing else."""
    if name not in CASES:
        raise typer.BadParameter(f"{name} is no benchmark; `tidelock bench micro --names` lists them")
    case, end = CASES[name](), time.monotonic() + seconds
    calm()
    while time.monotonic() < end:
        cpu_seconds(case, 1)


if __name__ == "__main__":
    typer.run(command)
