"""Cuts a source's chunks at places where an earlier reader of the same log ended, wherever this one's chunks end.

Groups of tables that stand at different places need it: what is read anew for all of them from the least place must
end once exactly where each of the others stands, for it to go on from there with nothing lost and nothing twice.

*Why a cut is exact.*  A place is either a boundary between two transactions, or a boundary and the count of row images
that were taken of the transaction behind it.  A transaction that ends at or before a boundary is wholly before it, and
any other wholly behind.  With a count, the one transaction that the count is of is the first that ends behind the
boundary: what was taken of it was not nothing, so it is in the chunk.  Its row images are numbered, so those below the
count are before the place and no others.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelock.engine.model.lineage import server_of
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position


class OtherServer(Exception):
    """The cut at `place` cannot be made: the log is read at another server, where places have other names."""

    def __init__(self, place: Position) -> None:
        super().__init__(f"{place} is a place in another server's log")
        self.place = place


class ChunkCutter:
    """Cuts the chunks of a log that is read from `start` on."""

    def __init__(self, start: Position, places: Iterable[Position]) -> None:
        self._last = start.order
        wanted = {place.order: place for place in places if place.order > start.order}
        self._places = [wanted[order] for order in sorted(wanted)]

    def split(self, chunk: SourceChunk) -> list[SourceChunk]:
        """Returns the next chunk in parts, each of which ends at a place or where the chunk does.  Raises OtherServer.
        """
        parts: list[SourceChunk] = []
        while self._places and self._places[0].order <= chunk.last.order:
            place = self._places.pop(0)
            here, there = server_of(chunk.last.proof), server_of(place.proof)
            if here and there and here != there:
                raise OtherServer(place)
            if self._last < place.order < chunk.last.order:
                before, chunk = _cut(chunk, place)
                parts.append(before)
        self._last = chunk.last.order
        return [*parts, chunk]


def _cut(chunk: SourceChunk, place: Position) -> tuple[SourceChunk, SourceChunk]:
    """Returns what is before a place inside the chunk, and what is behind it."""
    before, behind = [], list(chunk.transactions)
    while behind and behind[0].complete and _end(behind[0]) <= place.order:
        before.append(behind.pop(0))
    if behind and behind[0].ddl is None and behind[0].first_ordinal < place.rows:
        taken, behind[0] = _divided(behind[0], place)
        before.append(taken)
    head = SourceChunk(before, place, chunk.shapes)
    return head, msgspec.structs.replace(chunk, transactions=behind, shapes={})


def _end(transaction: SourceTransaction) -> tuple[int, int, int]:
    return Position(transaction.file, transaction.end).order


def _divided(whole: SourceTransaction, place: Position) -> tuple[SourceTransaction, SourceTransaction]:
    """Returns the rows of the open transaction that were taken up to the place, and the others."""
    count = place.rows - whole.first_ordinal
    taken = msgspec.structs.replace(
        whole,
        file=place.file,
        end=place.offset,
        rows=[row for row in whole.rows if row.ordinal < place.rows],
        ordinals=count,
        complete=False,
    )
    rest = msgspec.structs.replace(
        whole,
        rows=[row for row in whole.rows if row.ordinal >= place.rows],
        first_ordinal=place.rows,
        ordinals=whole.ordinals - count,
        marks=(),
    )
    return taken, rest
