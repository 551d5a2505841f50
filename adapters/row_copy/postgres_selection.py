"""Selects the rows of a chunk by PostgreSQL's SQL, in agreement with `engine.model.chunk_ranges` to the last row.

Ranks that are compared by the server are literals of the column's own type, so that its index gives their range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.spark.postgres_text import canonical_text
from tidelock.engine.model.chunk_ranges import NAN
from tidelock.engine.model.records import Column, Kind

_NUMBERS: Final = (Kind.INT, Kind.BOOL)
_TEXTS: Final = (
    Kind.TEXT, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.UUID, Kind.ENUM,
)  # fmt: skip


def is_spelled(column: Column) -> bool:
    """Returns whether a digest can be computed from this column, at the source as in the log."""
    return column.kind in (*_NUMBERS, *_TEXTS, Kind.BINARY)


def literal(column: Column, part: int | str) -> str:
    """Writes a part of a rank as a literal to compare the column with."""
    match column.kind:
        case Kind.UUID:
            return f"'{part}'::uuid"
        case Kind.TEXT:  # no quotes, no backslashes: no setting changes what it says
            return f"convert_from(decode('{str(part).encode().hex()}', 'hex'), 'UTF8')"
        case Kind.DECIMAL:
            return _number(column, int(part))
        case _:
            return str(part)


def _number(column: Column, rank: int) -> str:
    if rank > 10**column.precision:
        return f"'{NAN}'::numeric"
    digits = str(abs(rank)).zfill(column.scale + 1)
    at = len(digits) - column.scale
    fraction = f".{digits[at:]}" if column.scale else ""
    return f"{'-' if rank < 0 else ''}{digits[:at]}{fraction}::numeric"


def digest(columns: Sequence[tuple[Column, str]]) -> str:
    """Returns SQL for the first 32 bits of the columns' SHA-256."""
    text = f"concat_ws('_', {', '.join(_spelled(column, name) for column, name in columns)})"
    first = f"substr(sha256(convert_to({text}, 'UTF8')), 1, 4)"
    return f"('x' || encode({first}, 'hex'))::bit(32)::bigint"


def _spelled(column: Column, name: str) -> str:
    match column.kind:
        case Kind.INT:
            return f"{name}::text"
        case Kind.BOOL:
            return f"{name}::int::text"
        case Kind.BINARY:
            return f"upper(encode({name}, 'hex'))"
        case _:
            return f"upper(encode(convert_to({canonical_text(column, name)}, 'UTF8'), 'hex'))"
