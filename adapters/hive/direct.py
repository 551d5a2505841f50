"""Merges a small table's changes in this process: where a job of Spark would cost more than the data.

What is written is what `adapters.hive.merging` would write, bucket by bucket, so no more than the changes and one
bucket are in memory.  Nothing refers to it before the manifest does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow
from msgspec.structs import replace
from pyarrow import compute

from tidelock.adapters.hive import closed_parts, merging
from tidelock.adapters.hive.manifest import Stored, TableState
from tidelock.adapters.hive.marks import Key, Mark, Marks
from tidelock.adapters.hive.part_files import conformed, schema_of

_EPOCH: Final = pyarrow.scalar(0, pyarrow.timestamp("us"))


class Parts(Protocol):
    """The parts of one table, as the merge that is under way reads and writes them."""

    def read(self, stored: Stored, part: str) -> pyarrow.Table:
        """Returns the rows of a part, none where there is no such part."""
        ...

    def write(self, stored: Stored, part: str, rows: pyarrow.Table) -> Stored:
        """Returns the table with the part written anew; it is dropped where it has no rows."""
        ...


class Merge(NamedTuple):
    """One table's changes.  `touched`: its keys by bucket.  `history`: the parts of its history."""

    marks: Marks
    touched: dict[int, list[Key]]
    current: Parts
    history: Parts

    def done(self, state: TableState) -> TableState:
        """Returns the table after them."""
        current, history, ended = state.current, state.history, list[pyarrow.Table]()
        rows = conformed(self.marks.rows, schema_of(current))
        for bucket, keys in self.touched.items():
            current = self._bucket(current, rows, bucket, keys)
            if history is not None:
                history, closed = self._versions(history, rows, bucket, keys)
                ended.append(closed)
        if history is not None:
            history = self._closed(history, pyarrow.concat_tables(ended))
        return replace(state, current=current, history=history)

    def _bucket(self, stored: Stored, rows: pyarrow.Table, bucket: int, keys: list[Key]) -> Stored:
        part = str(bucket)
        old = self.current.read(stored, part)
        last = [self.marks.of(key)[-1] for key in keys]
        kept = old.filter(compute.is_null(self._places(old, keys)))
        put = rows.take(_places(mark.change for mark in last if mark.put))
        return self.current.write(stored, part, pyarrow.concat_tables([kept, put]))

    def _versions(
        self, stored: Stored, rows: pyarrow.Table, bucket: int, keys: list[Key]
    ) -> tuple[Stored, pyarrow.Table]:
        """Returns the history with the bucket's open versions written, and the versions that ended."""
        part = merging.open_part(bucket)
        old = self.history.read(stored, part)
        places = self._places(old, keys)
        first = self._committed([self.marks.of(key)[0].change for key in keys])
        stood = old.filter(compute.is_valid(places))
        stood = _with(stood, "valid_to", first.take(places.drop_null()))
        made = self._made(stored, rows, keys)
        open = compute.is_null(made.column("valid_to"))
        still = pyarrow.concat_tables([old.filter(compute.is_null(places)), made.filter(open)])
        closed = pyarrow.concat_tables([stood, made.filter(compute.invert(open))])
        return self.history.write(stored, part, still), closed

    def _made(self, stored: Stored, rows: pyarrow.Table, keys: list[Key]) -> pyarrow.Table:
        """Returns the versions that the marks begin."""
        since, to = list[int](), list[int | None]()
        for key in keys:
            marks = self.marks.of(key)
            ends: list[Mark | None] = [*marks[1:], None]
            for mark, end in zip(marks, ends, strict=True):
                if mark.put:
                    since.append(mark.change)
                    to.append(None if end is None else end.change)
        versions = rows.take(_places(since))
        told = (self._committed(since), self._committed(to), self.marks.op.take(_places(since)))
        for name, column in zip(merging.VERSION, told, strict=True):
            versions = versions.append_column(name, column)
        return conformed(versions, schema_of(stored))

    def _closed(self, stored: Stored, closed: pyarrow.Table) -> Stored:
        """Adds the versions that ended to the parts of their days."""
        days = compute.strftime(closed.column("valid_to"), format="%Y-%m-%d")
        for day in sorted(compute.unique(days).to_pylist()):
            rows = closed.filter(compute.equal(days, day))
            plan = closed_parts.plan(stored, day, rows.nbytes)
            rows = pyarrow.concat_tables([*(self.history.read(stored, part) for part in plan.absorbed), rows])
            stored = self.history.write(stored.without(plan.absorbed), plan.part, rows)
        return stored

    def _committed(self, changes: Sequence[int | None]) -> pyarrow.ChunkedArray:
        """Returns the commit times of changes, NULL for no change."""
        known = compute.fill_null(self.marks.committed.cast(_EPOCH.type), _EPOCH)
        return known.take(_places(changes))

    def _places(self, rows: pyarrow.Table, keys: list[Key]) -> pyarrow.ChunkedArray:
        """Returns for each row the number of its key among the keys, NULL where it is not one of them."""
        return _found(rows, self.marks.key, keys)


def _found(rows: pyarrow.Table, key: Sequence[str], keys: list[Key]) -> Any:
    wanted = [
        pyarrow.array([values[number] for values in keys], rows.schema.field(name).type)
        for number, name in enumerate(key)
    ]
    if len(key) == 1:
        return compute.index_in(rows.column(key[0]), value_set=wanted[0])
    names = [f"k{n}" for n in range(len(key))]
    left = pyarrow.table([*(rows.column(name) for name in key), _places(range(rows.num_rows))], [*names, "row"])
    right = pyarrow.table([*wanted, _places(range(len(keys)))], [*names, "place"])
    joined = left.join(right, names, join_type="left outer").sort_by("row")
    return joined.column("place")


def _places(numbers: Iterable[int | None]) -> pyarrow.Array:
    return pyarrow.array(list(numbers), pyarrow.int64())


def _with(rows: pyarrow.Table, name: str, column: pyarrow.ChunkedArray) -> pyarrow.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)
