"""Collations of a table that a CREATE TABLE makes at a MySQL or MariaDB target: those that the source's table has.

A statement may leave them to a default, of its table, of its database or of its character set, and the target's default
may be another one.  A key there that takes more texts as equal has one row written over another.  So texts get the
collation that the source's table has (`Ddl.former`).  Where that is not known, as the table is gone by now, those of
keys get one that tells all texts apart; so do all whose collation the target's server lacks.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidelock.adapters.schema.dialects import apart, known_collation
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema_change import FormerTable

_TEXTS = (Kind.TEXT, Kind.ENUM, Kind.SET)


def collated(table: SourceTable, former: FormerTable | None, *, mariadb: bool) -> SourceTable:
    """Returns a table with the collations of its texts.  `former`: the source's table; `mariadb`: the target is."""
    known = {one.column.name.lower(): one.collation for one in former.columns} if former is not None else {}
    keys = {name for unique in table.uniques for name in unique.columns}
    made = (
        _collated(column, known.get(column.name.lower(), ""), column.name in keys, mariadb) for column in table.columns
    )
    return replace(table, columns=tuple(made))


def _collated(column: SourceColumn, told: str, is_key: bool, mariadb: bool) -> SourceColumn:
    if column.column.kind not in _TEXTS:
        return column
    charset = column.column.charset
    if not column.collation and told and _is_of(told, charset):
        column = replace(column, collation=told, column=replace(column.column, charset=told.partition("_")[0]))
    elif not column.collation and is_key and charset != "binary":
        column = apart(column, mariadb=mariadb)
    return known_collation(column, mariadb=mariadb)


def _is_of(collation: str, charset: str) -> bool:
    """Returns whether a collation is of a character set; of any where a statement says none."""
    own = collation.partition("_")[0]
    return not charset or charset.replace("utf8mb3", "utf8") == own.replace("utf8mb3", "utf8")
