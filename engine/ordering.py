"""The chain: every batch of the log names the position before it (design 4).

`prev` equal to the last position seen: next.  At or below it: a duplicate, ignored.  Anything else is a gap or a
regress: applying stops and a resend is asked for; if that does not close the gap, the feed halts.  While a resend is
awaited, batches that do not answer it are late: they were sent before it was asked for, or its answer was lost.  Only a
resent batch may end before it begins, on a replica that was promoted and counts its log in its own way.
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
    """`last`: the position up to which the log has been taken.

    A request may be overtaken by the answer to one before it, and then its own answer is late.  So answers are counted:
    only the answer to the one request that is open can show a gap.
    """

    __slots__ = ("_open", "_resending", "last")

    def __init__(self, last: Position) -> None:
        self.last = last
        self._resending = True  # the first batch answers the first request
        self._open = 1  # requests without an answer

    def judge(self, batch: LogBatch) -> Verdict:
        """Take the batch if it is next.  A batch that overlaps `last` is a gap: it cannot be cut apart here."""
        open_ = self._open
        if batch.resent and open_:
            self._open -= 1
        if self._resending:
            return self._answered(batch, open_) if batch.resent else Verdict.LATE
        if batch.prev == self.last:
            return self._take(batch) if batch.last.order >= batch.prev.order else Verdict.GAP
        if batch.last.order <= self.last.order:
            return Verdict.DUPLICATE
        return Verdict.GAP

    def _answered(self, batch: LogBatch, open_: int) -> Verdict:
        if _same_place(batch.prev, self.last):
            self._resending = False
            return self._take(batch)
        return Verdict.LATE if open_ > 1 else Verdict.GAP

    def _take(self, batch: LogBatch) -> Verdict:
        self.last = batch.last
        return Verdict.NEXT

    def expect_resend(self) -> Position:
        """From now on only a resent batch is taken; returns the position to resend from."""
        self._resending = True
        self._open += 1
        return self.last


def _same_place(one: Position, other: Position) -> bool:
    """GTID sets name a place on every server, files and offsets only on one; rows count within a transaction."""
    if one.gtids and other.gtids:
        return one.gtids == other.gtids and one.rows == other.rows
    return one.order == other.order
