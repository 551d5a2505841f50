"""A holder of locks: what the lock table knows of a segment, which is all but its changes."""

from __future__ import annotations

from tidelock.engine.model.index import Digest
from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.lock_request import LockRequest


class LockHolder:
    """Holds locks for one segment, from its dispatch to its commit.

    `order`: its place among all segments, in the order of the log.
    `pending_predecessors`: how many holders of other lanes it still waits for; `successors`: those that wait for this
    one (the design's condition map: released or not, by segment).
    `keys` (digests), `requests`, `tables`: the locks that it holds until it commits.  `tables` None: it was not told of
    which tables it is, and keys are all that it locks.
    """

    __slots__ = ("committed", "keys", "lane", "order", "pending_predecessors", "requests", "successors", "tables")

    def __init__(self, order: int, lane: int) -> None:
        self.order = order
        self.lane = lane
        self.keys: list[Digest] = []
        self.requests: dict[LockRequest, None] = {}
        self.tables: tuple[TableName, ...] | None = None
        self.pending_predecessors = 0
        self.successors: list[LockHolder] = []
        self.committed = False

    def wait_for(self, other: LockHolder) -> None:
        """Makes it wait until `other`, which is of an earlier place and another lane, is committed."""
        assert other.order < self.order and other.lane != self.lane and not other.committed
        self.pending_predecessors += 1
        other.successors.append(self)
