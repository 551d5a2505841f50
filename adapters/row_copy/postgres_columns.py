"""Reads a PostgreSQL column's text, as the log has it (`adapters.spark.postgres_text`), with the log's own reader.

PostgreSQL's texts have no limit beside the gigabyte of any of its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelock.adapters.wiring.logged_values import reader_of
from tidelock.engine.model.records import Column, Kind

_OWN_TEXT: Final = frozenset((Kind.TEXT, Kind.DECIMAL, Kind.DATE, Kind.UUID, Kind.JSON, Kind.ENUM, Kind.OTHER))


def reading_of(column: Column) -> Callable[[Any], Any] | None:
    """Returns the function from the log's text to its value; None: it is the value."""
    if column.kind in _OWN_TEXT:
        return None
    read = reader_of(column)
    return lambda text: read(text.encode())
