"""Cuts at places of an earlier reader, against a log whose rows all know where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.capture.chunk_cutter import ChunkCutter, OtherServer
from tidelock.engine.model.lineage import Proof, encode
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position, RowChange

FILE = "log.000007"


def transaction(number: int, wanted: list[bool], first: int = 0, last: int | None = None) -> SourceTransaction:
    """The transaction with this number, from place 10 * number to 10 * (number + 1); `wanted` by row image.  `last`: it
    goes on behind that image."""
    end = len(wanted) if last is None else last
    rows = [RowChange(0, None, (number, at), at) for at in range(first, end) if wanted[at]]
    whole = last is None
    place = 10 * (number + 1) if whole else 10 * number
    return SourceTransaction("server", number, FILE, place, rows, first, end - first, whole, number)


def after(number: int) -> Position:
    return Position(FILE, 10 * (number + 1))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[SourceChunk], list[Position]]:
    """Chunks of a log, and places in it where another reader may have ended."""
    groups = draw(st.lists(st.lists(st.booleans(), max_size=5), min_size=1, max_size=8))
    chunks: list[SourceChunk] = []
    places = [Position(FILE, 0)]
    done: list[SourceTransaction] = []
    for number, wanted in enumerate(groups):
        handed = 0
        if any(wanted):
            first = wanted.index(True) + 1
            places += [Position(FILE, 10 * number, rows) for rows in range(first, len(wanted))]
            if draw(st.booleans()):
                handed = draw(st.integers(first, len(wanted)))
                if done:
                    chunks.append(SourceChunk(done, Position(FILE, 10 * number)))
                    done = []
                part = transaction(number, wanted, 0, handed)
                chunks.append(SourceChunk([part], Position(FILE, 10 * number, handed)))
            done.append(transaction(number, wanted, handed))  # others do not come here
        places.append(after(number))
        if draw(st.booleans()):
            chunks.append(SourceChunk(done, after(number)))
            done = []
    if not chunks or done:
        chunks.append(SourceChunk(done, after(len(groups) - 1)))
    return chunks, places


def rows(chunks: list[SourceChunk]) -> list[tuple[int, int]]:
    return [row.after for chunk in chunks for t in chunk.transactions for row in t.rows if row.after is not None]


def is_before(row: tuple[int, int], place: Position) -> bool:
    number, ordinal = row
    if place.rows and place.offset == 10 * number:
        return ordinal < place.rows
    return 10 * (number + 1) <= place.offset


@given(logs(), st.data())
def test_each_place_parts_the_rows_exactly(log: tuple[list[SourceChunk], list[Position]], data: st.DataObject) -> None:
    chunks, places = log
    end = chunks[-1].last
    cuts = [place for place in data.draw(st.lists(st.sampled_from(places), max_size=4)) if place.order <= end.order]
    cutter = ChunkCutter(Position(FILE, 0), cuts)
    parts = [part for chunk in chunks for part in cutter.split(chunk)]
    assert rows(parts) == rows(chunks)
    ends = [part.last.order for part in parts]
    assert ends == sorted(ends) and set(ends) >= {cut.order for cut in cuts if cut.offset or cut.rows}
    for cut in cuts:
        before = rows([part for part in parts if part.last.order <= cut.order])
        behind = rows([part for part in parts if part.last.order > cut.order])
        assert all(is_before(row, cut) for row in before)
        assert not any(is_before(row, cut) for row in behind)


@given(logs(), st.data())
def test_a_transaction_ends_once(log: tuple[list[SourceChunk], list[Position]], data: st.DataObject) -> None:
    """Each part's row images follow those of the part before, and only the last one is complete."""
    chunks, places = log
    cutter = ChunkCutter(Position(FILE, 0), data.draw(st.lists(st.sampled_from(places), max_size=4)))
    reached: dict[int, int] = {}
    ended = []
    for part in [part for chunk in chunks for part in cutter.split(chunk)]:
        for one in part.transactions:
            assert one.first_ordinal == reached.get(one.number, 0)
            assert one.number not in ended
            reached[one.number] = one.first_ordinal + one.ordinals
            if one.complete:
                ended.append(one.number)
    assert ended == [t.number for chunk in chunks for t in chunk.transactions if t.complete]


def test_marks_stay_with_the_first_part() -> None:
    """The capture machine asks the first part alone whence the transaction came."""
    whole = transaction(0, [True, True, True])
    whole.marks = ((3, ("feed",)),)
    cutter = ChunkCutter(Position(FILE, 0), [Position(FILE, 0, 2)])
    first, second = (part.transactions[0] for part in cutter.split(SourceChunk([whole], after(0))))
    assert (first.marks, second.marks) == (whole.marks, ())
    assert (first.end, second.end) == (0, 10)


def test_a_place_of_another_server_is_refused() -> None:
    here, there = (encode(Proof(server, 0)) for server in ("here", "there"))
    cutter = ChunkCutter(Position(FILE, 0), [Position(FILE, 5, 0, "", there)])
    with pytest.raises(OtherServer):
        cutter.split(SourceChunk([], Position(FILE, 10, 0, "", here)))
