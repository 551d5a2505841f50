"""The unique indexes whose values a row of the log tells."""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.engine.model.schema import Binding, UniqueKey


def told_uniques(table: Binding) -> Iterator[tuple[UniqueKey, tuple[int, ...]]]:
    """Yields each, with the positions of its columns in a row."""
    at = {column.name: i for i, column in enumerate(table.shape.columns)}
    for unique in table.target.uniques:
        if not unique.opaque and set(unique.columns) <= at.keys():
            yield unique, tuple(at[name] for name in unique.columns)
