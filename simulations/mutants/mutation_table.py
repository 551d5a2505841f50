"""Rows of `TABLE.md`: those that a hunt has results for are written anew, all others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.hunt import Result

TABLE: Final = Path(__file__).with_name("TABLE.md")
_RULE: Final = "|---|"
"""Begins the line below the table's head."""


def record(results: Sequence[Result], day: date) -> None:
    """Writes results into the table."""
    TABLE.write_text(updated(TABLE.read_text(encoding="utf-8"), results, day), encoding="utf-8")


def updated(text: str, results: Sequence[Result], day: date) -> str:
    """Returns the page with these rows.  A mutant that had none gets its place by the order of the catalogue."""
    lines = text.split("\n")
    for result in results:
        names = [_name(line) for line in lines]
        row = _row(result, day)
        if result.mutant.name in names:
            lines[names.index(result.mutant.name)] = row
        else:
            lines.insert(_place(result.mutant.name, lines, names), row)
    return "\n".join(lines)


def _row(result: Result, day: date) -> str:
    mutant = result.mutant
    seeds = str(result.seeds) if result.killed else f"> {result.seeds}"
    return f"| {mutant.name} | {mutant.wrong} | {mutant.stands_for} | {seeds} | {day} |"


def _name(line: str) -> str:
    """Returns the mutant that a line is of, '' if of none."""
    return line.split("|")[1].strip() if line.startswith("| ") else ""


def _place(name: str, lines: Sequence[str], names: Sequence[str]) -> int:
    """Returns the line behind the nearest mutant before this one in the catalogue that the table has."""
    order = [mutant.name for mutant in CATALOGUE]
    before = [each for each in order[: order.index(name)] if each in names]
    if before:
        return names.index(before[-1]) + 1
    return next(at for at, line in enumerate(lines) if line.startswith(_RULE)) + 1
