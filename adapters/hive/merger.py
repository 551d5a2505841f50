"""Merges a stretch of the log into the tables, which makes the next manifest.

A stretch begins where the manifest before it ends.  A stretch that was merged already is left alone, so it may be
delivered twice; one that begins elsewhere is refused.  Only parts that changes fall into are read and written.

A copy (`adapters.hive.copying`) loads tables beside the log; the merge that ends it gives them their first versions.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace
from pyspark.sql import functions as F

from tidelock.adapters.hive import bucket_count, closed_parts, merging, part_files
from tidelock.adapters.hive.direct import Merge
from tidelock.adapters.hive.manifest import Manifest, Manifests, Stored, TableState
from tidelock.adapters.hive.marks import Marks
from tidelock.adapters.hive.spread import growing
from tidelock.adapters.hive.warehouse import HISTORY, Warehouse
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.process.way_out import FILL_ANEW
from tidelock.adapters.spark_stream.log import same_place
from tidelock.engine.model.records import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Format: TypeAlias = Literal["orc", "parquet"]
Tables: TypeAlias = dict[str, TableState]
SIDE_BY_SIDE: Final = 2
MOST_CHANGE_BYTES: Final = 32 << 20  # compressed, of one table: they are all in memory
MOST_DIRECT_BYTES: Final = 128 << 20  # one bucket at a time is in memory
ROW_BYTES: Final = 100  # of a version whose size nobody knows
ID_DIGITS: Final = 8
VERSION_COLUMNS: Final = (("valid_from", "timestamp"), ("valid_to", "timestamp"), ("op", "string"))


class Broken(OperatorError):
    """The changes do not fit what is there; `hint` says what to do."""

    exit_code = 4


class Layout(msgspec.Struct, frozen=True):
    """The way in which new tables are stored.  `buckets`: the most that a table gets.  `comes`: a new column comes with
    its rows, as the log has had the statement; else `Merger.widen` alone adds one.
    """

    format: Format = "parquet"
    buckets: int = 16
    history: bool = False
    comes: bool = True


class TableChanges(msgspec.Struct, frozen=True):
    """The part of a stretch that is one table's.  `columns`: (name, type) as they are now.  `path`: a Parquet file of
    the changes, in the data source's columns and in the order of the log.
    """

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    path: Path


class Stretch(msgspec.Struct, frozen=True):
    """A part of the log, from the position `since` to a later one.  `rows`: changes in it.  `end_us`: source time of
    its end, in microseconds since the epoch, 0 where the log does not say.
    """

    since: Position
    position: Position
    rows: int = 0
    end_us: int = 0


class Merger:
    """The merges of one feed.  `staged`: moves a local file to where Spark reads it.  `settled_seconds`: what the
    metastore took of the last merge.

    Every method raises Taken, Broken, Foreign, OfAnother, Unreadable, and what Spark raises.
    """

    def __init__(
        self, warehouse: Warehouse, manifests: Manifests, layout: Layout, staged: Callable[[Path], DataFrame]
    ) -> None:
        self._warehouse, self._manifests, self._layout, self._staged = warehouse, manifests, layout, staged
        self.settled_seconds = 0.0

    def begin(self, first: Callable[[], Manifest]) -> Manifest:
        """Returns the manifest to go on from; `first` for a new feed.  Makes the metastore equal to it."""
        manifest = self._manifests.latest()
        if manifest is None:
            manifest = replace(first(), id=uuid.uuid4().hex[:ID_DIGITS])
            self._manifests.commit(manifest)
        self._settle(manifest)
        for name, state in manifest.tables.items():
            self._require_whole(name, state.current, state.current.parts)
            if state.history is not None:
                self._require_whole(name + HISTORY, state.history, state.history.parts)
        return manifest

    def _require_whole(self, table: str, stored: Stored, parts: Iterable[str]) -> None:
        """Raises Broken where somebody else has taken files of these parts away, altered them, or put others there:
        what is written next would be without their rows, or with rows that the source never had."""
        if altered := self._warehouse.altered(table, stored, parts):
            raise Broken(
                f"files of {table} are not as the feed has left them: {altered}",
                "Put them back from a backup of the same moment, or take away what somebody else has put there, then "
                f"`tidelock run FEED`; else {FILL_ANEW}",
            )

    def merge(self, manifest: Manifest, stretch: Stretch, batches: Mapping[str, TableChanges]) -> Manifest:
        """Merges a stretch and returns the committed manifest; the present one where the stretch was merged already."""
        since, position, copy = stretch.since, stretch.position, manifest.copy
        ends = copy is not None and copy.ends(position)
        if same_place(position, manifest.position) and not ends:
            return manifest
        if not same_place(since, manifest.position):
            if position.order <= manifest.position.order:
                return manifest
            raise Broken(
                f"the changes begin at {since}, and the tables are at {manifest.position}",
                "Nothing was merged. Changes between them are missing: see what else reads or writes here",
            )
        number = self._next(manifest)
        tables = self._all_merged(manifest, batches, number)
        if copy is not None and ends:
            for name in copy.loaded:
                moment = max(moment_of(stretch.end_us), copy.moment)
                tables[name] = self._over(name, self._with_first_versions(name, tables[name], moment, number))
            copy = None
        changes, end_us = manifest.changes + stretch.rows, stretch.end_us or manifest.end_us
        return self._commit(
            replace(
                manifest,
                number=number,
                position=position,
                tables=tables,
                copy=copy,
                changes=changes,
                last=stretch.rows,
                end_us=end_us,
            )
        )

    def _next(self, manifest: Manifest) -> int:
        """Returns the number of the next merge, whose files are those of the manifest's books."""
        self._warehouse.books = manifest.id
        return manifest.number + 1

    def load(self, manifest: Manifest, name: str, rows: DataFrame) -> Manifest:
        """Loads a pending table of the copy with these rows, each key once.  Readers do not see it yet."""
        copy, number = manifest.copy, self._next(manifest)
        assert copy is not None, "a copy is under way"
        pending = copy.pending[name]
        state = self._new(name, pending.columns, pending.key, pending.rows * ROW_BYTES)
        placed = merging.bucketed(rows, state.key, state.buckets)
        current = self._warehouse.write(name, state.current, placed, number)
        tables = {**manifest.tables, name: replace(state, current=current)}
        rest = {table: pieces for table, pieces in copy.pending.items() if table != name}
        copy = replace(copy, pending=rest, loaded=(*copy.loaded, name))
        return self._commit(replace(manifest, number=number, tables=tables, copy=copy))

    def loaded(self, manifest: Manifest, end: Position, moment: str) -> Manifest:
        """Notes that all tables are loaded.  The copy ends with the merge that reaches `end`, where the log is now."""
        assert manifest.copy is not None, "a copy is under way"
        copy = replace(manifest.copy, end=end, moment=moment)
        return self._commit(replace(manifest, number=manifest.number + 1, copy=copy))

    def truncate(self, manifest: Manifest, position: Position, names: Iterable[str], moment: str) -> Manifest:
        """Empties tables.  `moment`: when, `YYYY-MM-DD HH:MM:SS[.f]` in UTC."""
        number, tables = self._next(manifest), manifest.tables
        names = [name for name in names if name in tables]
        for name in names:
            self._prepare(manifest, name, tables[name])
        emptied = {name: self._emptied(name, tables[name], moment, number) for name in names}
        return self._commit(replace(manifest, number=number, position=position, tables={**tables, **emptied}))

    def _emptied(self, name: str, state: TableState, moment: str, number: int) -> TableState:
        emptied = replace(state, current=state.current.without(state.current.parts))
        if state.history is not None:
            place, stored = name + HISTORY, state.history
            open = [part for part in stored.parts if part.startswith("open")]
            closed = merging.closed_at(self._warehouse.rows(place, stored, open), moment)
            history = self._rewritten(place, stored.without(open), closed, {moment[:10]: 0}, number)
            emptied = replace(emptied, history=history)
        return emptied

    def widen(
        self, manifest: Manifest, position: Position, name: str, added: Iterable[tuple[str, str]]
    ) -> Manifest:
        """Adds columns to a table; NULL in the rows that are there."""
        tables, number = manifest.tables, manifest.number + 1
        if name in tables:
            tables = {**tables, name: _with_columns(tables[name], added)}
        return self._commit(replace(manifest, number=number, position=position, tables=tables))

    def _commit(self, manifest: Manifest) -> Manifest:
        manifest = replace(manifest, made_us=time.time_ns() // 1000)
        self._manifests.commit(manifest)
        self._settle(manifest)
        return manifest

    def _settle(self, manifest: Manifest) -> None:
        begun = time.monotonic()
        self._warehouse.settle(manifest, self._manifests.kept())
        self.settled_seconds = time.monotonic() - begun

    # ------------------------------------------------------------------ one table

    def _new(self, name: str, columns: tuple[tuple[str, str], ...], key: tuple[str, ...], bytes: int) -> TableState:
        lost = [column for column, _ in columns if "`" in column]
        if lost and self._layout.format == "orc":
            raise Broken(f"{name} has a column {lost[0]}, which ORC would lose", "`rename` it, or use format: parquet")
        current = Stored(columns, merging.BUCKET, self._layout.format)
        return TableState(key, bucket_count.first(bytes, self._layout.buckets), current)

    def _with_history(self, name: str, state: TableState) -> TableState:
        """Adds an empty history, if the feed wants one."""
        if not self._layout.history:
            return state
        columns = state.current.columns
        taken = {column.lower() for column, _ in columns} & set(merging.VERSION)
        if taken:
            raise Broken(f"{name} has a column {min(taken)}, which its history needs", "`rename` it in the feed")
        history = Stored((*columns, *VERSION_COLUMNS), merging.PART, state.current.format)
        return replace(state, history=history)

    def _with_first_versions(self, name: str, state: TableState, moment: str, number: int) -> TableState:
        """Adds a history that begins with the rows as they are."""
        state = self._with_history(name, state)
        if state.history is None:
            return state
        rows = self._warehouse.rows(name, state.current, state.current.parts)
        versions = merging.first_versions(rows, moment, state.key, state.buckets)
        return replace(state, history=self._warehouse.write(name + HISTORY, state.history, versions, number))

    def _over(self, name: str, state: TableState) -> TableState:
        """Returns the table that a copy has filled, with whose tables of its names it takes over."""
        state = replace(state, current=replace(state.current, over=self._warehouse.other_owner(name)))
        if state.history is None:
            return state
        over = self._warehouse.other_owner(name + HISTORY)
        return replace(state, history=replace(state.history, over=over))

    def _all_merged(self, manifest: Manifest, batches: Mapping[str, TableChanges], number: int) -> Tables:
        """Returns the tables after their changes.  Some are merged side by side: a job of Spark mostly waits."""
        states, tables = {}, manifest.tables
        for name, batch in batches.items():
            state = tables.get(name) or self._made(name, batch)
            states[name] = _widened(name, state, batch, self._layout.comes)
            self._prepare(manifest, name, state)
            self._require_whole(name, state.current, state.current.parts)
            if state.history is not None:
                self._require_whole(name + HISTORY, state.history, map(merging.open_part, range(state.buckets)))
        with ThreadPoolExecutor(SIDE_BY_SIDE, "merge") as pool:
            done = pool.map(lambda name: self._merged(name, states[name], batches[name], number), states)
            return {**tables, **dict(zip(states, done, strict=True))}

    def _prepare(self, manifest: Manifest, name: str, state: TableState) -> None:
        hidden = manifest.copy is not None and name in manifest.copy.tables
        for place in (name, *([name + HISTORY] if state.history else [])):
            self._warehouse.prepare(place, hidden)

    def _made(self, name: str, batch: TableChanges) -> TableState:
        return self._with_history(name, self._new(name, batch.columns, batch.key, batch.path.stat().st_size))

    def _merged(self, name: str, state: TableState, batch: TableChanges, number: int) -> TableState:
        size = sum(state.current.sizes.values())
        grown = replace(state, buckets=bucket_count.grown(state.buckets, size, self._layout.buckets))
        touched: Set[int] | None = set(range(state.buckets)) if grown != state else None
        if batch.path.stat().st_size <= MOST_CHANGE_BYTES:
            marks = Marks(batch.path, state.current.columns, state.key)
            found = marks.by_bucket(grown.buckets)
            if found is not None and self._is_small(name, state, touched or found):
                parts = (self._warehouse.parts(place, number) for place in (name, name + HISTORY))
                merge = Merge(marks, found, *parts)
                if touched is not None:
                    merge, state = growing(merge, state, grown.buckets)
                return merge.done(state)
            touched = touched or (None if found is None else found.keys())
        return self._merged_by_spark(name, grown, batch, touched, number)

    def _is_small(self, name: str, state: TableState, touched: Iterable[int]) -> bool:
        """Tells whether the buckets that are touched are read and written sooner here than by a job of Spark."""
        if not part_files.known(state.current) or (state.history and not part_files.known(state.history)):
            return False
        held = 0
        for bucket in touched:
            held += self._warehouse.size(name, state.current, str(bucket))
            if state.history:
                held += self._warehouse.size(name + HISTORY, state.history, merging.open_part(bucket))
            if held > MOST_DIRECT_BYTES:
                return False
        return True

    def _merged_by_spark(
        self, name: str, state: TableState, batch: TableChanges, touched: Set[int] | None, number: int
    ) -> TableState:
        changes = self._staged(batch.path)
        marks = merging.marks(changes, state.current.columns, state.key).persist()
        try:
            ended = merging.last(marks)
            touched = self._touched(ended, state) if touched is None else touched
            old = self._warehouse.rows(name, state.current, map(str, touched))
            rows = merging.current(old, ended, state.key, state.buckets)
            current = self._warehouse.write(name, state.current.without(map(str, touched)), rows, number)
            history = self._history(name, state, marks, touched, number) if state.history else None
            return replace(state, current=current, history=history)
        finally:
            marks.unpersist()

    def _history(self, name: str, state: TableState, marks: DataFrame, touched: Set[int], number: int) -> Stored:
        stored, place = state.history, name + HISTORY
        assert stored is not None, "asked for where there is one"
        parts = [merging.open_part(bucket) for bucket in sorted(touched)]
        old = self._warehouse.rows(place, stored, parts)
        open, closed = merging.versions(old, marks, state.key, state.buckets)
        stored = self._warehouse.write(place, stored.without(parts), open, number)
        closed = closed.persist()
        try:
            days = {row[0]: row[1] for row in closed.groupBy(merging.PART).count().collect()}
            return self._rewritten(place, stored, closed, days, number)
        finally:
            closed.unpersist()

    def _rewritten(self, place: str, stored: Stored, added: DataFrame, days: Mapping[str, int], number: int) -> Stored:
        """Adds versions to the parts of the days on which they ended (`adapters.hive.closed_parts`); `days`: how many
        on each.
        """
        if not days:
            return stored
        plans = {day: closed_parts.plan(stored, day, count * ROW_BYTES) for day, count in days.items()}
        named = F.create_map(*(F.lit(text) for day, plan in plans.items() for text in (day, plan.part)))
        added = added.withColumn(merging.PART, named[F.col(merging.PART)])
        for plan in plans.values():
            there = self._warehouse.rows(place, stored, plan.absorbed).withColumn(merging.PART, F.lit(plan.part))
            added = added.unionByName(there) if plan.absorbed else added
            stored = stored.without(plan.absorbed)
        return self._warehouse.write(place, stored, added, number)

    def _touched(self, ended: DataFrame, state: TableState) -> set[int]:
        bucket = merging.bucket_of(state.key, state.buckets, "key.")
        return {row[0] for row in ended.select(bucket.alias("bucket")).distinct().collect()}


def _widened(name: str, state: TableState, batch: TableChanges, comes: bool) -> TableState:
    """Returns the table with the columns that were added; any other difference is an error.  `comes`: as in `Layout`.
    """
    there = dict(state.current.columns)
    changed = [column for column, type in batch.columns if there.get(column, type) != type]
    lost = there.keys() - {column for column, _ in batch.columns}
    if changed or lost or set(batch.key) != set(state.key):
        what = f"column {min([*changed, *lost])}" if changed or lost else "primary key"
        raise Broken(f"the {what} of {name} has changed", _ANEW)
    added = tuple((column, type) for column, type in batch.columns if column not in there)
    if added and not comes:
        told = f"{name} has a column {added[0][0]} that no run saw being added: what older rows have in it is not known"
        raise Broken(told, _ANEW)
    return _with_columns(state, added) if added else state


def _with_columns(state: TableState, columns: Iterable[tuple[str, str]]) -> TableState:
    there = {column for column, _ in state.current.columns}
    added = tuple((column, type) for column, type in columns if column not in there)
    current = replace(state.current, columns=(*state.current.columns, *added))
    history = state.history and replace(state.history, columns=(*state.history.columns, *added))
    return replace(state, current=current, history=history)


_ANEW: Final = "Its table in Hive holds the old form: fill it anew with a feed of a new name"


def moment_of(us: int) -> str:
    """Returns a time as `Copy.moment` has it."""
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
