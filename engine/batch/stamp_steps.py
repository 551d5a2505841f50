"""Steps of a feed without an arbiter: the row with the greater stamp stays (`engine.two_way.stamp`).

A change says what its row is from then on, with its own stamp, and nothing else is asked of it.  So inserts and
updates are one thing, and the sink writes what is greater than what stands.  A delete in the log says nothing: its
stamp is in the tombstone that was left with it, a row of its own table, whose changes come as all others do; likewise
of a changed key, which is a row under the new one.  Tombstones that are purged stay where they are at other sites: each
purges its own.  One of time 0 was there for a moment only: it is how a writer at PostgreSQL asks for others
(`adapters.schema.postgres_stamps`).

Such changes give one result in whatever order they come, so the fold keeps the greatest of each key, and a batch in
log order is made in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.engine.model.records import Kind, Row, Value
from tidelock.engine.model.schema import Binding, Equality, SchemaMismatch
from tidelock.engine.model.stamp_columns import StampColumns, holds_tombstones
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import Step, UpsertRows

KEYS: Final = (Kind.INT, Kind.TEXT, Kind.UUID)
_NO_STAMP: Final = (-1, "")


def stamp_steps(changes: Sequence[Change], columns: StampColumns) -> list[Step]:
    """Returns the steps of one batch: of each key what has the greatest stamp, tombstones first."""
    tables: dict[Binding, dict[Value, Row]] = {}
    table: Binding | None = None
    for change in changes:
        row = change.after
        if row is None:
            continue
        if change.binding is not table:  # neighbours are often of one table
            table = change.binding
            rows, key_of = tables.setdefault(table, {}), table.identity
            dead, (time, site) = holds_tombstones(table.name), places(table, columns)
        if dead and row[time] == 0:
            continue
        key = key_of(row)
        known = rows.get(key)
        if known is None or _stamp(row, time, site) > _stamp(known, time, site):
            rows[key] = row
    steps: list[Step] = [
        UpsertRows(table, [rows[key] for key in sorted(rows)], fresh=False, stamp=places(table, columns))
        for table, rows in tables.items()
        if rows
    ]
    return sorted(steps, key=lambda step: not holds_tombstones(step.table.name))


def places(table: Binding, columns: StampColumns) -> tuple[int, int]:
    """Returns where a stamp's time and site are in the table's rows.  Raises SchemaMismatch."""
    names = [column.name for column in table.shape.columns]
    if columns.time not in names or columns.site not in names:
        raise SchemaMismatch(
            f"{table.name} has no columns {columns.time} and {columns.site}, which hold its rows' stamps; "
            "`tidelock init FEED --apply` makes them, and the triggers that write them"
        )
    return names.index(columns.time), names.index(columns.site)


def _stamp(row: Row, time: int, site: int) -> tuple[int, str]:
    """Returns what is compared; a row without a stamp is older than all, and is refused where it is written."""
    return _NO_STAMP if row[time] is None or row[site] is None else (row[time], row[site])


def require_stamps(table: Binding, columns: StampColumns) -> None:
    """Raises SchemaMismatch where rows of the table cannot be told apart, or not be compared, by stamps."""
    arbiter = "an arbiter decides conflicts of such a table (`conflicts: arbiter`)"
    if table.partial:
        raise SchemaMismatch(
            f"stamps need whole rows, and of a long value of {table.shape.name} that an update leaves alone the source "
            f"logs nothing; run ALTER TABLE … REPLICA IDENTITY FULL on it at the source"
        )
    uniques = [unique for unique in table.target.uniques if unique.columns != table.target.key or unique.opaque]
    if not table.key or len(uniques) == len(table.target.uniques):
        raise SchemaMismatch(f"stamps need a primary key, and {table.name} has none; give it one, or {arbiter}")
    if uniques:
        raise SchemaMismatch(
            f"{table.name} has the unique key {uniques[0].name} besides its primary key, of which stamps make no equal "
            f"rows; drop it at all sites, or {arbiter}"
        )
    if not table.fk_free:
        raise SchemaMismatch(
            f"{table.name} has foreign keys, or others refer to it, and rows with stamps come in any order; drop those "
            f"keys at all sites, or {arbiter}"
        )
    if table.has_target_only_columns:
        raise SchemaMismatch(
            f"{table.name} has columns that {table.shape.name} has not, and stamps are for whole rows; give all sites "
            "the same columns"
        )
    _require_exact(table, arbiter)
    time, site = places(table, columns)
    kinds = (table.shape.columns[time].kind, table.shape.columns[site].kind)
    written = (table.columns[time], table.columns[site])
    if kinds != (Kind.INT, Kind.TEXT) or any(column is None or column.nullable for column in written):
        raise SchemaMismatch(
            f"{table.name}: {columns.time} is to be a BIGINT NOT NULL and {columns.site} a VARCHAR(64) NOT NULL; "
            "drop them and run `tidelock init FEED --apply`"
        )


def _require_exact(table: Binding, arbiter: str) -> None:
    equality = {column.name: column.equality for column in table.target.columns}
    for at in table.key:
        column = table.shape.columns[at]
        if column.kind not in KEYS or equality[column.name] is not Equality.EXACT:
            raise SchemaMismatch(
                f"{table.name}: nobody can say exactly whose tombstone one is by {column.name} ({column.kind}, "
                f"{equality[column.name]}); make it a number, a UUID or a text with a binary collation without "
                f"padding, or {arbiter}"
            )
