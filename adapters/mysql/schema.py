"""Tables of a MySQL or MariaDB server: as a target (`read_tables`) and as a source (`read_shapes`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import AsyncServer, ColumnRow, IndexRow, Server
from tidelock.adapters.mysql.collation import equality
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.adapters.schema.tables import Index, assemble
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey

if TYPE_CHECKING:
    import aiomysql

VERSIONED: Final = "SYSTEM VERSIONED"
"""TABLE_TYPE of a table of MariaDB that keeps its former rows."""
_TEXT = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_GEOMETRY = ("point", "linestring", "polygon", "geometry", "geometrycollection", "geomcollection")
_SPATIAL = frozenset((*_GEOMETRY, *(f"multi{g}" for g in _GEOMETRY[:3])))
_UNCERTAIN = frozenset(("float", "double", "json", "vector", *_SPATIAL))
_KINDS = {
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "decimal": Kind.DECIMAL,
    "date": Kind.DATE,
    "datetime": Kind.DATETIME,
    "timestamp": Kind.TIMESTAMP,
    "time": Kind.TIME,
    "year": Kind.YEAR,
    "bit": Kind.BIT,
    "enum": Kind.ENUM,
    "set": Kind.SET,
    "json": Kind.JSON,
    "vector": Kind.VECTOR,
    "uuid": Kind.UUID,
    "inet4": Kind.INET4,
    "inet6": Kind.INET6,
}
_LABEL = re.compile(r"'((?:[^']|'')*)'")
_ESCAPED = re.compile(r"''|\\(.)")
_ESCAPES = {"n": "\n", "r": "\r", "0": "\0"}


async def read_tables(connection: aiomysql.Connection, names: Sequence[TableName]) -> dict[TableName, TargetTable]:
    """The tables of `names` that are there.  Raises what aiomysql raises."""
    return await tables_of(AsyncServer(connection), names)


async def read_tables_to_change(
    connection: aiomysql.Connection, names: Sequence[TableName]
) -> dict[TableName, TargetTable]:
    """The same, with their plain indexes and the names of their CHECKs."""
    tables, server = await read_tables(connection, names), AsyncServer(connection)
    if not tables:
        return {}
    plain = await catalogue.plain_indexes(server, list(tables))
    checks = await catalogue.checks(server, list(tables))
    return {
        name: replace(table, plain_indexes=plain.get(name, ()), checks=tuple(check for check, _ in checks[name]))
        for name, table in tables.items()
    }


async def tables_of(server: Server, names: Sequence[TableName]) -> dict[TableName, TargetTable]:
    """The same by any driver."""
    columns = _by_table(await catalogue.columns(server, names))
    indexes = await catalogue.unique_indexes(server, list(columns))
    foreign_keys = await catalogue.foreign_keys(server, list(columns)) if columns else []
    targets = {name: [_target_column(c) for c in rows] for name, rows in columns.items()}
    return assemble(names, targets, [_index(i, columns[i.table_name]) for i in indexes], foreign_keys)


def versioned(name: TableName) -> UnsuitableLog:
    """Returns why the log does not tell the rows of a system-versioned table of MariaDB."""
    return UnsuitableLog(
        f"{name} is system-versioned: the log tells a DELETE as an UPDATE, and former rows as new ones of the same key",
        f"ALTER TABLE `{name.schema}`.`{name.table}` DROP SYSTEM VERSIONING; or leave it out of `tables`. "
        f"Where the feed has run before, rows of both are in its log by now: {RESYNC}",
    )


async def read_shapes(server: Server, wanted: Callable[[TableName], bool]) -> dict[TableName, SourceTable]:
    """The source tables that `wanted` chooses, in order of their names, without views."""
    seen = await server.ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE TABLE_TYPE IN ('BASE TABLE', '{VERSIONED}')",
    )
    visible = set(await catalogue.schemas(server))
    names = sorted(n for n in (TableName(*row) for row in seen) if n.schema in visible and wanted(n))
    if not names:
        return {}
    columns = _by_table(await catalogue.columns(server, names))
    uniques: dict[TableName, list[UniqueKey]] = defaultdict(list)
    for index in await catalogue.unique_indexes(server, names):
        uniques[index.table_name].append(_index(index, columns[index.table_name]).unique)
    children: dict[TableName, list[ForeignKey]] = defaultdict(list)
    for key in await catalogue.foreign_keys(server, names):
        children[key.child].append(key)
    return {
        name: SourceTable(
            name, tuple(source_column(c) for c in columns[name]), tuple(uniques[name]), tuple(children[name])
        )
        for name in names
        if name in columns
    }


def _by_table(rows: list[ColumnRow]) -> dict[TableName, list[ColumnRow]]:
    tables: dict[TableName, list[ColumnRow]] = defaultdict(list)
    for row in rows:
        tables[row.table_name].append(row)
    return tables


def _equality(column: ColumnRow) -> tuple[Equality, str]:
    if column.data_type in _TEXT:
        return equality(column.collation, column.data_type == "char")
    uncertain = column.data_type in _UNCERTAIN
    return Equality.EXACT, f"{column.data_type} values may be equal without being the same" if uncertain else ""


def _target_column(row: ColumnRow) -> TargetColumn:
    # MariaDB spells the absent default of a nullable column as the text NULL.
    default = row.default is not None and not (row.nullable and row.default == "NULL")
    return TargetColumn(
        name=row.name,
        type=row.column_type,
        nullable=row.nullable,
        generated=row.generated,
        default=default or "auto_increment" in row.extra or "default_generated" in row.extra,
        equality=_equality(row)[0],
        collation=row.collation,
        automatic="auto_increment" in row.extra,
    )


def _index(index: IndexRow, columns: list[ColumnRow]) -> Index:
    by_name = {c.name: c for c in columns}
    expressions = [text for text in index.expressions if text]
    names: tuple[str, ...] = tuple(c for c in index.columns if c is not None)
    opaque = ""
    if expressions:
        opaque = "over an expression, whose value is not in the log"
        names += catalogue.columns_in(" ".join(expressions), (c for c in by_name if c not in names))
    elif any(index.prefixes):
        opaque = "over a prefix of a column"
    elif generated := next((n for n in names if by_name[n].generated), None):
        opaque = f"over the generated column {generated}, which the target computes"
        used = " ".join(by_name[n].expression for n in names)
        names += catalogue.columns_in(used, (c for c in by_name if c not in names))
    else:
        opaque = next((f"column {n}: {reason}" for n in names if (reason := _equality(by_name[n])[1])), "")
    return Index(
        table=index.table_name,
        unique=UniqueKey(index.name, names, opaque),
        primary=index.name == "PRIMARY",
        identifies=not expressions,
    )


def source_column(row: ColumnRow) -> SourceColumn:
    """Describe a column of a source as the engine sees it."""
    return SourceColumn(
        column=_column(row),
        type=row.column_type,
        nullable=row.nullable,
        default="" if row.default is None or row.default == "NULL" else row.default,
        generated=row.generated,
        collation=row.collation,
    )


def _column(row: ColumnRow) -> Column:
    """Describe a column as the log does (`adapters.mysql.binlog.codecs.column`)."""
    unsigned = "unsigned" in row.column_type
    match row.data_type:
        case integer if integer in _INTEGERS:
            return Column(row.name, Kind.INT, unsigned, _INTEGERS[integer])
        case "decimal":
            return Column(row.name, Kind.DECIMAL, unsigned, precision=row.precision, scale=row.scale)
        case "bit":
            return Column(row.name, Kind.BIT, length=row.precision)
        case "datetime" | "timestamp" | "time":
            return Column(row.name, _KINDS[row.data_type], scale=row.fraction)
        case "enum" | "set":
            labels = tuple(_ESCAPED.sub(_unescaped, label) for label in _LABEL.findall(row.column_type))
            return Column(row.name, _KINDS[row.data_type], charset=row.charset, labels=labels)
        case "char" | "varchar":
            return Column(row.name, Kind.TEXT, length=row.characters, charset=row.charset)
        case text if text in _TEXT:
            return Column(row.name, Kind.TEXT, charset=row.charset)
        case "binary" | "varbinary":
            return Column(row.name, Kind.BINARY, length=row.characters)
        case spatial if spatial in _SPATIAL:
            return Column(row.name, Kind.GEOMETRY)
        case other:
            return Column(row.name, _KINDS.get(other, Kind.BINARY))


def _unescaped(found: re.Match[str]) -> str:
    """Returns a character of a label, which COLUMN_TYPE spells as SHOW CREATE TABLE does."""
    escaped: str | None = found[1]
    return "'" if escaped is None else _ESCAPES.get(escaped, escaped)
