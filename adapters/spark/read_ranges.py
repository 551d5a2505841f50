"""Cuts a table into pieces that are read in parallel: each side for itself, along what its server reads best.

The sides need not be cut alike, because rows are compared by the hash of their key and not by where they were found.
So no server's order of texts has to agree with another's.  PostgreSQL is cut by its blocks, which suits every table,
also one without a key.  MySQL and MariaDB are cut along the primary key by walking it, a piece's rows a step, so that a
skewed key and a key of several columns give pieces of one size.  Where its columns cannot be written as literals, or
there is none, the table is one piece, read in one consistent view.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import Kind, TableName

_WRITABLE = (Kind.INT, Kind.DECIMAL, Kind.TEXT, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.BINARY, Kind.YEAR)


class Asked(Protocol):
    """A connection that can be asked."""

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""


def cut_by(table: SourceTable) -> tuple[str, ...]:
    """Returns the columns that a MySQL or MariaDB table is cut by; empty: it is one piece."""
    kinds = {c.name: c.column.kind for c in table.columns}
    return table.primary_key if all(kinds[name] in _WRITABLE for name in table.primary_key) else ()


async def mysql_pieces(server: Asked, table: SourceTable, rows: int) -> tuple[list[str], int]:
    """Returns predicates over the key's columns, named `p0`, `p1`, …, and how many rows there are.  Raises SourceError.
    """
    place = f"{quote('mysql', table.name.schema)}.{quote('mysql', table.name.table)}"
    key = cut_by(table)
    if not key:
        return ["1 = 1"], await _count(server, place)
    places = [quote("mysql", name) for name in key]
    columns = ", ".join(places)
    bounds: list[list[str]] = []
    after = ""
    while True:
        found = await server.ask(f"SELECT {columns} FROM {place}{after} ORDER BY {columns} LIMIT 1 OFFSET {rows - 1}")
        if not found:
            break
        bounds.append([_literal(value) for value in found[0]])
        after = f" WHERE {_after(places, bounds[-1])}"
    names = [f"p{n}" for n in range(len(key))]
    edges = [None, *bounds, None]
    pieces = [_between(names, low, high) for low, high in itertools.pairwise(edges)]
    return pieces, len(bounds) * rows + await _count(server, place + after)


async def _count(server: Asked, rows: str) -> int:
    ((count,),) = await server.ask(f"SELECT COUNT(*) FROM {rows}")
    return int(count)


def _between(names: list[str], low: list[str] | None, high: list[str] | None) -> str:
    parts = [_after(names, low)] if low else []
    parts += [_beside(names, high, "<", "<=")] if high else []
    return " AND ".join(f"({part})" for part in parts) or "1 = 1"


def _after(names: Sequence[str], bound: Sequence[str]) -> str:
    """Returns (names) > (bound), spelled so that MySQL's optimizer reads a range of the index."""
    return _beside(names, bound, ">", ">")


def _beside(names: Sequence[str], bound: Sequence[str], side: str, last: str) -> str:
    """`side`: on which side of the bound, `<` or `>`.  `last`: how the last column is compared."""
    first, value = names[0], bound[0]
    if len(names) == 1:
        return f"{first} {last} {value}"
    return f"{first} {side} {value} OR ({first} = {value} AND ({_beside(names[1:], bound[1:], side, last)}))"


def _literal(value: Any) -> str:
    match value:
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return f"_utf8mb4 x'{value.encode().hex()}'"
        case int():
            return str(value)
        case _:
            return f"'{value}'"


async def postgres_pieces(server: Asked, name: TableName, count: int) -> list[str]:
    """Returns `count` ranges of blocks, as predicates over `p0`, a row's `ctid`; the last is open, because the table
    may grow.
    """
    rows = await server.ask(
        "SELECT pg_relation_size(c.oid) / current_setting('block_size')::int FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s AND c.relkind = 'r'",
        name.schema,
        name.table,
    )
    blocks = int(rows[0][0]) if rows else 0
    edges = sorted({blocks * n // count for n in range(1, count)} - {0})
    if not edges:
        return ["1 = 1"]
    bounds = [f"'({edge},0)'::tid" for edge in edges]
    middle = [f"p0 >= {low} AND p0 < {high}" for low, high in itertools.pairwise(bounds)]
    return [f"p0 < {bounds[0]}", *middle, f"p0 >= {bounds[-1]}"]
