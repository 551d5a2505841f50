"""The chain: every batch of the log names the position before it (design 4), and by positions alone it is judged.

`prev` equal to the last position seen: next.  At or below it: a duplicate, ignored.  Anything else is a gap or a
regress: applying stops and a resend is asked for; if that does not close the gap, the feed halts.

Each request is answered by a reader of its own, whose first batch says that it is one (`resent`).  Batches of readers
before it are late, whatever they hold: taken for the answer, they could repeat rows, or name tables by numbers that
the new reader gives to others.
"""

from __future__ import annotations

import enum

from tidelock.engine.model.lineage import agree
from tidelock.engine.model.records import Position


class Verdict(enum.Enum):
    """Verdict on a batch of the log: NEXT in order; a DUPLICATE of what was taken; behind a GAP; LATE, from a reader
    that was replaced."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"
    LATE = "late"


class Chain:
    """Judges whether a batch continues the log.

    `last`: the position up to which the log has been taken.  `reader`: number of the reader asked for last.
    """

    __slots__ = ("_resending", "last", "reader")

    def __init__(self, last: Position) -> None:
        self.last = last
        self.reader = 0
        self._resending = True  # the first batch answers the first request

    def judge(self, prev: Position, last: Position, reader: int, *, resent: bool) -> Verdict:
        """Take a batch if it is next, by the positions before and after it.  One that overlaps `last` is a gap: it
        cannot be cut apart here.  `resent`: it answers a request.

        Only an answer may end before it begins, on a replica that was promoted and counts its log in its own way.
        """
        if reader != self.reader:
            return Verdict.LATE
        if self._resending:
            return self._take(last) if resent and _same_place(prev, self.last) else Verdict.GAP
        if prev == self.last:
            return self._take(last) if last.order >= prev.order else Verdict.GAP
        return Verdict.DUPLICATE if last.order <= self.last.order else Verdict.GAP

    def _take(self, last: Position) -> Verdict:
        self.last = last
        self._resending = False
        return Verdict.NEXT

    def expect_resend(self) -> tuple[Position, int]:
        """Accept only a new reader's batches from now on.  Returns the position to resend from, and the reader's
        number."""
        self._resending = True
        self.reader += 1
        return self.last, self.reader


def _same_place(one: Position, other: Position) -> bool:
    """GTID sets name a place on every server, files and offsets only on one; rows count within a transaction.  Each
    names it in every log that has one so named, and proofs tell those apart."""
    if not agree(one.proof, other.proof):
        return False
    if one.gtids and other.gtids:
        return one.gtids == other.gtids and one.rows == other.rows
    return one.order == other.order
