"""`tidelock bench micro`: what each stage costs a row, beside its budget.

What is more than a fifth over the cost that was recorded, or over a limit, is shown in red and counted in the last
line.  That is for people to look at, so the exit code stays 0 unless `--strict` asks for more.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.harness.servers import ServerMissing
from bench.micro.against import compared, names_of, shown, turns
from bench.micro.budgets import PATH, TOLERANCE, Budgets
from bench.micro.suite import CASES, VALUES, Figure, measured
from bench.outcome import Outcome
from tidelock.adapters.cli.failure import DIFFERENT, OK, REFUSED, CommandError

SHORT: Final = ("--no-servers",)
HEADER: Final = ("", "µs/row", "bytes/row", "rows/CPU s", "rows/s", "budget", "of it", "limit")
WIDTH: Final = 120
NAME_WIDTH: Final = 50


def command(
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="Benchmarks whose names hold one of these.")
    ] = None,
    servers: Annotated[
        bool, typer.Option("--servers/--no-servers", help="The sinks against real servers, and Faust on a Kafka.")
    ] = True,
    record: Annotated[bool, typer.Option("--record", help="Write the figures to the budget file.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 3 where a budget is exceeded.")] = False,
    values: Annotated[int, typer.Option(min=1, help="Measurements of each; the least counts.")] = VALUES,
    processes: Annotated[int, typer.Option(min=1, help="Processes that measure each, in turn.")] = 1,
    against: Annotated[
        Path | None, typer.Option(help="Another checkout: measure both in turns, and compare; no servers.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each with --against.")] = 5,
    names: Annotated[bool, typer.Option("--names", help="Only list the benchmarks.")] = False,
) -> int:
    """Measure what each stage of a row's way costs, and compare it with the recorded budgets."""
    from bench.micro import remote

    chosen = [name for name in CASES if _wanted(name, only)]
    far = [name for name in remote.NAMES if servers and _wanted(name, only)]
    if names or not (chosen or far):
        print("\n".join([*chosen, *far]) if names else "no benchmark has such a name; --names lists them")
        return OK
    if against is not None:
        return _compare(against.resolve(), chosen, rounds, values)
    budgets, outcome, console = Budgets.read(PATH), Outcome("micro"), Console()
    console.width = max(console.width, WIDTH)
    figures: list[Figure] = []
    versions: dict[str, str] = {}
    for group in _groups(chosen, far, values, processes, versions):
        figures += group
        console.print(table(group, budgets))
    over = [figure.name for figure in figures if budgets.exceeded(figure)]
    machine = {**outcome.machine(), "servers": versions}
    if record:
        budgets.record(figures, machine["processor"], PATH)
    if only is None and servers:
        unit, found = "CPU microseconds a row", msgspec.to_builtins(figures)
        outcome.write({"machine": machine, "unit": unit, "figures": found, "over_budget": over})
    console.print(summary(figures, over, budgets, machine["processor"]))
    return DIFFERENT if strict and over else OK


def _compare(tree: Path, chosen: Sequence[str], rounds: int, values: int) -> int:
    try:
        known = set(names_of(tree))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    both = [name for name in chosen if name in known]
    try:
        print(shown(compared(list(turns(tree, both, rounds, values)))))
    except subprocess.CalledProcessError as error:
        raise CommandError("a microbenchmark failed; see above", exit_code=REFUSED) from error
    return OK


def _wanted(name: str, only: Sequence[str] | None) -> bool:
    return not only or any(word in name for word in only)


def _groups(
    chosen: Sequence[str], far: Sequence[str], values: int, processes: int, versions: dict[str, str]
) -> Iterator[list[Figure]]:
    """Figures as they come, by group.  A server that is missing is told, and the rest goes on."""
    from bench.micro import remote

    for _, names in groupby(chosen, key=lambda name: name.partition("/")[0]):
        try:
            yield measured(list(names), values, processes)
        except subprocess.CalledProcessError as error:
            raise CommandError("a microbenchmark failed; see above", exit_code=REFUSED) from error
    for _, names in groupby(far, key=lambda name: name.partition("/")[0]):
        try:
            yield remote.measured(list(names), versions)
        except ServerMissing as error:
            print(f"left out: {error} (`make servers` installs them)", file=sys.stderr)


def table(figures: Iterable[Figure], budgets: Budgets) -> Table:
    """Make the table of one group."""
    made = Table(*HEADER, box=None, pad_edge=False)
    for column in made.columns:
        column.no_wrap, column.min_width = True, 7
    for column in made.columns[1:]:
        column.justify = "right"
    made.columns[0].min_width = NAME_WIDTH
    for figure in figures:
        made.columns[0].header = figure.group
        made.add_row(*map(Text, _cells(figure, budgets)), style="bold red" if budgets.exceeded(figure) else "")
    return made


def _cells(figure: Figure, budgets: Budgets) -> Iterator[str]:
    yield figure.name.partition("/")[2]
    yield f"{figure.us:.2f}"
    yield f"{figure.octets:,.0f}" if figure.octets else ""
    yield f"{1e6 / figure.us:,.0f}"
    yield f"{figure.rows_a_second:,.0f}" if figure.rows_a_second else ""
    recorded, limit = budgets.recorded.get(figure.name), budgets.limits.get(figure.name)
    yield from (f"{recorded:.2f}", f"{figure.us / recorded:.0%}") if recorded else ("", "")
    yield f"{limit:.2f}" if limit else ""


def summary(figures: Sequence[Figure], over: Sequence[str], budgets: Budgets, machine: str) -> Text:
    """The last line."""
    known = sum(figure.name in budgets.recorded or figure.name in budgets.limits for figure in figures)
    elsewhere = "" if machine == budgets.machine else f"; budgets recorded on {budgets.machine or 'no machine'}"
    said = f"{len(figures)} measured, {known} with a budget; beyond a limit or {TOLERANCE - 1:.0%} over the budget"
    return Text(f"{said}: {len(over)}{elsewhere}", style="bold red" if over else "green")


if __name__ == "__main__":
    from bench.command import alone

    alone("micro")
