"""The place in a source's log at which a table was read in one consistent view."""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import Position


class Snapshot(msgspec.Struct, frozen=True):
    """A consistent view of a table: it has every transaction of the table up to `position`, and none behind it.

    Where a planning window begins before the place and ends behind it, a transaction's identity decides.
    `taken`: runs of transactions in the view, as (source, first, last).  `ends`: the last transaction of each of
    MariaDB's domains, as (source, number).  Without GTIDs the source is a log file, the number a place in it, and
    neither is needed.
    """

    position: Position
    taken: tuple[tuple[str, int, int], ...] = ()
    ends: tuple[tuple[str, int], ...] = ()

    def holds(self, start: Position, end: Position, source: str, number: int) -> bool | None:
        """Tell whether the view has this transaction, which is between `start` and `end`; None: it cannot be told.

        It cannot where another server wrote last in the transaction's domain: their numbers need not be in order.
        """
        if end.order <= self.position.order:
            return True
        if start.order >= self.position.order:
            return False
        if "/" in source:  # PostgreSQL's, numbered by the LSN of its commit
            return number < self.position.offset
        if "." in source:
            return Position(source, number).order < self.position.order
        if any(known == source and first <= number <= last for known, first, last in self.taken):
            return True
        domain = source.partition("-")[0]
        for known, last in self.ends:
            if known == source:
                return number <= last
            if known.partition("-")[0] == domain:
                return None
        return False
