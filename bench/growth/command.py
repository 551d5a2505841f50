"""`tidelock bench scale`: what grows with tables, row width, backlog and lanes, and a target that stands still.

    tidelock bench scale --only tables --only backlog
    tidelock bench scale --source postgres --only backlog --backlog 10000000
    tidelock bench scale --source postgres --only giant --megabytes 2000 --consistency transaction

Exit code 3: tidelock's processes held more memory together than they may (of a giant transaction: one of them), rows
differ, or 2,000 tables of which 20 take 80 % of the changes kept less than 80 % of the rate of one table.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench import giant
from bench.command import alone
from bench.e2e.setup import CONSISTENCIES
from bench.growth import pressure, series
from bench.growth.ground import MARIADB, SOURCES, of_source
from bench.growth.shown import as_table, shown_giant, shown_pressure
from bench.outcome import RESULTS, Outcome

MISSED: Final = 3


class Part(enum.StrEnum):
    """Names of what can be measured."""

    TABLES = "tables"
    WIDTH = "width"
    BACKLOG = "backlog"
    LANES = "lanes"
    PRESSURE = "pressure"
    GIANT = "giant"


USUAL: Final = tuple(part for part in Part if part is not Part.GIANT)


@dataclasses.dataclass(frozen=True)
class Asked:
    """Options of the command, as it tells them."""

    changes: int
    rounds: int
    native: bool
    full: bool
    source: str
    backlog: int
    megabytes: int
    consistency: str
    folder: Path


def command(
    only: Annotated[list[Part] | None, typer.Option(help="One part; again for more. All but giant, if none.")] = None,
    changes: Annotated[int, typer.Option(min=1, help="Row changes of a case (backlog and pressure: own).")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often the cases take their turn.")] = 1,
    native: Annotated[bool, typer.Option(help="PostgreSQL's own replication beside the tables.")] = True,
    full: Annotated[bool, typer.Option(help="Backlogs of 10 million changes: half an hour.")] = False,
    source: Annotated[str, typer.Option(help=f"{' or '.join(SOURCES)}.")] = MARIADB,
    backlog: Annotated[int, typer.Option(min=0, help="Row changes of the longest backlog; 0: the usual ones.")] = 0,
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the giant transaction.")] = 2000,
    consistency: Annotated[str, typer.Option(help="Of the giant's feed: row or transaction.")] = "row",
    folder: Annotated[Path, typer.Option(help="Where the results go, growth-*.json.")] = RESULTS,
) -> int:
    """Measure what grows, and what is held in memory meanwhile."""
    if source not in SOURCES:
        raise typer.BadParameter(f"no source {source}: there are {', '.join(SOURCES)}")
    if consistency not in CONSISTENCIES:
        raise typer.BadParameter(f"no consistency {consistency}: there are {', '.join(CONSISTENCIES)}")
    asked = Asked(changes, rounds, native, full, source, backlog, megabytes, consistency, folder)
    missed: list[str] = []
    for part in only or USUAL:
        print(f"— {part}", flush=True)
        missed += [f"{part}: {line}" for line in _measured(part, asked)]
    for line in missed:
        print(f"missed: {line}")
    return MISSED if missed else 0


def _measured(part: Part, asked: Asked) -> list[str]:
    """List what the part missed."""
    match part:
        case Part.TABLES:
            peers = series.NATIVE if asked.native else ()
            return series.missed(_series("tables", series.tables(asked.changes), asked, peers))
        case Part.WIDTH:
            return series.missed(_series("width", series.widths(asked.changes), asked))
        case Part.BACKLOG:
            return series.missed_backlog(_series("backlog", series.backlogs(asked.full, asked.backlog), asked))
        case Part.LANES:
            return series.missed(_series("lanes", series.lanes(asked.changes), asked))
        case Part.PRESSURE:
            return pressed(asked)
        case Part.GIANT:
            return passed_giant(asked)


def _series(name: str, cases: Sequence[series.Case], asked: Asked, peers: Sequence[str] = ()) -> dict[str, Any]:
    return series.measure(name, cases, asked.rounds, peers, asked.folder, asked.source)


def pressed(asked: Asked) -> list[str]:
    """One trial, written to `growth-pressure.json`; what it missed."""
    changes = asked.backlog or (series.FULL_BACKLOG if asked.full else series.BACKLOGS[-1])
    found, outcome = pressure.passed(changes, source=asked.source)
    part = shown_pressure(found)
    outcome.write({**dataclasses.asdict(found), "shown": part}, asked.folder)
    print(as_table(part))
    return pressure.missed(found)


def passed_giant(asked: Asked) -> list[str]:
    """One transaction through one run, written to `growth-giant-….json`; what it missed."""
    outcome = Outcome(of_source(f"growth-giant-{asked.consistency}", asked.source))
    found = giant.measure_embedded(asked.megabytes, asked.source, "postgres", asked.consistency)
    part = shown_giant(found, asked.source, asked.consistency)
    outcome.write({**dataclasses.asdict(found), "shown": part}, asked.folder)
    print(as_table(part))
    return giant.missed(found)


if __name__ == "__main__":
    alone("scale")
