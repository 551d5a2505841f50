"""The reader of a PostgreSQL log's values, for who reads the same texts from tables."""

from __future__ import annotations

from collections.abc import Callable

from tidelock.engine.model.records import Column, Value


def reader_of(column: Column) -> Callable[[bytes], Value]:
    """Returns the function from the text of a value, as the log has it, to the value.  That raises ValueError."""
    from tidelock.adapters.postgres.logical.row_values import code, reading

    return reading(code(column))
