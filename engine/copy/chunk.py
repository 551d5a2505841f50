"""A chunk of a table that is copied, and the table's chunks together (design 8)."""

from __future__ import annotations

import enum
from collections.abc import Callable

from tidelock.engine.copy.unkeyed_changes import UnkeyedChanges
from tidelock.engine.model import records
from tidelock.engine.model.chunk_ranges import UNKNOWN, ChunkSplit, chunk_of
from tidelock.engine.model.records import Position, Row, Shape, filled
from tidelock.engine.model.schema import Binding
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import Copied, RefusedRow


class ChunkState(enum.Enum):
    """PENDING: to be read.  READING: the copier has it.  STAGED: read, to be merged.  MERGED: at the target."""

    PENDING = "pending"
    READING = "reading"
    STAGED = "staged"
    MERGED = "merged"


class Chunk:
    """One chunk.

    `attempt`: the read under way or done.  `touched`: key → last image, or None where the row is gone; `changes`:
    those of a table without a key.  What a last image does not tell (`records.UNKNOWN`) is as it was read, since no
    change since the reading began told another.  `spoiled`: a row has changed its key so, and under which of both it
    was read is not known: the chunk must begin anew.
    `rows`, `high`, `view`, `shape`: of what is staged; `refused`: rows that could not be.
    `restarts`: how often it began anew for what the stream did to it.
    """

    __slots__ = (
        "attempt", "binding", "changes", "high", "number", "refused", "restarts", "rows", "shape", "split",
        "spoiled", "state", "touched", "view",
    )  # fmt: skip

    def __init__(self, split: ChunkSplit, number: int, state: ChunkState) -> None:
        self.split = split
        self.number = number
        self.state = state
        self.attempt: EffectId | None = None
        self.touched: dict[Row, Row | None] = {}
        self.changes = UnkeyedChanges()
        self.binding: Binding | None = None
        self.high: Position | None = None
        self.view: Snapshot | None = None
        self.shape: Shape | None = None
        self.rows = 0
        self.refused: tuple[RefusedRow, ...] = ()
        self.restarts = 0
        self.spoiled = False

    @property
    def open(self) -> bool:
        """True from the begin of its reading to its merge: changes of its rows are remembered."""
        return self.state in (ChunkState.READING, ChunkState.STAGED)

    @property
    def remembered(self) -> int:
        """Number of what is remembered: touched rows, or changes of rows without a key."""
        return len(self.touched) + len(self.changes)

    def count(self, start: Position, end: Position, change: Change) -> None:
        """Remembers a change of a table without a key, of the window between these places, while the chunk is open."""
        self.binding = change.binding
        self.changes.note(start, end, change)

    def note(self, binding: Binding, before: Row | None, after: Row | None) -> None:
        """Remembers the row's last image, while the chunk is open; where rows are kept, that it was touched."""
        self.binding = binding
        if after is not None and binding.partial and records.UNKNOWN in after and not self.split.keep:
            after = self._told(binding, before, after)
        if before is not None:
            self.touched[binding.key_of(before)] = None
        if after is not None:
            self.touched[binding.key_of(after)] = None if self.split.keep else after

    def _told(self, binding: Binding, before: Row | None, after: Row) -> Row:
        """Returns the image with what is remembered of its row; notes where the rest could not be found again."""
        if before is not None:
            key = binding.key_of(before)
            after = filled(after, self.touched.get(key) or before)
            if binding.key_of(after) == key and (key not in self.touched or self.touched[key] is not None):
                return after
        self.spoiled = self.spoiled or records.UNKNOWN in after
        return after

    def close(self, state: ChunkState) -> None:
        """Ends its reading, for good (MERGED) or to begin anew (PENDING), and forgets what it remembered."""
        self.state, self.attempt, self.touched, self.binding, self.refused = state, None, {}, None, ()
        self.changes, self.view, self.spoiled = UnkeyedChanges(), None, False


class TableCopy:
    """One table that is being copied."""

    def __init__(self, copied: Copied) -> None:
        merged = frozenset((*copied.merged, *copied.split.merged))
        self.split = copied.split
        self.chunks = [
            Chunk(copied.split, n, ChunkState.MERGED if n in merged else ChunkState.PENDING)
            for n in range(copied.split.chunks)
        ]
        self._of: dict[Binding, Callable[[Row], int]] = {}
        self._untold = False

    @property
    def done(self) -> bool:
        """True once all chunks are merged."""
        return all(chunk.state is ChunkState.MERGED for chunk in self.chunks)

    def stands_as(self, copied: Copied) -> bool:
        """Tells whether it is this copy, with the same chunks merged."""
        merged = {chunk.number for chunk in self.chunks if chunk.state is ChunkState.MERGED}
        return copied.split == self.split and merged == {*copied.merged, *copied.split.merged}

    def chunk(self, binding: Binding, row: Row) -> Chunk:
        """The chunk that the row is in.  Raises SchemaMismatch where that cannot be said."""
        of = self._of.get(binding)
        if of is None:
            equality = {column.name: column.equality for column in binding.target.columns}
            of = self._of[binding] = chunk_of(self.split, binding.shape, equality)
        number = of(row)
        if self._untold or number == UNKNOWN:
            self._untold, number = True, 1
        return self.chunks[number]

    def rebind(self) -> None:
        """Forgets what was compiled for bindings: the target's tables have changed."""
        self._of.clear()
