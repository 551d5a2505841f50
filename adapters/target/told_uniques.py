"""The unique indexes whose values a row of the log tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding, UniqueKey

Wanted: TypeAlias = tuple[Row, Row, Row | None]
"""A row that is to be written, its key (that which it had before), and the row that has this key now."""


def told_uniques(table: Binding) -> Iterator[tuple[UniqueKey, tuple[int, ...]]]:
    """Yields each, with the positions of its columns in a row."""
    at = {column.name: i for i, column in enumerate(table.shape.columns)}
    for unique in table.target.uniques:
        if not unique.opaque and set(unique.columns) <= at.keys():
            yield unique, tuple(at[name] for name in unique.columns)


def wanting(
    table: Binding, unique: UniqueKey, positions: tuple[int, ...], wanted: Sequence[Wanted]
) -> list[int]:
    """Returns which of these want a value of the index that a row of another key may hold."""
    own, key_of = unique.columns == table.target.key, table.key_of
    return [
        n
        for n, (row, key, here) in enumerate(wanted)
        if all(row[i] is not None for i in positions)
        and not (own and key_of(row) == key)
        and not (here is not None and all(here[i] == row[i] for i in positions))
    ]
