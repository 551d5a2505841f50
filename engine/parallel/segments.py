"""Row changes on their way, and the segments they are planned into.

A *segment* is a run of row changes of one planning window that go to one lane and become runnable together.  Its first
change may wait for earlier segments of other lanes; none of the others waits for anything, because a change with a wait
of its own starts a new segment.  So waits always point from a segment to one whose first change is earlier in the log,
a lane is a queue in log order, and no cycle of waits can exist: the earliest unfinished segment never waits.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Final

import msgspec

from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, Row, RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.lock_holder import LockHolder


class Change(msgspec.Struct, gc=False, eq=False):
    """A row change on its way: the row with its table, and its place: the `ordinal`th row of transaction (`source`,
    `number`).  Compared by identity."""

    binding: Binding
    before: Row | None
    after: Row | None
    source: str
    number: int
    ordinal: int

    @classmethod
    def of(cls, binding: Binding, change: RowChange, transaction: Transaction) -> Change:
        """The change of a row, as `binding` lines it up with its table."""
        return cls(binding, change.before, change.after, transaction.source, transaction.number, change.ordinal)

    @property
    def size(self) -> int:
        """About how many bytes its rows take in memory."""
        return _size(self.before) + _size(self.after)

    def part(self, before: Row | None, after: Row | None) -> Change:
        """A change at the same place in the log with less of the effect: the delete or the insert alone."""
        return Change(self.binding, before, after, self.source, self.number, self.ordinal)


def _size(row: Row | None) -> int:
    return 0 if row is None else getsizeof(row) + sum(map(getsizeof, row))


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """Part of a receipt that says more of its changes than which they are.

    `origin`: None where the changes began at the source.  `seen`: as `LogBatch.seen`, of the earliest of them.
    """

    origin: Origin | None = None
    seen: Position | None = None


LOCAL: Final = Provenance()


class Segment:
    """A run of changes of one lane that become runnable together.

    `order`: its place among all segments, in the order of the log.  `window`: number of the planning window.
    `holder`: of its locks, and of what it waits for; `keys`: the list that the holder has.
    `provenance`: what its batch's receipt says of the changes.
    """

    __slots__ = ("changes", "holder", "keys", "lane", "order", "provenance", "window")

    def __init__(self, order: int, lane: int, window: int) -> None:
        self.order = order
        self.lane = lane
        self.window = window
        self.changes: list[Change] = []
        self.holder = LockHolder(order, lane)
        self.keys = self.holder.keys
        self.provenance = LOCAL

    @property
    def runnable(self) -> bool:
        """True if it waits for no other any more."""
        return self.holder.pending_predecessors == 0
