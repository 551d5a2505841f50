"""The chunk ledger: copying tables that already hold rows, while they change (design 8).

Each chunk of a table (`engine.model.chunk_ranges`) goes PENDING → READING → STAGED → MERGED.  The ledger sees every
change of the log, in order, and says what of it takes effect at the target:

| the row's chunk is | the change                                                                           |
|--------------------|--------------------------------------------------------------------------------------|
| PENDING            | is dropped: the chunk is read later, and what is read has it                          |
| READING, STAGED    | is remembered, as the row's last image or its absence; the read may have it or not    |
| MERGED             | takes effect                                                                         |

A key that moves between chunks is a delete in one and an insert in the other, each by the state of its chunk.

*Where the target's rows stay* (`ChunkSplit.keeps_target_rows`) every change takes effect, whatever its chunk's state;
from READING on it is remembered all the same.  What a merge does then (`engine.copy.machine`):

- `keep`: staged rows that nothing touched are put beside those that are there, which win;
- a repair (by KEYS) deletes the rows that were asked for and all touched ones, and puts the source's of M there.  So
  it does no harm to remember a row that was not asked for, nor to give the repair up.  A row of which it is untold
  whether it was asked for is remembered, and from then on every row of the table, since each may come in its place.

*The merge.*  What was staged is each row as it stood at some moment between the first read and `high`.  Once the ledger
has seen the log up to M, at or past `high`, a row that nothing touched since the reading began is the source's at M;
of a row that was touched the last image is, with what was read where that does not tell a value (`Chunk.touched`).
So the staged rows without the touched ones, and the last images of those, are the chunk at M.  It is put in place when
everything up to M is committed and before anything behind M touches the table: then the target holds, of all merged
chunks, exactly the source's rows at M.  No unique value can clash, no deleted row comes back, none is lost.  The
checkpoint M is saved with it, so no restart ever sees a change again that the chunk contains, and nothing has to be
told apart by positions in a log that a failover may have counted anew.

*A restart* knows only which chunks are merged; all others are PENDING: what was staged means nothing without the
touched rows, which were in memory (counter-example 6).

*Back to PENDING* too, by itself, goes a chunk
- of a table that a foreign key cascades into, when the parent is deleted or changes its key: what goes with it may not
  be in the log;
- whose table a statement of the log concerns (a TRUNCATE, another column);
- of a table without a key, of which a change cannot be told to be in the view that was read, or behind it;
- with the most touched rows, when there are too many to remember.

The last two are then tried alone.

*A table without a key* is one chunk, read in one view of the source (`Snapshot`).  Its changes are remembered one by
one, and at M those behind the view are summed up (`engine.copy.unkeyed_changes`).

*Parents first*: a table is read when the tables it refers to are wholly merged, and a change that refers to a row finds
it there.  So a cycle of foreign keys cannot be copied, and a table that refers to itself only in one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from tidelock.engine.copy.chunk import Chunk, ChunkState, TableCopy
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.model.schema import ForeignKey, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ChunkStaged, Copied


class ChunkLedger:
    """The chunks of all tables that are being copied.

    `tables`: all selected tables of the target.  `abandoned`: attempts that are worth nothing any more, for the caller
    to take away.
    """

    def __init__(self, copied: Iterable[Copied], tables: Mapping[TableName, TargetTable]) -> None:
        self.abandoned: list[EffectId] = []
        self._copies: dict[TableName, TableCopy] = {}
        self._targets = tables
        self._cascades: dict[TableName, list[tuple[ForeignKey, list[TableName]]]] = {}
        self._window: tuple[Position, Position]  # that the changes are of
        self.add(copied)

    def add(self, copied: Iterable[Copied]) -> None:
        """Begins to copy these tables, each anew if it is being copied."""
        for one in copied:
            old = self._copies.pop(one.split.table, None)
            for chunk in old.chunks if old is not None else ():
                self._abandon(chunk)
            table = TableCopy(one)
            if not table.done:
                self._copies[one.split.table] = table
        self.retable(self._targets)

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        """The target's tables are these from now on."""
        self._targets = tables
        self._cascades.clear()
        for table in tables.values():
            for fk in table.references:
                if fk.cascades and (into := [name for name in _swept(fk, tables) if name in self._copies]):
                    self._cascades.setdefault(table.name, []).append((fk, into))
        for copy in self._copies.values():
            copy.rebind()

    def follow(self, copied: Iterable[Copied]) -> None:
        """Goes on with these copies, as a statement has left them: tables may have other names, or be gone."""
        left = {one.split.table: one for one in copied}
        for name, copy in list(self._copies.items()):
            if name in left and copy.stands_as(left[name]):
                del left[name]
            else:
                self._abandon_tables([name])
                del self._copies[name]
        self.add(left.values())

    @property
    def unsplittable(self) -> ChunkSplit | None:
        """A split into chunks that cannot be told apart: the target's table lacks a column of it, or a key.  None where
        there is none."""
        for split in self.splits:
            table = self._targets.get(split.table)
            if table is None:
                continue
            has_columns = set(split.columns) <= {column.name for column in table.columns}
            if not has_columns or (split.bounds and not table.key):  # without one all is read in one view
                return split
        return None

    def __bool__(self) -> bool:
        """True while anything is still to be copied."""
        return bool(self._copies)

    def __contains__(self, table: TableName) -> bool:
        return table in self._copies

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables that are being copied."""
        return tuple(self._copies)

    @property
    def splits(self) -> tuple[ChunkSplit, ...]:
        """The splits of the tables that are being copied."""
        return tuple(copy.split for copy in self._copies.values())

    @property
    def chunks(self) -> Iterator[Chunk]:
        """The chunks of all tables that are being copied."""
        return (chunk for copy in self._copies.values() for chunk in copy.chunks)

    def with_others(self, split: ChunkSplit) -> ChunkSplit:
        """Adds the rows of a repair of the same table that is under way: one of both takes its place."""
        if split.by is not By.KEYS:
            return split
        others = [key for other in self.splits if other.table == split.table for key in other.keys]
        return replace(split, keys=tuple(dict.fromkeys((*others, *split.keys))))

    def figures(self) -> dict[str, int | str | list[int]]:
        """Returns figures for people: chunks merged, open, rows remembered, reads that the stream made worthless."""
        chunks = list(self.chunks)
        if not chunks:
            return {}
        merged = sum(chunk.state is ChunkState.MERGED for chunk in chunks)
        return {
            "copying": f"{merged} of {len(chunks)} chunks",
            "open": sum(chunk.open for chunk in chunks),
            "touched": self.remembered,
            "again": sum(chunk.restarts for chunk in chunks),
        }

    # ------------------------------------------------------------------ what the log does

    def take(self, changes: Iterable[Change], start: Position, end: Position) -> dict[Change, Change | None]:
        """Sees the changes of the log between these places, in order.  Returns those that do not take effect as they
        are, with what remains.

        Raises SchemaMismatch where it cannot be said which chunk a row belongs to.
        """
        altered: dict[Change, Change | None] = {}
        self._window = start, end
        for change in changes:
            name = change.binding.name
            copy = self._copies.get(name)
            if copy is not None and (part := self._effect(copy, change)) is not change:
                altered[change] = part
            if name in self._cascades:
                self._cascade(change)
        return altered

    def _effect(self, copy: TableCopy, change: Change) -> Change | None:
        binding, before, after = change.binding, change.before, change.after
        here = copy.chunk(binding, before) if before is not None else None
        there = copy.chunk(binding, after) if after is not None else None
        if here is there or here is None or there is None:
            chunk = here or there
            assert chunk is not None, "a change has an image"
            return change if self._takes_effect(chunk, change, before, after) else None
        if not self._takes_effect(here, change, before, None):
            before = None
        if not self._takes_effect(there, change, None, after):
            after = None
        if before is None and after is None:
            return None
        return change if before is not None and after is not None else change.part(before, after)

    def _takes_effect(self, chunk: Chunk, change: Change, before: Row | None, after: Row | None) -> bool:
        """Returns whether this part of the change takes effect; if the chunk is open, remembers it."""
        if chunk.state is ChunkState.MERGED:
            return True
        if chunk.open:
            if change.binding.key:
                chunk.note(change.binding, before, after)
                if chunk.spoiled:
                    self.restart(chunk)
            else:
                whole = before is change.before and after is change.after
                chunk.count(*self._window, change if whole else change.part(before, after))
        return chunk.split.keeps_target_rows

    def _cascade(self, change: Change) -> None:
        """Abandons chunks of tables that a cascade reaches: a parent goes, or changes what its children refer to."""
        if change.before is None:
            return
        at = {c.name: i for i, c in enumerate(change.binding.shape.columns)}
        for fk, into in self._cascades[change.binding.name]:
            places = [at[column] for column in fk.parent_columns if column in at]
            if change.after is None or any(change.before[p] != change.after[p] for p in places):
                self._abandon_tables(into)

    def statement(self, tables: Sequence[TableName]) -> None:
        """Abandons the open chunks of target tables that a statement of the log concerns; of all if none is named."""
        self._abandon_tables(tables or self.tables)

    def _abandon_tables(self, tables: Iterable[TableName]) -> None:
        for name in tables:
            copy = self._copies.get(name)
            for chunk in copy.chunks if copy is not None else ():
                self._abandon(chunk)

    def _abandon(self, chunk: Chunk) -> None:
        if chunk.open:
            assert chunk.attempt is not None
            self.abandoned.append(chunk.attempt)
            chunk.close(ChunkState.PENDING)

    def restart(self, chunk: Chunk) -> None:
        """Begins the chunk anew: what was read of it is worth nothing."""
        chunk.restarts += 1
        self._abandon(chunk)

    @property
    def remembered(self) -> int:
        """Number of touched rows, and of changes of rows without a key, that are remembered."""
        return sum(chunk.remembered for chunk in self.chunks)

    def evict(self, most: int) -> None:
        """Keeps no more than `most` touched rows: the chunks with the most of them begin anew."""
        while self.remembered > most:
            self.restart(max(self.chunks, key=lambda chunk: chunk.remembered))

    # ------------------------------------------------------------------ what the copier does

    def next(self, most: int) -> Chunk | None:
        """A chunk to read now, where no more than `most` may be open at once; one that begins anew is alone."""
        opened = [chunk for chunk in self.chunks if chunk.open]
        if len(opened) >= most or any(chunk.restarts for chunk in opened):
            return None
        for name, copy in self._copies.items():
            if self._waits_for_parents(name):
                continue
            for chunk in copy.chunks:
                if chunk.state is ChunkState.PENDING:
                    return chunk if not (chunk.restarts and opened) else None
        return None

    def _waits_for_parents(self, name: TableName) -> bool:
        table = self._targets.get(name)
        return table is None or any(fk.parent in self._copies and fk.parent != name for fk in table.foreign_keys)

    def read(self, chunk: Chunk, attempt: EffectId) -> None:
        """Begins to read the chunk: everything that the log has shown so far is visible before the reading starts."""
        assert chunk.state is ChunkState.PENDING
        chunk.state, chunk.attempt = ChunkState.READING, attempt

    def staged(self, event: ChunkStaged) -> None:
        """Takes the report that a chunk is staged; one of an attempt that was given up means nothing."""
        chunk = self._reading(event.id)
        if chunk is not None:
            chunk.state, chunk.high, chunk.rows = ChunkState.STAGED, event.high, event.rows
            chunk.refused, chunk.view, chunk.shape = event.refused, event.view, event.shape

    def failed(self, attempt: EffectId) -> None:
        """Takes the report that a chunk could not be read: it is pending again."""
        chunk = self._reading(attempt)
        if chunk is not None:
            self._abandon(chunk)

    def _reading(self, attempt: EffectId) -> Chunk | None:
        return next((c for c in self.chunks if c.state is ChunkState.READING and c.attempt == attempt), None)

    def due(self, seen: Position) -> Chunk | None:
        """The staged chunk with the least `high`, if the ledger has seen the log up to there."""
        due = [c for c in self.chunks if c.state is ChunkState.STAGED and c.high is not None]
        least = min(due, key=lambda c: c.high.order, default=None)  # type: ignore[union-attr]
        return least if least is not None and least.high is not None and least.high.order <= seen.order else None

    def merged(self, chunk: Chunk) -> None:
        """Marks the chunk merged: from here on in the log its changes take effect, behind its merge."""
        assert chunk.state is ChunkState.STAGED
        chunk.close(ChunkState.MERGED)

    def drop_finished(self) -> list[TableName]:
        """Drops the tables whose chunks are all merged, which are nothing special from now on; returns them."""
        done = [name for name, copy in self._copies.items() if copy.done]
        for name in done:
            del self._copies[name]
        if done:
            self.retable(self._targets)
        return done


def _swept(fk: ForeignKey, tables: Mapping[TableName, TargetTable]) -> list[TableName]:
    """The tables whose rows a cascade through this foreign key may touch, over any number of levels."""
    found = [fk.child]
    for name in found:
        table = tables.get(name)
        for further in table.references if table is not None else ():
            if further.cascades and further.child not in found:
                found.append(further.child)
    return found
