"""Row images for the rooms above: the compiled module `row_image`, or answers that say that it is not there.

It is not there where it was not built, or was built from another source.  Then `CODES` and `LITERALS` are empty, so no
table has a `Layout` and rows are tuples, and each function answers None, as it does for rows that are tuples.
"""

from __future__ import annotations

from tidelock.adapters.compiled.forms import admit

try:
    admit("row_image")
    from tidelock.adapters.row_image.row_image import (
        CODES,
        LITERALS,
        Layout,
        PackedRows,
        array,
        copy_lines,
        literals,
        pack,
        sizes,
        values,
    )
except ImportError:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tidelock.engine.model.records import RowChange

    CODES = {}
    LITERALS = {}

    def pack(rows: Iterable[RowChange]) -> bytes | None:
        return None

    def sizes(rows: list[Any]) -> list[int] | None:
        return None

    def copy_lines(rows: list[Any], positions: Sequence[int]) -> bytes | None:
        return None

    def values(rows: list[Any], positions: Sequence[int]) -> str | None:
        return None

    def array(rows: list[Any], position: int) -> str | None:
        return None

    def literals(rows: Sequence[Any], positions: Sequence[int], forms: Sequence[int]) -> list[str] | None:
        return None


__all__ = ["CODES", "LITERALS", "Layout", "PackedRows", "array", "copy_lines", "literals", "pack", "sizes", "values"]
