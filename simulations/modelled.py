"""A recording in tables and transactions that a simulated world can have.

Databases are called `recorded_…`, so that no table is taken for one of the world's own.  The modelled database is
simpler than a real one: columns that are not logged, indexes whose equality is not known, and foreign keys to rows
that the log never shows are left out.  Statements keep their place, but only TRUNCATE has an effect, since every table
has all its columns from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tidelock.engine.model.records import Column, Row, Shape, TableName
from tidelock.engine.model.schema import ForeignKey, TargetColumn, TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.simulations.catalogue import linked
from tidelock.simulations.layout import layout
from tidelock.simulations.recording import Logged, Recording


class Change(msgspec.Struct, frozen=True):
    """A row with all columns of its table, before and after."""

    table: TableName
    before: Row | None
    after: Row | None
    ordinal: int


class Step(msgspec.Struct, frozen=True):
    """A transaction or a statement."""

    source: str
    number: int
    changes: tuple[Change, ...] = ()
    ddl: Ddl | None = None


class Model(msgspec.Struct, frozen=True):
    """`steps` are numbered anew from 1."""

    tables: dict[TableName, TargetTable]
    shapes: dict[TableName, Shape]
    steps: tuple[Step, ...]

    @property
    def rows(self) -> int:
        return sum(len(step.changes) for step in self.steps)


def modelled(recording: Recording) -> Model:
    """The recording in tables that the world can have."""
    shapes = _shapes(recording)
    steps = tuple(_steps(recording.log, shapes))
    tables = [_table(recording.tables[_real(name)], shape) for name, shape in shapes.items()]
    return Model(linked(*_referring(tables, steps)), shapes, steps)


def _named(name: TableName) -> TableName:
    return TableName(f"recorded_{name.schema}", name.table)


def _real(name: TableName) -> TableName:
    return TableName(name.schema.removeprefix("recorded_"), name.table)


def _shapes(recording: Recording) -> dict[TableName, Shape]:
    """All columns that a table had at any time."""
    columns: dict[TableName, dict[str, Column]] = {}
    for logged in recording.log:
        for shape, _, _ in logged.rows.values():
            if shape.name in recording.tables:
                columns.setdefault(_named(shape.name), {}).update({c.name: c for c in shape.columns})
    return {name: Shape(name, tuple(of.values()), recording.tables[_real(name)].key) for name, of in columns.items()}


def _steps(log: Sequence[Logged], shapes: dict[TableName, Shape]) -> Iterator[Step]:
    for number, logged in enumerate(log, 1):
        changes = [
            Change(_named(shape.name), _widened(before, shape, to), _widened(after, shape, to), ordinal)
            for ordinal, (shape, before, after) in sorted(logged.rows.items())
            if (to := shapes.get(_named(shape.name))) is not None
        ]
        yield Step(logged.source, number, tuple(changes), _statement(logged.ddl, number, shapes))


def _widened(row: Row | None, shape: Shape, to: Shape) -> Row | None:
    if row is None:
        return None
    values = {c.name: value for c, value in zip(shape.columns, row, strict=True)}
    return tuple(values.get(c.name) for c in to.columns)


def _statement(ddl: Ddl | None, number: int, shapes: dict[TableName, Shape]) -> Ddl | None:
    if ddl is None:
        return None
    tables = tuple(name for name in map(_named, ddl.tables) if name in shapes)
    effective = tables and (ddl.kind is DdlKind.TRUNCATE or (ddl.kind is DdlKind.OTHER and len(tables) == 1))
    return replace(ddl, number=number, kind=ddl.kind if effective else DdlKind.UNRELATED, tables=tables)


def _table(real: TargetTable, shape: Shape) -> TargetTable:
    known = {c.name: c for c in real.columns}
    columns = [known.get(c.name) or TargetColumn(c.name, "") for c in shape.columns]
    logged = [c.name for c in columns]
    foreign = [replace(f, child=_named(f.child), parent=_named(f.parent)) for f in real.foreign_keys]
    return TargetTable(
        shape.name,
        tuple(replace(c, generated=False, default=False) for c in columns),
        real.key,
        tuple(u for u in real.uniques if not u.opaque and all(c in logged for c in u.columns)),
        tuple(f for f in foreign if all(c in logged for c in f.columns)),
    )


def _referring(tables: Sequence[TargetTable], steps: Sequence[Step]) -> Iterator[TargetTable]:
    """The tables with those foreign keys whose parents all are in the log."""
    images: dict[TableName, list[Row]] = {table.name: [] for table in tables}
    for step in steps:
        for change in step.changes:
            images[change.table] += [row for row in (change.before, change.after) if row is not None]
    by_name = {table.name: table for table in tables}

    def shown(fk: ForeignKey) -> bool:
        parent = by_name.get(fk.parent)
        if parent is None or fk.parent_columns not in layout(parent).lookup:
            return False
        there = {layout(parent).reads(fk.parent_columns)(row) for row in images[fk.parent]}
        reads = layout(by_name[fk.child]).reads(fk.columns)
        return all(value is None or value in there for value in map(reads, images[fk.child]))

    for table in tables:
        yield replace(table, foreign_keys=tuple(fk for fk in table.foreign_keys if shown(fk)))
