"""Definitions of tables of a MySQL or MariaDB server (`adapters.ports.definition`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.catalogue import ColumnRow, Server, condition
from tidelock.adapters.ports.definition import Default, Definition, IndexPart, PlainIndex
from tidelock.engine.model.records import TableName

_QUOTED = re.compile(r"'((?:[^'\\]|''|\\.)*)'")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "Z": "\x1a"}
_OWN_CHECK = re.compile(r"json_valid\(`[^`]+`\)", re.IGNORECASE)
"""The check that MariaDB gives a JSON column by itself."""


async def read_definitions(server: Server, names: Sequence[TableName]) -> dict[TableName, Definition]:
    """Reads the definitions of those of the tables that exist."""
    columns: dict[TableName, list[ColumnRow]] = defaultdict(list)
    for row in await catalogue.columns(server, names):
        columns[row.table_name].append(row)
    if not columns:
        return {}
    indexes = await _indexes(server, names)
    checks = await catalogue.checks(server, names)
    tables, comments = await _comments(server, names)
    partitioned = await _partitioned(server, names)
    return {
        name: Definition(
            defaults={c.name: d for c in rows if (d := default_of(c, mariadb=server.is_mariadb)) is not None},
            counters=tuple(c.name for c in rows if "auto_increment" in c.extra),
            on_update=tuple(c.name for c in rows if "on update" in c.extra),
            indexes=tuple(indexes[name]),
            checks=tuple((check, _clause(text)) for check, text in checks[name] if not _OWN_CHECK.fullmatch(text)),
            comment=tables.get(name, ""),
            comments=comments[name],
            partitioned=partitioned.get(name, ""),
        )
        for name, rows in columns.items()
    }


def default_of(row: ColumnRow, *, mariadb: bool) -> Default | None:
    """Returns the default of a column, None where it has none but NULL."""
    text = row.default
    if text is None or row.generated or (mariadb and text == "NULL"):
        return None
    if not mariadb:
        made = "default_generated" in row.extra or text.upper().startswith("CURRENT_TIMESTAMP")
        return Default(expression=_clause(text)) if made else Default(_bits(text))
    if found := _QUOTED.fullmatch(text):
        return Default(_plain(found[1]))
    return Default(_bits(text)) if _NUMBER.fullmatch(text) or text.startswith("b'") else Default(expression=text)


def _bits(text: str) -> str:
    """Returns `b'101'` as a number, anything else as it is."""
    return str(int(text[2:-1], 2)) if re.fullmatch(r"b'[01]+'", text) else text


def _plain(text: str) -> str:
    """Returns what a quoted text means."""
    return re.sub(r"''|\\(.)", lambda m: "'" if m[0] == "''" else _ESCAPES.get(m[1], m[1]), text, flags=re.DOTALL)


def _clause(text: str) -> str:
    """Returns an expression as it was written: MySQL's catalogue puts backslashes before quotes."""
    return text.replace("\\'", "'")


async def _indexes(server: Server, names: Sequence[TableName]) -> dict[TableName, list[PlainIndex]]:
    where, args = condition(names)
    expression = "''" if server.is_mariadb else "COALESCE(EXPRESSION, '')"
    rows = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, LOWER(INDEX_TYPE), COALESCE(COLUMN_NAME, ''),
        COALESCE(SUB_PART, 0), COALESCE(COLLATION, '') = 'D', {expression}
        FROM information_schema.STATISTICS WHERE NON_UNIQUE = 1 AND ({where})
        ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX""",
        *args,
    )
    parts: dict[tuple[TableName, str, str], list[IndexPart]] = defaultdict(list)
    for schema, table, index, method, column, prefix, descending, text in rows:
        part = IndexPart(column, int(prefix), bool(descending), _clause(text))
        parts[TableName(schema, table), index, method].append(part)
    made: dict[TableName, list[PlainIndex]] = defaultdict(list)
    for (table_name, name, method), of_index in parts.items():
        made[table_name].append(PlainIndex(name, tuple(of_index), method, columns=tuple(p.column for p in of_index)))
    return made


async def _comments(
    server: Server, names: Sequence[TableName]
) -> tuple[dict[TableName, str], dict[TableName, dict[str, str]]]:
    where, args = condition(names)
    tables = await server.ask(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE {where}", *args
    )
    columns = await server.ask(
        f"""SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS
        WHERE COLUMN_COMMENT <> '' AND ({where})""",
        *args,
    )
    of_columns: dict[TableName, dict[str, str]] = defaultdict(dict)
    for schema, table, column, text in columns:
        of_columns[TableName(schema, table)][column] = text
    return {TableName(schema, table): text for schema, table, text in tables}, of_columns


async def _partitioned(server: Server, names: Sequence[TableName]) -> dict[TableName, str]:
    where, args = condition(names)
    rows = await server.ask(
        f"""SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, PARTITION_METHOD, COALESCE(PARTITION_EXPRESSION, '')
        FROM information_schema.PARTITIONS WHERE PARTITION_METHOD IS NOT NULL AND ({where})""",
        *args,
    )
    return {TableName(schema, table): f"{method} ({text})" for schema, table, method, text in rows}
