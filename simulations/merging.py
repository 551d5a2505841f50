"""The merge of a chunk in the modelled target: what is staged, less what the machine leaves out, plus the last images.

Rows are inserted plainly; what refers to others of the table is looked at when all are in (the constraints' checker
does that).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.effects import MergeChunk, UpsertRows
from engine.records import Row
from simulations.layout import DEFAULT
from simulations.model import Table
from simulations.session import Session
from simulations.view import Mistake


def merge(session: Session, effect: MergeChunk, staged: Sequence[Row]) -> None:
    """Raises Violation."""
    table = session.table(effect.split.table)
    names = _names(table)
    left_out = frozenset(effect.without)
    rows = [row for row in staged if tuple(_value(names, row, c) for c in effect.key) not in left_out or not effect.key]
    for step in effect.steps:
        assert isinstance(step, UpsertRows), "a chunk is written with inserts"
        rows += step.rows
    session.trusting = True
    for row in rows:
        session.insert(table.spec.name, _whole(table, names, row))


def _names(table: Table) -> list[str]:
    return [c.name for c in table.spec.columns if not c.generated and not c.default]


def _value(names: Sequence[str], row: Row, column: str) -> object:
    return row[names.index(column)]


def _whole(table: Table, names: Sequence[str], row: Row) -> Row:
    """With the target's own columns."""
    if len(names) != len(row):
        raise Mistake(f"{row} of a chunk of {table.spec.name} does not have the columns {names}")
    given = dict(zip(names, row, strict=True))
    whole = tuple(given.get(c.name, DEFAULT if c.default else None) for c in table.spec.columns)
    return table.layout.complete(whole)
