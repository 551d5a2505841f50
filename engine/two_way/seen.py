"""Place up to which a site had applied another's log when it made a change (`seen`).

A reader of the spoke's log passes the marks that the feed from the arbiter left there, in the order of that log.  A
mark tells which stretch of the arbiter's log was applied with it; a checkpoint tells one from the log's beginning.
What was applied *without a gap* before a transaction of the spoke is that transaction's `seen`: the Sync Framework of
Microsoft calls it the knowledge of a site, Alibaba's Otter approximates it by times.

- It is taken where the change stands in the log, never when it is read or applied (history 3).
- A change that was only forwarded has the forwarder's `seen`, which is this one: the reader of a log asks for the
  marks in *that* log and never believes a `seen` from further away (history 5).
- What is held back has left no mark, so a gap stays below it, and it is not seen (history 10).
- A batch of several changes carries the least `seen` of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from tidelock.engine.two_way.places import NOTHING, Place

Stretch: TypeAlias = tuple[Place, Place]  # from behind the first to the second, inclusive

MOST_GAPS: Final = 1000


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Mark: what a replicated transaction says of itself in the log of the site where it was applied.

    `feed`: which wrote it.  `log`: the server whose log it came from.  `applied`: stretches of that log; several where
    changes of one row were folded; one from NOTHING says that all up to its end is applied.
    """

    feed: str
    log: str
    applied: tuple[Stretch, ...]


class SeenPrefix:
    """How far the writer's site had applied the log of `log` by `feed`, told by the marks so far.

    `seen`: the end of what was applied without a gap.  Marks of other feeds and other logs say nothing here.  Of what
    was applied beyond a gap no more than MOST_GAPS stretches are remembered; a forgotten one keeps `seen` back.
    """

    def __init__(self, feed: str, log: str, seen: Place = NOTHING, beyond: Iterable[Stretch] = ()) -> None:
        self._feed, self._log = feed, log
        self.seen = seen
        self._beyond = sorted(beyond)

    @property
    def beyond(self) -> tuple[Stretch, ...]:
        """Stretches that were applied beyond a gap, in order."""
        return tuple(self._beyond)

    def observe(self, mark: Mark) -> None:
        """Takes the next mark of the log."""
        if mark.feed != self._feed or mark.log != self._log:
            return
        for stretch in mark.applied:
            self._apply(stretch)

    def _apply(self, stretch: Stretch) -> None:
        after, to = stretch
        if after > self.seen:
            insort(self._beyond, stretch)
            del self._beyond[MOST_GAPS:]
            return
        self.seen = max(self.seen, to)
        while self._beyond and self._beyond[0][0] <= self.seen:
            self.seen = max(self.seen, self._beyond.pop(0)[1])


def seen_of_batch(seens: Iterable[Place]) -> Place:
    """Returns what a batch says of its changes: the least that any of them had seen; NOTHING for none."""
    return min(seens, default=NOTHING)
