"""`python -m tidelock.simulations.mutants [--jobs 2] [--limit 20000] [--record] [NAME …]`: exit code 0 if every mutant
dies."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidelock.adapters.cli.output import print_table
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.check import LIMIT, run
from tidelock.simulations.mutants.hunt import Result
from tidelock.simulations.mutants.mutation_table import record as record_results


def show(results: list[Result]) -> None:
    """The table of results, and who is alive."""
    print_table(("mutant", "what is wrong", "stands for", "seeds", "seconds", "noticed by"), [_row(r) for r in results])
    alive = [result.mutant.name for result in results if not result.killed]
    print(f"\n{len(results) - len(alive)} of {len(results)} killed" + (f"; alive: {', '.join(alive)}" if alive else ""))
    print(f"{len(BEYOND)} more are beyond the random worlds' reach: simulations/mutants/beyond.py says what they lack")


def _row(result: Result) -> tuple[str, ...]:
    mutant = result.mutant
    seeds = str(result.seeds) if result.killed else f"alive after {result.seeds}"
    return mutant.name, mutant.wrong, mutant.stands_for, seeds, f"{result.seconds:.1f}", result.by[:100]


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Of the catalogue; all if none is named.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 2,
    limit: Annotated[int, typer.Option(min=1, help="Seeds a mutant may survive before it counts as alive.")] = LIMIT,
    record: Annotated[bool, typer.Option("--record", help="Write these rows of TABLE.md.")] = False,
) -> None:
    """Plant every known bug in the engine, one at a time, and see whether the simulation notices."""
    try:
        results = run(names or (), jobs, limit, _tell)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    show(results)
    if record:
        record_results(results, datetime.now(UTC).date())
    raise typer.Exit(0 if all(result.killed for result in results) else 1)


def _tell(result: Result) -> None:
    end = f"killed after {result.seeds} seeds" if result.killed else f"alive after {result.seeds} seeds"
    print(f"{result.mutant.name}: {end}, {result.seconds:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(command)
