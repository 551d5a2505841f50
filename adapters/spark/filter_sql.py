"""Translates a feed's row filter to SQL for its source, with the meaning that it has in the stream.

That meaning is `engine.capture.row_filter`'s: text compares byte for byte, whatever the column's collation; times
compare as their canonical text.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.spark.postgres_text import canonical_text
from tidelock.engine.capture.row_filter import And, Compare, Condition, In, IsNull, Not, Or
from tidelock.engine.model.records import Kind

_BINARY = (Kind.FLOAT, Kind.DOUBLE)
_EXACT = (Kind.INT, Kind.YEAR, Kind.BIT, Kind.DECIMAL, Kind.BOOL)
_EXACTLY = {Kind.BIT: "::bigint", Kind.BOOL: "::int"}


def condition_sql(condition: Condition, columns: Mapping[str, SourceColumn]) -> str:
    """Returns the condition.  `columns`: of the source table by name.  The condition has been compiled for them before,
    so it fits.
    """
    match condition:
        case Compare(column, op, literal):
            return _comparison(columns[column], op, literal)
        case In(column, literals):
            return _joined(" OR ", [_comparison(columns[column], "=", literal) for literal in literals])
        case IsNull(column):
            return _is_null(columns[column])
        case Not(of):
            return f"(NOT {condition_sql(of, columns)})"
        case And(of):
            return _joined(" AND ", [condition_sql(part, columns) for part in of])
        case Or(of):
            return _joined(" OR ", [condition_sql(part, columns) for part in of])


def _joined(word: str, parts: list[str]) -> str:
    return f"({word.join(parts)})"


def _place(column: SourceColumn) -> str:
    return f"t.{quote('postgres' if column.column.type else 'mysql', column.name)}"


def _is_null(column: SourceColumn) -> str:
    # Of a row `IS NULL` says that all its fields are.
    return f"({_place(column)} IS {'NOT DISTINCT FROM ' if column.column.type else ''}NULL)"


def _comparison(column: SourceColumn, op: str, literal: str) -> str:
    name, kind = _place(column), column.column.kind
    literal = _moment(literal, column.column.scale) if kind in (Kind.DATETIME, Kind.TIMESTAMP) else literal
    literal = literal.lower() if kind is Kind.UUID else literal
    return (_at_postgres if column.column.type else _at_mysql)(column, name, op, literal)


def _at_postgres(column: SourceColumn, name: str, op: str, literal: str) -> str:
    kind = column.column.kind
    if kind in _EXACT:
        return f"({name}{_EXACTLY.get(kind, '')} {op} {_decimal(literal)})"
    if kind in _BINARY:
        return f"({name}::float8 {op} {_decimal(literal)}::float8)"
    return f"(convert_to({canonical_text(column.column, name)}, 'UTF8') {op} decode('{literal.encode().hex()}', 'hex'))"


def _at_mysql(column: SourceColumn, name: str, op: str, literal: str) -> str:
    kind = column.column.kind
    if kind in _EXACT:
        return f"({name} + 0 {op} {_decimal(literal)})"
    if kind in _BINARY:
        return f"(CAST({name} AS DOUBLE) {op} CAST({_decimal(literal)} AS DOUBLE))"
    return f"(CAST(CAST({name} AS CHAR CHARACTER SET utf8mb4) AS BINARY) {op} x'{literal.encode().hex()}')"


def _decimal(literal: str) -> str:
    """Parses a number as the filter's reader took it, which is a decimal number, perhaps with an exponent."""
    return f"({literal})"


def _moment(literal: str, scale: int) -> str:
    """Completes a moment as `engine.capture.row_filter` does."""
    date, _, time = literal.replace("T", " ").partition(" ")
    whole, _, fraction = (time or "00:00:00").partition(".")
    digits = fraction.rstrip("0").ljust(scale, "0")
    return f"{date} {whole}" + (f".{digits}" if digits else "")
