"""Rewrites tables for a MySQL or MariaDB target that its source's types and collations are not those of."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.type_map import is_text, mysql_type, without_comments
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import UniqueKey

ROW_BYTES = 60_000
"""Bytes of a row's columns in MySQL and MariaDB, about: texts without a length are beside it."""
INDEX_BYTES = 3_072
"""Bytes of an index's columns in MySQL and MariaDB."""
_TEXT_LENGTH = re.compile(r"(?:var)?char\((\d+)\)")
_OWN_KINDS = (Kind.UUID, Kind.INET4, Kind.INET6, Kind.VECTOR)
_ONLY_MYSQL = re.compile(r"_0900_|^gb18030_")
_ONLY_MARIADB = re.compile(r"_nopad_|uca1400|_croatian_mysql561_|_myanmar_|_thai_520_")
# What its JSON is, without the check, which refuses documents deeper than 32.
_MARIADB_JSON = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_MYSQL_BINARY, _MARIADB_BINARY = "utf8mb4_0900_bin", "utf8mb4_nopad_bin"


def reworded(table: SourceTable, *, mariadb: bool) -> SourceTable:
    """Returns `table` for a target that is the other server; `mariadb`: the target is MariaDB.

    A collation that it lacks becomes the one that tells all texts apart, because no other is sure to keep apart what
    the source does: a target that is stricter refuses rows.
    """
    return replace(table, columns=tuple(_column(column, mariadb) for column in table.columns))


def from_postgres(table: SourceTable, *, mariadb: bool) -> SourceTable:
    """Returns a table of PostgreSQL for a MySQL or MariaDB target, without the columns that the log does not have.

    Texts get the collation that tells all texts apart, as PostgreSQL's own do.
    """
    keys = {name for unique in table.uniques for name in unique.columns}
    columns = tuple(_of_postgres(column, mariadb) for column in _narrowed(table.columns, keys) if column.logged)
    return replace(table, columns=columns)


def _narrowed(columns: Sequence[SourceColumn], keys: Collection[str]) -> list[SourceColumn]:
    """Returns columns whose texts fit in a row, which holds 65,535 bytes: the longest lose their length, and are kept
    beside it.
    """
    made = list(columns)
    longest = sorted(range(len(made)), key=lambda at: made[at].column.length, reverse=True)
    for at in longest:
        column = made[at].column
        if sum(map(_row_bytes, made)) <= ROW_BYTES or column.kind is not Kind.TEXT:
            break
        if column.name not in keys:
            made[at] = replace(made[at], column=replace(column, length=0, type="text"))
    return made


def _row_bytes(column: SourceColumn) -> int:
    """Returns about how many bytes of a row a column takes."""
    found = _TEXT_LENGTH.match(mysql_type(column.column))
    return 4 * int(found[1]) if found else 8


def without_long_keys(table: SourceTable) -> SourceTable:
    """Returns a table of PostgreSQL without the unique keys that MySQL and MariaDB make no index for, but for the
    primary key.
    """
    kept = tuple(u for u in table.uniques if u.name == "PRIMARY" or not _too_long(table, u))
    return replace(table, uniques=kept)


def long_keys(table: SourceTable) -> list[str]:
    """Lists columns of keys that are too long for an index of MySQL and MariaDB, or have no length."""
    return list(dict.fromkeys(filter(None, (_too_long(table, unique) for unique in table.uniques))))


def _too_long(table: SourceTable, unique: UniqueKey) -> str:
    """Returns the longest column of a key that MySQL and MariaDB make no index for; '' where they do."""
    sizes = {c.name: _index_bytes(c) for c in table.columns if c.name in unique.columns}
    return max(sizes, key=sizes.__getitem__) if sum(sizes.values()) > INDEX_BYTES else ""


def _index_bytes(column: SourceColumn) -> int:
    return INDEX_BYTES + 1 if mysql_type(column.column).startswith("long") else _row_bytes(column)


def _of_postgres(column: SourceColumn, mariadb: bool) -> SourceColumn:
    if column.column.kind is Kind.JSON and mariadb:  # whose JSON is a text with a check that refuses deep documents
        column = replace(column, column=replace(column.column, type="json"))
    collation = _MARIADB_BINARY if mariadb else _MYSQL_BINARY
    return replace(column, collation=collation if is_text(mysql_type(column.column)) else "")


def known_collation(column: SourceColumn, *, mariadb: bool) -> SourceColumn:
    """Returns a column with the collation that tells all texts apart where MySQL, or MariaDB, lacks its own."""
    unknown = _ONLY_MYSQL if mariadb else _ONLY_MARIADB
    if unknown.search(column.collation):
        column = replace(column, column=replace(column.column, charset=""))
        return apart(column, mariadb=mariadb)
    return column


def apart(column: SourceColumn, *, mariadb: bool) -> SourceColumn:
    """Returns a column of texts with the collation of its character set that tells all of them apart."""
    charset = column.column.charset or "utf8mb4"
    if charset == "utf8mb4":
        collation = _MARIADB_BINARY if mariadb else _MYSQL_BINARY
    else:
        charset = "utf8mb3" if charset == "utf8" else charset
        collation = f"{charset}_bin"
    return replace(column, collation=collation, column=replace(column.column, charset=charset))


def _column(column: SourceColumn, mariadb: bool) -> SourceColumn:
    column = known_collation(column, mariadb=mariadb)
    if column.column.kind is Kind.JSON and mariadb:
        return replace(column, type=_MARIADB_JSON)
    if column.column.kind in _OWN_KINDS:
        return replace(column, type=mysql_type(column.column))
    type_ = without_comments(column.type)
    return replace(column, type="geometrycollection" if type_ == "geomcollection" else type_)
