"""Watermark and checkpoint: the contiguous prefix of the log that is committed at the target (design 6).

The log is counted in *windows*, the stretches that are planned at once.  A window's segments may hold changes of
earlier windows too, which waited for more of their tables (`coalescer`).  A window is done when none of its changes
waits and none is in a segment that is not committed.  The watermark is the end of the last window that is done with all
before it.

A receipt may go when the window of its highest position is at or below the checkpoint that is written in the same
transaction: never earlier, never by its lowest position (counter-example 4).
"""

from __future__ import annotations

from collections import deque

from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId


class Watermark:
    """Counts windows and receipts.

    `position`: all at or below it is committed.  `saved`: the checkpoint known to be stored.
    `window`: the last window at or below `position`; -1: none is.
    `end_us`: source time of `position`, microseconds since the epoch (0: unknown).
    """

    def __init__(self, position: Position) -> None:
        self.position = position
        self.saved = position
        self.window = -1  # the last window at or below the watermark
        self.end_us = 0
        self._next = 0
        self._open: deque[tuple[int, Position, int]] = deque()
        self._left: dict[int, int] = {}  # window → its segments that are not committed; ascending
        self._first: dict[int, int] = {}  # of each of those, the first window whose changes its segments may hold
        self._waits: int | None = None
        self._receipts: list[tuple[int, EffectId]] = []

    def open(
        self, end: Position, segments: int, end_us: int = 0, *, first: int | None = None, waits: int | None = None
    ) -> int:
        """Open a window that ends at `end`, at source time `end_us`, with this many segments to commit.  Returns its
        number.

        `first`: the first window whose changes they may hold; None: this one.  `waits`: the first window of which a
        change waits from now on, if any does.
        """
        window = self._next
        self._next += 1
        self._open.append((window, end, end_us))
        if segments:
            self._left[window] = segments
            self._first[window] = window if first is None else first
        self._waits = waits
        self._advance()
        return window

    def open_again(self, segments: int, *, first: int | None, waits: int | None) -> int:
        """Open a window for segments of nothing but changes that waited: it ends where the log is planned to already.
        """
        _, end, end_us = self._open[-1]
        return self.open(end, segments, end_us, first=first, waits=waits)

    def end(self, window: int) -> Position:
        """Returns where a window ends that is not done."""
        number, end, _ = self._open[window - self._open[0][0]]
        assert number == window, f"window {window} is done"
        return end

    def upcoming(self) -> int:
        """Returns the number that `open` gives next."""
        return self._next

    def done(self, window: int) -> None:
        """Note that one segment of the window is committed."""
        assert self._left.get(window), f"a segment more than window {window} has"
        self._left[window] -= 1
        if self._left[window] == 0:
            del self._left[window], self._first[window]
            self._advance()

    def receipt(self, window: int, receipt: EffectId) -> None:
        """Note that a receipt whose highest position is in `window` stands at the target."""
        self._receipts.append((window, receipt))

    @property
    def pending(self) -> int:
        """Number of windows that are not done."""
        return len(self._open)

    @property
    def receipts(self) -> int:
        """Number of receipts that stand at the target."""
        return len(self._receipts)

    def droppable(self) -> tuple[EffectId, ...]:
        """Returns the receipts that may go with a checkpoint at `position`."""
        return tuple(sorted(receipt for window, receipt in self._receipts if window <= self.window))

    def dropped(self, receipts: tuple[EffectId, ...]) -> None:
        """Forget these receipts: the checkpoint transaction that deleted them is committed."""
        gone = frozenset(receipts)
        self._receipts = [(w, r) for w, r in self._receipts if r not in gone]

    def _advance(self) -> None:
        """Move the watermark up to the first window of which something is not committed.

        A change that waits is never of an earlier window than one that waited before it.  So of the windows that are
        not done, the earliest has the earliest changes.
        """
        held = self._first[next(iter(self._left))] if self._left else self._next
        if self._waits is not None:
            held = min(held, self._waits)
        while self._open and self._open[0][0] < held:
            self.window, self.position, end_us = self._open.popleft()
            self.end_us = end_us or self.end_us
