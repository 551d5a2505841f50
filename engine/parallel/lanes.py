"""Lanes: ordered queues of segments, each with at most one batch running at the target.

A batch is a prefix of the lane's queue of runnable segments; it ends before the first blocked one (counter-example 10).
"""

from __future__ import annotations

from collections import deque

from tidelock.engine.parallel.segments import Segment


class Lane:
    """One ordered worker: `queue` in log order, `running` the segments of the batch at the target."""

    __slots__ = ("number", "queue", "running")

    def __init__(self, number: int) -> None:
        self.number = number
        self.queue: deque[Segment] = deque()
        self.running: list[Segment] = []

    def append(self, segment: Segment) -> None:
        assert not self.queue or self.queue[-1].order < segment.order, "a lane stays in log order"
        self.queue.append(segment)

    @property
    def ready(self) -> bool:
        return not self.running and bool(self.queue) and self.queue[0].blockers == 0

    @property
    def rows(self) -> int:
        return sum(len(s.changes) for s in self.queue) + sum(len(s.changes) for s in self.running)

    def cut(self, limit: int) -> list[Segment]:
        """Take runnable segments off the queue until about `limit` rows; they are `running` until `finish`."""
        assert not self.running, "one batch a lane"
        rows = 0
        while self.queue and self.queue[0].blockers == 0 and (not rows or rows + len(self.queue[0].changes) <= limit):
            segment = self.queue.popleft()
            rows += len(segment.changes)
            self.running.append(segment)
        return self.running

    def finish(self) -> list[Segment]:
        """The running batch is committed at the target."""
        done, self.running = self.running, []
        assert done, "a lane finished nothing"
        return done
