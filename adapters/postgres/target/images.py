"""Row images (`adapters.row_image.row_image`) as PostgreSQL's texts, without a Python value in between.

Each function answers None where it cannot: rows that are tuples, a value that needs a closer look (`values` refuses it
in words, or writes it), or an installation in which the compiled form was not built.
"""

from __future__ import annotations

from tidelock.adapters.compiled.forms import admit

try:
    admit("row_image")
    from tidelock.adapters.row_image.row_image import array, copy_lines, values
except ImportError:
    from collections.abc import Sequence
    from typing import Any

    def copy_lines(rows: list[Any], positions: Sequence[int]) -> bytes | None:
        return None

    def values(rows: list[Any], positions: Sequence[int]) -> str | None:
        return None

    def array(rows: list[Any], position: int) -> str | None:
        return None


__all__ = ["array", "copy_lines", "values"]
