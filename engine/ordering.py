"""The chain: every batch of the log names the position before it (design 4).

`prev` equal to the last position seen: next.  At or below it: a duplicate, ignored.  Anything else is a gap or a
regress: applying stops and a resend is asked for; if that does not close the gap, the feed halts.  While a resend is
awaited, batches that do not answer it are late: they were sent before it was asked for, or its answer was lost.
"""

from __future__ import annotations

import enum

from engine.records import LogBatch, Position


class Verdict(enum.Enum):
    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"
    LATE = "late"


class Chain:
    """`last`: the position up to which the log has been taken."""

    __slots__ = ("_resending", "last")

    def __init__(self, last: Position) -> None:
        self.last = last
        self._resending = True  # the first batch answers the first request

    def judge(self, batch: LogBatch) -> Verdict:
        """Take the batch if it is next.  A batch that overlaps `last` is a gap: it cannot be cut apart here."""
        if batch.resent and self._resending:
            same_place = batch.prev.order == self.last.order
            if same_place or (batch.prev.gtids and batch.prev.gtids == self.last.gtids):
                self._resending = False
                self.last = batch.last
                return Verdict.NEXT
            return Verdict.GAP
        if self._resending:
            return Verdict.LATE
        if batch.prev == self.last:
            self.last = batch.last
            return Verdict.NEXT
        if batch.last.order <= self.last.order:
            return Verdict.DUPLICATE
        return Verdict.GAP

    def expect_resend(self) -> Position:
        """From now on only a resent batch is taken; returns the position to resend from."""
        self._resending = True
        return self.last
