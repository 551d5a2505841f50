"""`tidelock bench scale`: what grows with tables, row width, backlog and lanes, and a target that stands still.

    python -m bench.growth.command --only tables --only backlog

Exit code 3: tidelock's processes held more memory together than they may, or 2,000 tables of which 20 take 80 % of the
changes kept less than 80 % of the rate of one table.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from bench.growth import pressure, series

KEPT: Final = 0.8
SKEWED: Final = "2,000, 20 hot"
MISSED: Final = 3


class Part(enum.StrEnum):
    """What may be measured."""

    TABLES = "tables"
    WIDTH = "width"
    BACKLOG = "backlog"
    LANES = "lanes"
    PRESSURE = "pressure"


def command(
    only: Annotated[list[Part] | None, typer.Option(help="One part; may be given again. All, if none.")] = None,
    changes: Annotated[int, typer.Option(min=1, help="Row changes of a case (backlog has its own).")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often the cases take their turn.")] = 1,
    native: Annotated[bool, typer.Option(help="PostgreSQL's own replication beside the tables.")] = True,
    full: Annotated[bool, typer.Option(help="The 10-million backlogs too: a quarter of an hour.")] = False,
) -> int:
    """Measure what grows; the results go to bench/results/growth-*.json."""
    missed: list[str] = []
    for part in only or list(Part):
        print(f"— {part}", flush=True)
        missed += _parts(changes, rounds, native, full)[part]()
    for line in missed:
        print(f"missed: {line}")
    return MISSED if missed else 0


def _parts(changes: int, rounds: int, native: bool, full: bool) -> dict[Part, Callable[[], list[str]]]:
    peers = series.NATIVE if native else ()
    return {
        Part.TABLES: lambda: _series("tables", series.tables(changes), rounds, peers),
        Part.WIDTH: lambda: _series("width", series.widths(changes), rounds),
        Part.BACKLOG: lambda: _series("backlog", series.backlogs(full), rounds),
        Part.LANES: lambda: _series("lanes", series.lanes(changes), rounds),
        Part.PRESSURE: lambda: pressure.missed(pressure.measure(series.FULL_BACKLOG if full else series.BACKLOGS[-1])),
    }


def _series(name: str, cases: Sequence[series.Case], rounds: int, native: Sequence[str] = ()) -> list[str]:
    report = series.measure(name, cases, rounds, native)
    return [f"{name}: {case} held too much memory" for case in series.too_large(report)] + _rate_lost(report)


def _rate_lost(report: dict[str, Any]) -> list[str]:
    kept = {case["case"]: case["kept"]["flowing_rows_per_second"] for case in report["cases"]}
    lost = SKEWED in kept and kept[SKEWED] < KEPT
    return [f"{SKEWED}: kept {kept[SKEWED]:.0%} of the rate of one table, {KEPT:.0%} wanted"] if lost else []


def main() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    sys.exit(typer.main.get_command(app).main(standalone_mode=False))


if __name__ == "__main__":
    main()
