"""`tidelock bench scale`: what grows with tables, row width, backlog and lanes, and a target that stands still.

    python -m bench.growth.command --only tables --only backlog

Exit code 3: tidelock's processes held more memory together than they may, or 2,000 tables of which 20 take 80 % of the
changes kept less than 80 % of the rate of one table.
"""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.command import alone
from bench.growth import pressure, series
from bench.growth.shown import as_table, shown_pressure
from bench.outcome import RESULTS

MISSED: Final = 3


class Part(enum.StrEnum):
    """Names of what can be measured."""

    TABLES = "tables"
    WIDTH = "width"
    BACKLOG = "backlog"
    LANES = "lanes"
    PRESSURE = "pressure"


def command(
    only: Annotated[list[Part] | None, typer.Option(help="One part; may be given again. All, if none.")] = None,
    changes: Annotated[int, typer.Option(min=1, help="Row changes of a case (backlog and pressure: own).")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often the cases take their turn.")] = 1,
    native: Annotated[bool, typer.Option(help="PostgreSQL's own replication beside the tables.")] = True,
    full: Annotated[bool, typer.Option(help="Backlogs of 10 million changes: half an hour.")] = False,
) -> int:
    """Measure what grows; the results go to bench/results/growth-*.json."""
    missed: list[str] = []
    for part in only or list(Part):
        print(f"— {part}", flush=True)
        missed += [f"{part}: {line}" for line in _measured(part, changes, rounds, native, full)]
    for line in missed:
        print(f"missed: {line}")
    return MISSED if missed else 0


def _measured(part: Part, changes: int, rounds: int, native: bool, full: bool) -> list[str]:
    """List what the part missed."""
    match part:
        case Part.TABLES:
            peers = series.NATIVE if native else ()
            return series.missed(series.measure("tables", series.tables(changes), rounds, peers))
        case Part.WIDTH:
            return series.missed(series.measure("width", series.widths(changes), rounds))
        case Part.BACKLOG:
            return series.missed_backlog(series.measure("backlog", series.backlogs(full), rounds))
        case Part.LANES:
            return series.missed(series.measure("lanes", series.lanes(changes), rounds))
        case Part.PRESSURE:
            return pressed(series.FULL_BACKLOG if full else series.BACKLOGS[-1])


def pressed(changes: int, folder: Path = RESULTS) -> list[str]:
    """One trial, written to `growth-pressure.json`; what it missed."""
    found, outcome = pressure.passed(changes)
    part = shown_pressure(found)
    outcome.write({**dataclasses.asdict(found), "shown": part}, folder)
    print(as_table(part))
    return pressure.missed(found)


if __name__ == "__main__":
    alone("scale")
