"""Columns whose values have one order, at the server as in the ledger (`engine.model.chunk_ranges`).

An integer has one at any server.  A PostgreSQL source has more of them: UUIDs, numbers with a scale, and texts of the
collation C or POSIX, of which the server compares the bytes.  What a database's own collation is its catalogue tells;
that of a language, and one of ICU or of the operating system under whatever name, is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.model.chunk_ranges import MOST_DIGITS, Rank, number_rank
from tidelock.engine.model.records import Kind, TableName

# text and varchar; C and POSIX have these numbers in every database, and `default` is 100.
_BYTEWISE: Final = """
SELECT a.attname::text
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid IN (25, 1043) AND (
    a.attcollation IN (950, 951) OR a.attcollation = 100 AND EXISTS (
        SELECT FROM pg_database d WHERE d.datname = current_database() AND (
            coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c' AND d.datcollate IN ('C', 'POSIX')
            OR to_jsonb(d) ->> 'datlocprovider' = 'b'
        )
    )
)"""


async def bytewise(server: SourceTables, table: TableName) -> frozenset[str]:
    """Returns the texts of a PostgreSQL table of which the server compares the bytes.  Raises SourceError."""
    return frozenset(str(name) for (name,) in await server.ask(_BYTEWISE, table.schema, table.table))


def has_one_order(column: SourceColumn, bytewise: frozenset[str]) -> bool:
    """Tells whether the column's values have one order.  `bytewise`: texts that do."""
    kind = column.column.kind
    if kind is Kind.INT:
        return True
    if not column.column.type:  # MySQL's
        return False
    if kind is Kind.DECIMAL:
        return column.column.precision <= MOST_DIGITS
    return kind is Kind.UUID or (kind is Kind.TEXT and column.name in bytewise)


def rank_of(columns: Sequence[SourceColumn], row: Sequence[Any]) -> Rank:
    """Returns the rank of a row's values as the server answered them."""
    return tuple(_part(column, value) for column, value in zip(columns, row, strict=True))


def _part(column: SourceColumn, value: Any) -> int | str:
    match column.column.kind:
        case Kind.INT:
            return int(str(value))
        case Kind.DECIMAL:
            return number_rank(column.column, str(value))
        case _:
            return str(value)
