"""Watermark and checkpoint: the contiguous prefix of the log that is committed at the target (design 6).

The log is counted in *windows*, the stretches that are planned at once.  A window is done when all its segments are
committed; the watermark is the end of the last window before the first one that is not done.  A receipt may go when the
window of its highest position is at or below the checkpoint that is written in the same transaction: never earlier,
never by its lowest position (counter-example 4).
"""

from __future__ import annotations

from collections import deque

from engine.effects import EffectId
from engine.records import Position


class Watermark:
    """`position`: all at or below it is committed.  `saved`: the checkpoint known to be stored.

    `end_us`: source time of `position`, microseconds since the epoch (0: unknown).
    """

    def __init__(self, position: Position) -> None:
        self.position = position
        self.saved = position
        self.window = -1  # the last window at or below the watermark
        self._next = 0
        self._more = False
        self.end_us = 0
        self._open: deque[tuple[int, Position, int]] = deque()
        self._left: dict[int, int] = {}
        self._receipts: list[tuple[int, EffectId]] = []

    def open(self, end: Position, segments: int, end_us: int = 0, *, more: bool = False) -> int:
        """A new window that ends at `end`, at source time `end_us`, with this many segments to commit; its number.
        `more` of it comes: the next that is opened goes on with it, and it is not done before."""
        if self._more:
            window, _, before_us = self._open.pop()
            end_us = end_us or before_us
            self._left[window] -= 1
        else:
            window = self._next
            self._next += 1
            self._left[window] = 0
        self._open.append((window, end, end_us))
        self._left[window] += segments + more
        self._more = more
        self._advance()
        return window

    def go_on(self, segments: int, *, more: bool) -> None:
        """This many segments of the window that goes on, and `more` of it comes, or it ends where it has come to."""
        assert self._more, "no window goes on"
        _, end, end_us = self._open[-1]
        self.open(end, segments, end_us, more=more)

    def upcoming(self) -> int:
        """The number that `open` gives next."""
        return self._next - self._more

    def done(self, window: int) -> None:
        """One segment of the window is committed."""
        assert self._left[window] > 0
        self._left[window] -= 1
        if self._left[window] == 0:
            self._advance()

    def receipt(self, window: int, receipt: EffectId) -> None:
        """A receipt whose highest position is in `window` stands at the target."""
        self._receipts.append((window, receipt))

    @property
    def pending(self) -> int:
        """Windows that are not done."""
        return len(self._open)

    @property
    def receipts(self) -> int:
        return len(self._receipts)

    def droppable(self) -> tuple[EffectId, ...]:
        return tuple(sorted(receipt for window, receipt in self._receipts if window <= self.window))

    def dropped(self, receipts: tuple[EffectId, ...]) -> None:
        """The checkpoint transaction that deleted these is committed."""
        gone = frozenset(receipts)
        self._receipts = [(w, r) for w, r in self._receipts if r not in gone]

    def _advance(self) -> None:
        while self._open and self._left[self._open[0][0]] == 0:
            self.window, self.position, end_us = self._open.popleft()
            self.end_us = end_us or self.end_us
            del self._left[self.window]
