"""Layouts of tables of a PostgreSQL source whose rows can be row images (`row_image`).

The stream has every value as text.  Its image holds numbers, and texts behind their size, so that the engine reads a
key and the sink copies a text without a Python value for each (`image_values.pxi` writes them).  Both processes make
the layout of a table's columns alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.postgres.logical import row_values
from tidelock.adapters.row_image import images
from tidelock.engine.model.records import Column

_SIZED: Final = ("text", 4)
_WHOLE: Final = ("signed", 8)
_NUMBER: Final = ("double", 8)
_CODED: Final = {
    row_values.TEXT: _SIZED,
    row_values.ASCII: _SIZED,
    row_values.PADDED: _SIZED,
    row_values.MOMENT: _SIZED,
    row_values.ZONED: _SIZED,
    row_values.INT: _WHOLE,
    row_values.BOOL: ("signed", 1),
    row_values.BIT: ("unsigned", 8),
    row_values.FLOAT: _NUMBER,
    row_values.DOUBLE: _NUMBER,
    row_values.BINARY: ("bytes", 4),
}


def layout(number: int, columns: Sequence[Column]) -> images.Layout | None:
    """Returns the layout of rows of these columns; None where rows have to be tuples."""
    if not images.CODES or not columns:
        return None
    coded = [_CODED[row_values.code(column).form] for column in columns]
    return images.Layout(number, [(images.CODES[code], size, 0, 0, None) for code, size in coded])
