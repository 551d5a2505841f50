"""Definitions of tables of a PostgreSQL server (`adapters.ports.definition`)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from tidelock.adapters.ports.definition import Default, Definition, IndexPart, PlainIndex
from tidelock.adapters.postgres.catalogue import Server, named
from tidelock.engine.model.records import TableName

_WANTED: Final = """
SELECT c.oid, n.nspname, c.relname FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')"""

_COLUMNS: Final = f"""
WITH wanted AS ({_WANTED})
SELECT w.nspname::text, w.relname::text, a.attname::text, a.attidentity <> '',
    CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END,
    coalesce(col_description(w.oid, a.attnum), '')
FROM wanted w
JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = w.oid AND d.adnum = a.attnum
ORDER BY w.oid, a.attnum"""

# An index of a constraint belongs to that; a partition's is made with its parent's.
_INDEXES: Final = f"""
WITH wanted AS ({_WANTED})
SELECT w.nspname::text, w.relname::text, x.relname::text, m.amname::text,
    substr(pg_get_indexdef(x.oid), position(' USING ' IN pg_get_indexdef(x.oid)) + 1),
    coalesce(pg_get_expr(i.indpred, i.indrelid), ''),
    ARRAY(SELECT pg_get_indexdef(x.oid, k::int, true) FROM generate_series(1, i.indnkeyatts) AS k ORDER BY k),
    ARRAY(
        SELECT coalesce(a.attname::text, '') FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
        LEFT JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum = k.attnum AND k.attnum > 0
        WHERE k.n <= i.indnkeyatts ORDER BY k.n
    ),
    ARRAY(SELECT (o & 1) = 1 FROM unnest(i.indoption::int2[]) WITH ORDINALITY AS k(o, n) ORDER BY n),
    ARRAY(
        SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = w.oid AND a.attnum IN (
            SELECT d.refobjsubid FROM pg_depend d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = x.oid AND d.refobjid = w.oid
        ) ORDER BY a.attnum
    )
FROM wanted w
JOIN pg_index i ON i.indrelid = w.oid AND NOT i.indisunique AND NOT i.indisexclusion AND i.indisvalid
JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_am m ON m.oid = x.relam
ORDER BY w.oid, x.relname"""

_CHECKS: Final = f"""
WITH wanted AS ({_WANTED})
SELECT w.nspname::text, w.relname::text, k.conname::text, pg_get_expr(k.conbin, k.conrelid)
FROM wanted w JOIN pg_constraint k ON k.conrelid = w.oid AND k.contype = 'c' ORDER BY w.oid, k.conname"""

_COMMENTS: Final = f"""
WITH wanted AS ({_WANTED})
SELECT w.nspname::text, w.relname::text, coalesce(obj_description(w.oid, 'pg_class'), ''),
    coalesce(pg_get_partkeydef(w.oid), '')
FROM wanted w"""

_DOMAINS: Final = f"""
WITH wanted AS ({_WANTED})
SELECT w.nspname::text, w.relname::text, a.attname::text,
    string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname)
FROM wanted w
JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_constraint k ON k.contypid = a.atttypid AND k.contype = 'c'
GROUP BY 1, 2, 3"""

_LITERAL: Final = re.compile(r"(?:'((?:[^']|'')*)'|\(?(-?\d[\d.]*)\)?|(true|false))(?:::[\w \".()\[\],]+)?")
_SEQUENCE: Final = re.compile(r"nextval\('.*'::regclass\)")


async def read_definitions(server: Server, names: Sequence[TableName]) -> dict[TableName, Definition]:
    """Reads the definitions of those of the tables that exist."""
    wanted = named(names)
    columns = await _by_table(server, _COLUMNS, wanted)
    indexes = await _by_table(server, _INDEXES, wanted)
    checks = await _by_table(server, _CHECKS, wanted)
    comments = await _by_table(server, _COMMENTS, wanted)
    domains = await _by_table(server, _DOMAINS, wanted)
    return {
        name: Definition(
            defaults={c: _default(text) for c, counted, text, _ in rows if text and not (counted or _counts(text))},
            counters=tuple(c for c, counted, text, _ in rows if counted or (text and _counts(text))),
            indexes=tuple(_index(*row) for row in indexes[name]),
            checks=tuple((check, clause) for check, clause in checks[name]),
            comment=comments[name][0][0],
            comments={c: comment for c, _, _, comment in rows if comment},
            partitioned=comments[name][0][1],
            domains=dict(domains[name]),
        )
        for name, rows in columns.items()
    }


async def _by_table(
    server: Server, query: str, wanted: tuple[list[str], list[str]]
) -> defaultdict[TableName, list[list[Any]]]:
    found: defaultdict[TableName, list[list[Any]]] = defaultdict(list)
    for schema, table, *row in await server.ask(query, *wanted):
        found[TableName(schema, table)].append(row)
    return found


def _counts(text: str) -> bool:
    return _SEQUENCE.fullmatch(text) is not None


def _default(text: str) -> Default:
    found = _LITERAL.fullmatch(text)
    if found is None:
        return Default(expression=text)
    quoted, number, truth = found.groups()
    return Default(quoted.replace("''", "'") if quoted is not None else number or truth, text)


def _index(
    name: str, method: str, tail: str, condition: str, texts: list[str], columns: list[str], descending: list[bool],
    mentioned: list[str],
) -> PlainIndex:  # fmt: skip
    parts = tuple(
        IndexPart(column, descending=down, expression="" if column else text)
        for column, down, text in zip(columns, descending, texts, strict=False)
    )
    return PlainIndex(name, parts, method, tail, condition, tuple(mentioned))
