"""Lanes: ordered queues of segments, each with at most one batch running at the target.

A batch is a prefix of the lane's queue of runnable segments; it ends before the first blocked one (counter-example
10), and before one of another origin.
"""

from __future__ import annotations

from collections import deque

from tidelock.engine.parallel.segments import LOCAL, Segment


class Lane:
    """One ordered worker: `queue` in log order, `running` the segments of the batch at the target."""

    __slots__ = ("number", "queue", "running")

    def __init__(self, number: int) -> None:
        self.number = number
        self.queue: deque[Segment] = deque()
        self.running: list[Segment] = []

    def append(self, segment: Segment) -> None:
        """Puts the segment, which is later in the log than all others, at the end of the queue."""
        assert not self.queue or self.queue[-1].order < segment.order, "a lane stays in log order"
        self.queue.append(segment)

    @property
    def ready(self) -> bool:
        """True if no batch is running and the first segment is runnable."""
        return not self.running and bool(self.queue) and self.queue[0].runnable

    @property
    def rows(self) -> int:
        """Number of changes queued and running."""
        return sum(len(s.changes) for s in self.queue) + sum(len(s.changes) for s in self.running)

    def cut(self, limit: int) -> None:
        """Takes runnable segments off the queue, about `limit` rows of them; they are `running` until `finish`."""
        assert not self.running, "one batch a lane"
        rows = 0
        queue = self.queue
        provenance = queue[0].provenance if queue else LOCAL
        while queue and queue[0].runnable and (not rows or rows + len(queue[0].changes) <= limit):
            if queue[0].provenance is not provenance and queue[0].provenance.origin != provenance.origin:
                break
            segment = queue.popleft()
            rows += len(segment.changes)
            self.running.append(segment)

    def finish(self) -> None:
        """Frees the lane: all that ran is committed at the target."""
        assert self.running, "a lane finished nothing"
        self.running = []
