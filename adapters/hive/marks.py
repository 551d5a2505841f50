"""The marks of a table's changes, found in this process: what `adapters.hive.merging` asks Spark for, as indices.

The changes are one Parquet file (`adapters.hive.spool`), in the order of the log.  Each is one or two marks: a key that
is gone, a key that has a row.  Of one transaction only the last mark of a key counts.  What becomes of the table is
told by the places of rows among the changes, so that values stay in Arrow's arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow
from pyarrow import parquet

from tidelock.adapters.hive.buckets import bucket, spellings

Key: TypeAlias = tuple[Any, ...]


class Mark(NamedTuple):
    """`change`: number of the change.  `put`: whether the key has that change's row, or is gone."""

    change: int
    put: bool


class Marks:
    """The marks of one table's changes.  `rows`: the images after each change."""

    def __init__(self, path: Path, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> None:
        changes = parquet.read_table(path)
        self.key, self._columns = tuple(key), tuple(columns)
        self.rows = _images(changes, "after")
        self.committed, self.op = (changes.column(name) for name in ("committed", "op"))
        self._transactions = changes.column("transaction").to_pylist()
        self._of: dict[Key, list[Mark]] = {}
        self._find(changes)

    def of(self, key: Key) -> list[Mark]:
        """Returns the marks of a key, in order."""
        return self._of[key]

    def by_bucket(self, buckets: int) -> dict[int, list[Key]] | None:
        """Returns the keys that have marks by their bucket; None: only Spark knows it."""
        spelled = spellings(self._columns, self.key)
        if spelled is None:
            return None
        found: dict[int, list[Key]] = defaultdict(list)
        for key in self._of:
            found[bucket(key, spelled, buckets)].append(key)
        return found

    def _find(self, changes: pyarrow.Table) -> None:
        before, after = (self._keys(changes, name) for name in ("before", "after"))
        for change, (left, now) in enumerate(zip(before, after, strict=True)):
            if left is not None and left != now:
                self._mark(left, Mark(change, False))
            if now is not None:
                self._mark(now, Mark(change, True))

    def _mark(self, key: Key, mark: Mark) -> None:
        marks = self._of.setdefault(key, [])
        if marks and self._transactions[marks[-1].change] == self._transactions[mark.change]:
            marks[-1] = mark
        else:
            marks.append(mark)

    def _keys(self, changes: pyarrow.Table, image: str) -> list[Key | None]:
        images = _images(changes, image)
        there = changes.column(image).is_valid().to_pylist()
        values = zip(*(images.column(name).to_pylist() for name in self.key), strict=True)
        return [key if known else None for key, known in zip(values, there, strict=True)]


def _images(changes: pyarrow.Table, name: str) -> pyarrow.Table:
    column = changes.column(name)
    names = [field.name for field in column.type]
    return pyarrow.Table.from_arrays(column.flatten(), names)
