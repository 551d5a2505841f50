"""The parts of a table that gets more buckets, as the merge that gives them reads them.

A new bucket holds those rows of one old bucket whose key falls into it.  What is written is written as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow
from msgspec.structs import replace
from pyarrow import compute

from tidelock.adapters.hive import merging
from tidelock.adapters.hive.buckets import bucket, spellings
from tidelock.adapters.hive.direct import Merge, Parts
from tidelock.adapters.hive.manifest import Stored, TableState

Spelled: TypeAlias = Sequence[Callable[[Any], bytes]]


class Spread:
    """A table's parts.  `old`: the table with `before` buckets; it will have `after`, a multiple.  `named`: the part of
    a bucket.
    """

    def __init__(
        self, parts: Parts, old: Stored, key: Sequence[str], before: int, after: int, named: Callable[[int], str]
    ) -> None:
        spelled = spellings(old.columns, key)
        assert spelled is not None, "else Spark merges the table"
        self._parts, self._old, self._key, self._after = parts, old, tuple(key), after
        self._spelled: Spelled = spelled
        self._sources = {named(number): (named(number % before), number) for number in range(after)}
        self._last = ""
        self._rows, self._buckets = pyarrow.table({}), pyarrow.array([], pyarrow.int32())

    def read(self, stored: Stored, part: str) -> pyarrow.Table:
        """Returns the rows of a part.  One old part at a time is in memory."""
        if part not in self._sources:
            return self._parts.read(stored, part)
        source, number = self._sources[part]
        if source != self._last:
            self._rows, self._last = self._parts.read(self._old, source), source
            keys = zip(*(self._rows.column(name).to_pylist() for name in self._key), strict=True)
            found = [bucket(key, self._spelled, self._after) for key in keys]
            self._buckets = pyarrow.array(found, pyarrow.int32())
        return self._rows.filter(compute.equal(self._buckets, number))

    def write(self, stored: Stored, part: str, rows: pyarrow.Table) -> Stored:
        """Returns the table with the part written anew."""
        return self._parts.write(stored, part, rows)


def growing(merge: Merge, state: TableState, after: int) -> tuple[Merge, TableState]:
    """Returns the merge and the table, so that done together they give the table `after` buckets.

    All buckets are touched, those of one old bucket behind one another.
    """
    before, key, history = state.buckets, state.key, state.history
    current = state.current.without(map(str, range(before)))
    numbers = sorted(range(after), key=lambda number: (number % before, number))
    merge = merge._replace(
        touched={number: merge.touched.get(number, []) for number in numbers},
        current=Spread(merge.current, state.current, key, before, after, str),
    )
    if history is not None:
        merge = merge._replace(history=Spread(merge.history, history, key, before, after, merging.open_part))
        history = history.without(map(merging.open_part, range(before)))
    return merge, replace(state, buckets=after, current=current, history=history)
