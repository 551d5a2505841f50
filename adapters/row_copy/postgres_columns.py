"""Makes the SQL that spells a PostgreSQL column as the log does, and reads that text with the log's own reader.

The log has what a type's output function writes.  A cast to text is that function, but for a few types whose cast says
something else (`true` for `t`, an address with its prefix), so `format` writes those, and every type that we do not
know.  The session has the settings on which spelling depends (`adapters.postgres.column_types.OUTPUT_SETTINGS`).

PostgreSQL's texts have no limit beside the gigabyte of any of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelock.adapters.wiring.logged_values import reader_of
from tidelock.engine.model.records import Column, Kind

# Kinds whose cast to text is the output function, or, of a padded text, takes away what is no part of the value.
_CAST: Final = frozenset((
    Kind.INT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.TEXT,
    Kind.BINARY, Kind.UUID, Kind.JSON, Kind.ENUM, Kind.BIT,
))  # fmt: skip
_OWN_TEXT: Final = frozenset((Kind.TEXT, Kind.DECIMAL, Kind.DATE, Kind.UUID, Kind.JSON, Kind.ENUM, Kind.OTHER))


def logged_text(column: Column, name: str) -> str:
    """Returns SQL of the log's text.  `name`: SQL of the column."""
    if column.kind in _CAST:
        return f"{name}::text"
    # Of a row `IS NULL` says that all its fields are; this says that there is no row.
    return f"CASE WHEN {name} IS DISTINCT FROM NULL THEN format('%s', {name}) END"


def reading_of(column: Column) -> Callable[[Any], Any] | None:
    """Returns the function from the log's text to its value; None: it is the value."""
    if column.kind in _OWN_TEXT:
        return None
    read = reader_of(column)
    return lambda text: read(text.encode())
