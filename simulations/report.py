"""Report that a campaign or a single run prints when it is over: for people, or as JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tidelock.adapters.cli.output import print_json
from tidelock.simulations.campaign import Tally
from tidelock.simulations.coverage import EXPECTED
from tidelock.simulations.narrative import Chapter
from tidelock.simulations.shrink import Shrinker
from tidelock.simulations.trial import Trial

SHOWN_FAILURES = 10
OTHER = "what happened"


def missing(tally: Tally) -> list[str]:
    """Counters that should be above zero and are not."""
    return [name for name in EXPECTED if not tally.coverage.get(name)]


def print_campaign(tally: Tally, *, complete: bool) -> None:
    """`complete`: enough seeds ran that every counter should be above zero."""
    console = _console()
    console.print(_coverage(tally.coverage, [*EXPECTED, *tally.coverage], "bold red" if complete else "dim"))
    for failure in tally.failures[:SHOWN_FAILURES]:
        console.print(Text.assemble((f"seed {failure.seed}: ", "bold red"), failure.mistake))
    if tally.failed > SHOWN_FAILURES:
        console.print(f"… and {tally.failed - SHOWN_FAILURES:,} more")
    console.print(_summary(tally))
    if complete and (never := missing(tally)):
        console.print(Text(f"never reached: {', '.join(never)}", "bold red"))


def _summary(tally: Tally) -> Text:
    verdict = ("all clean", "bold green") if not tally.failed else (f"{tally.failed:,} failed", "bold red")
    return Text.assemble(
        f"{tally.runs:,} runs in {tally.seconds:,.1f} s, {tally.rate:,.0f} a second: ",
        verdict,
        f"; {tally.changes:,} row changes (at least {max(tally.fewest_changes, 0)} a run), "
        f"{tally.faults:,} faults (at least {max(tally.fewest_faults, 0)} a run)",
    )


def _coverage(counts: Mapping[str, int], names: Iterable[str], zero: str) -> Table:
    """`zero`: the style of what was not reached."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for group, members in grouped(names).items():
        table.add_row(Text(group, "bold"), "")
        for name in members:
            count = counts.get(name, 0)
            style = "" if count else zero
            table.add_row(Text(f"  {name.removeprefix(f'{group}: ')}", style), Text(f"{count:>12,}", style))
    return table


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """By what stands before the colon."""
    groups: dict[str, list[str]] = {}
    for name in sorted_names(names):
        group, colon, _ = name.partition(": ")
        groups.setdefault(group if colon else OTHER, []).append(name)
    return groups


def sorted_names(names: Iterable[str]) -> list[str]:
    """Each once."""
    return sorted(dict.fromkeys(names), key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    """10 after 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def print_shrunk(shrinker: Shrinker, again: str) -> None:
    console, first, best = _console(), shrinker.first, shrinker.best
    sizes = [f"{t.changes} row changes in {len(t.transactions)} transactions" for t in (first, best)]
    console.print(Text(f"\nseed {first.plan.seed}, shrunk from {sizes[0]} to {sizes[1]}:\n", "bold"))
    for line in best.abridged:
        console.print(Text(f"  {line}"))
    console.print(Text.assemble("  ", (best.mistake, "bold red")))
    console.print(Text.assemble("\nagain: ", (again, "bold")))


def print_story(chapters: Sequence[Chapter]) -> None:
    console = _console()
    for chapter in chapters:
        console.print(Text(chapter.title, "bold"))
        width = max((len(time) for time, _ in chapter.lines), default=0)
        for time, line in chapter.lines:
            told = Text.assemble((f"{time:>{width}}  " if width else "", "dim"), line)
            console.print(Padding(told, (0, 0, 0, 2), expand=False))
        console.print()


def print_coverage(trial: Trial) -> None:
    """Print what a single run exercised."""
    _console().print(_coverage(trial.coverage, trial.coverage, ""))


def campaign_json(tally: Tally, shrinker: Shrinker | None, again: str) -> None:
    found: dict[str, Any] = {
        "runs": tally.runs,
        "failed": tally.failed,
        "failures": tally.failures,
        "seconds": round(tally.seconds, 3),
        "rate": round(tally.rate, 1),
        "changes": tally.changes,
        "faults": tally.faults,
        "fewest_changes": tally.fewest_changes,
        "fewest_faults": tally.fewest_faults,
        "coverage": {name: tally.coverage.get(name, 0) for name in sorted_names([*EXPECTED, *tally.coverage])},
        "missing": missing(tally),
    }
    if shrinker is not None:
        best = shrinker.best
        found |= {"again": again, "shrunk": {"plan": best.plan, "mistake": best.mistake, "transcript": best.transcript}}
    print_json(found)


def _console() -> Console:
    """As wide as the terminal; in a pipe a line is a line."""
    return Console(width=None if sys.stdout.isatty() else 100_000, highlight=False, soft_wrap=True)
