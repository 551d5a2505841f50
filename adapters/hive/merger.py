"""One merge: a stretch of the log becomes the next manifest.

A stretch begins where the manifest before it ends.  One that was merged already is left alone, so it may be delivered
twice; one that begins elsewhere is refused.  Only parts that changes fall into are read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from pyspark.sql import functions as F

from adapters.hive import merging
from adapters.hive.manifest import Manifest, Manifests, Stored, TableState
from adapters.hive.warehouse import HISTORY, Warehouse
from adapters.spark.changes.log import same_place
from engine.records import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Format: TypeAlias = Literal["orc", "parquet"]
VERSION_COLUMNS: Final = (("valid_from", "timestamp"), ("valid_to", "timestamp"), ("op", "string"))


class Broken(Exception):
    """The changes do not fit what is there; `hint` says what to do."""

    exit_code = 4

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Layout(msgspec.Struct, frozen=True):
    """How tables that are new are stored."""

    format: Format = "orc"
    buckets: int = 16
    history: bool = False


class Batch(msgspec.Struct, frozen=True):
    """One table's part of a stretch.  `columns`: (name, type) as they are now.  `changes`: as of the data source."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    changes: DataFrame


class Merger:
    """Of one feed.  Raises Taken, Broken, and what Spark says."""

    def __init__(self, warehouse: Warehouse, manifests: Manifests, layout: Layout) -> None:
        self._warehouse, self._manifests, self._layout = warehouse, manifests, layout

    def begin(self, start: Position) -> Manifest:
        """The manifest to go on from; the first one says `start`.  The metastore is made equal to it."""
        manifest = self._manifests.latest()
        if manifest is None:
            manifest = Manifest(0, start)
            self._manifests.commit(manifest)
        self._settle(manifest)
        return manifest

    def merge(
        self, manifest: Manifest, since: Position, position: Position, batches: Mapping[str, Batch]
    ) -> Manifest:
        """`since`, `position`: where the stretch begins and ends.  The next manifest, committed; or the same one, where
        the stretch was merged already."""
        if same_place(position, manifest.position):
            return manifest
        if not same_place(since, manifest.position):
            if position.order <= manifest.position.order:
                return manifest
            raise Broken(
                f"the changes begin at {since}, and the tables stand at {manifest.position}",
                "Nothing was merged. Changes between them are missing: see what else reads or writes here",
            )
        number = manifest.number + 1
        tables = dict(manifest.tables)
        for name, batch in batches.items():
            tables[name] = self._merged(name, tables.get(name) or self._new(name, batch), batch, number)
        return self._commit(Manifest(number, position, tables))

    def truncate(self, manifest: Manifest, position: Position, name: str, moment: str) -> Manifest:
        """`moment`: when it was emptied, `YYYY-MM-DD HH:MM:SS[.f]` in UTC."""
        number, state = manifest.number + 1, manifest.tables.get(name)
        if state is None:
            return self._commit(msgspec.structs.replace(manifest, number=number, position=position))
        emptied = msgspec.structs.replace(state, current=_with(state.current, {}))
        if state.history is not None:
            place, stored = name + HISTORY, state.history
            open = [part for part in stored.parts if part.startswith("open")]
            closed = merging.closed_at(self._warehouse.rows(place, stored, open), moment)
            kept = {part: folder for part, folder in stored.parts.items() if part not in open}
            history = self._rewritten(place, _with(stored, kept), closed, [moment[:10]], number)
            emptied = msgspec.structs.replace(emptied, history=history)
        tables = {**manifest.tables, name: emptied}
        return self._commit(Manifest(number, position, tables))

    def _commit(self, manifest: Manifest) -> Manifest:
        self._manifests.commit(manifest)
        self._settle(manifest)
        return manifest

    def _settle(self, manifest: Manifest) -> None:
        self._warehouse.settle(manifest, self._manifests.kept())

    # ------------------------------------------------------------------ one table

    def _new(self, name: str, batch: Batch) -> TableState:
        layout = self._layout
        current = Stored(batch.columns, merging.BUCKET, layout.format)
        if not layout.history:
            return TableState(batch.key, layout.buckets, current)
        taken = {column.lower() for column, _ in batch.columns} & set(merging.VERSION)
        if taken:
            raise Broken(f"{name} has a column {min(taken)}, which its history needs", "`rename` it in the feed")
        history = Stored((*batch.columns, *VERSION_COLUMNS), merging.PART, layout.format)
        return TableState(batch.key, layout.buckets, current, history)

    def _merged(self, name: str, state: TableState, batch: Batch, number: int) -> TableState:
        state = _widened(name, state, batch)
        marks = merging.marks(batch.changes, state.current.columns, state.key).persist()
        try:
            ended = merging.last(marks)
            touched = self._touched(ended, state)
            old = self._warehouse.rows(name, state.current, map(str, touched))
            rows = merging.current(old, ended, state.key, state.buckets)
            written = self._warehouse.write(name, state.current, rows, number)
            kept = {part: folder for part, folder in state.current.parts.items() if int(part) not in touched}
            current = _with(state.current, {**kept, **written})
            history = self._history(name, state, marks, touched, number) if state.history else None
            return msgspec.structs.replace(state, current=current, history=history)
        finally:
            marks.unpersist()

    def _history(self, name: str, state: TableState, marks: DataFrame, touched: set[int], number: int) -> Stored:
        stored, place = state.history, name + HISTORY
        assert stored is not None, "asked for where there is one"
        parts = [merging.open_part(bucket) for bucket in sorted(touched)]
        old = self._warehouse.rows(place, stored, parts)
        open, closed = merging.versions(old, marks, state.key, state.buckets)
        written = self._warehouse.write(place, stored, open, number)
        kept = {part: folder for part, folder in stored.parts.items() if part not in parts}
        closed = closed.persist()
        try:
            days = [row[0] for row in closed.select(merging.PART).distinct().collect()]
            return self._rewritten(place, _with(stored, {**kept, **written}), closed, days, number)
        finally:
            closed.unpersist()

    def _rewritten(self, place: str, stored: Stored, added: DataFrame, days: list[str], number: int) -> Stored:
        """With more versions that ended on these days: each day is written anew, with what was there."""
        if not days:
            return stored
        for day in days:
            there = self._warehouse.rows(place, stored, [day]).withColumn(merging.PART, F.lit(day))
            added = added.unionByName(there)
        return _with(stored, {**stored.parts, **self._warehouse.write(place, stored, added, number)})

    def _touched(self, ended: DataFrame, state: TableState) -> set[int]:
        bucket = merging.bucket_of(state.key, state.buckets, "key.")
        return {row[0] for row in ended.select(bucket.alias("bucket")).distinct().collect()}


def _widened(name: str, state: TableState, batch: Batch) -> TableState:
    """With the columns that were added; any other difference is an error."""
    there = dict(state.current.columns)
    changed = [column for column, type in batch.columns if there.get(column, type) != type]
    lost = there.keys() - {column for column, _ in batch.columns}
    if changed or lost or batch.key != state.key:
        what = f"column {min([*changed, *lost])}" if changed or lost else "primary key"
        raise Broken(f"the {what} of {name} has changed", _ANEW)
    added = tuple((column, type) for column, type in batch.columns if column not in there)
    if not added:
        return state
    replace = msgspec.structs.replace
    current = replace(state.current, columns=(*state.current.columns, *added))
    history = state.history and replace(state.history, columns=(*state.history.columns, *added))
    return replace(state, current=current, history=history)


def _with(stored: Stored, parts: dict[str, str]) -> Stored:
    return msgspec.structs.replace(stored, parts=parts)


_ANEW: Final = "Its table in Hive holds the old form: fill it anew with a feed of a new name"
