"""`python -m tidelock.simulations.explore [--size quick|small|full] [--without RULE]`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Column, Table

from tidelock.simulations.explore.chunk_rules import CHUNK_RULES
from tidelock.simulations.explore.fence_rules import FENCE_RULES
from tidelock.simulations.explore.rules import RULES
from tidelock.simulations.explore.runs import SIZES, Result, run, without


def main(argv: Sequence[str]) -> int:
    """0: all is clean, or every rule that was broken is missed; 1: not so."""
    parser = argparse.ArgumentParser(
        "python -m tidelock.simulations.explore", description="explore every small history"
    )
    parser.add_argument("--size", choices=SIZES, default="small")
    rules = [*RULES, *FENCE_RULES, *CHUNK_RULES]
    parser.add_argument("--without", choices=("all", *rules), metavar="RULE", help=f"all, {', '.join(rules)}")
    given = parser.parse_args(argv)
    console = Console(highlight=False)
    if given.without is None:
        return 0 if all(result.clean for result in show(console, run(given.size))) else 1
    results = show(console, map(without, rules if given.without == "all" else [given.without]))
    return 1 if any(result.clean for result in results) else 0


def show(console: Console, results: Iterable[Result]) -> list[Result]:
    """Print each counter-example as it comes, and all results as a table."""
    table = Table(Column("scope", no_wrap=True), box=None)
    for heading in ("changes", "histories", "states", "moves", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    shown = []
    for result in results:
        shown.append(result)
        console.print(*result.story, sep="\n", end="\n\n" if result.story else "", markup=False, soft_wrap=True)
        figures = (result.changes, result.histories, result.states, result.transitions)
        outcome = "clean" if result.clean else "broken"
        table.add_row(f"{result.model}: {result.scope}", *(f"{n:,}" for n in figures), f"{result.seconds:.1f}", outcome)
    console.print(table)
    return shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
