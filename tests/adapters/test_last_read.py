"""The last transaction that was read is compared with what comes in its place (`logical.last_read`)."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Final

import pytest

from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.ports.source_errors import OtherHistory, SourceError
from tidelock.adapters.postgres.logical.last_read import FAR_BYTES, LastRead, kept_from
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.stream import BEGUN_US
from tidelock.engine.model import lineage
from tidelock.engine.model.lineage import Group, Proof
from tidelock.engine.model.records import Position

SERVER: Final[Endpoint] = parse("postgresql://somebody@source.example/shop", Path())
NOW: Final = 1_790_000_000_000_000
LAST: Final = Group("7/shop", 500, NOW, "7/1", 0, 560, 0, 0, 77)
OPENED: Final = ("7/shop", 900, NOW + 5)


def place(offset: int = 600, rows: int = 0, *, opened: tuple[str, int, int] | None = None) -> Position:
    return Position("7/1", offset, rows, "", lineage.encode(Proof("7/shop", 0, LAST, opened)))


def begin(lsn: int = 500, moment_us: int = NOW, xid: int = 77) -> memoryview:
    return memoryview(b"B" + pack(">QqI", lsn, moment_us - BEGUN_US, xid))


def commit(lsn: int = 500, moment_us: int = NOW) -> memoryview:
    return memoryview(b"C" + pack(">BQQq", 0, lsn, lsn + 60, moment_us - BEGUN_US))


def reading(start: Position, confirmed: int = 400) -> LastRead:
    def nothing(_: int) -> None:
        raise AssertionError("no table is asked for")

    return LastRead(SERVER, start, confirmed, Relations(nothing))  # type: ignore[arg-type]


def test_it_is_left_out_and_what_follows_is_not() -> None:
    again = reading(place())
    assert again.begins == 500 and not again.over
    assert again.take(begin())
    assert again.take(memoryview(b"I..."))
    assert again.take(commit())
    assert again.over


@pytest.mark.parametrize(
    "found", [begin(lsn=508), begin(moment_us=NOW + 1), begin(xid=78)], ids=["place", "time", "number"]
)
def test_another_in_its_place_is_another_log(found: memoryview) -> None:
    with pytest.raises(OtherHistory, match="put back from a backup"):
        reading(place()).take(found)


def test_a_log_that_has_passed_its_end_without_it_is_another() -> None:
    again = reading(place())
    again.keepalive(559)
    with pytest.raises(OtherHistory, match="no transaction"):
        again.keepalive(560)


def test_rows_before_any_transaction_are_refused() -> None:
    with pytest.raises(SourceError):
        reading(place()).take(memoryview(b"I..."))


@pytest.mark.parametrize("moment_us", [NOW + 5, NOW + 6])
def test_a_transaction_that_was_read_in_part_is_compared_behind_it(moment_us: int) -> None:
    again = reading(place(560, 64, opened=OPENED))
    assert again.take(begin()) and again.take(commit()) and not again.over
    if moment_us == OPENED[2]:
        assert not again.take(begin(900, moment_us, 78))
        assert again.over
    else:
        with pytest.raises(OtherHistory):
            again.take(begin(900, moment_us, 78))


def test_what_the_slot_no_longer_has_is_not_waited_for() -> None:
    """The place was confirmed itself: long behind the last transaction, or by an older version."""
    again = reading(place(), confirmed=501)
    assert again.over and again.begins == 600
    assert reading(Position("7/1", 600)).over


def test_the_last_transaction_is_kept_unless_it_is_far_away() -> None:
    assert kept_from(place()) == 500
    assert kept_from(place(560 + FAR_BYTES - 1)) == 500
    assert kept_from(place(560 + FAR_BYTES)) == 560 + FAR_BYTES
    assert kept_from(Position("7/1", 600)) == 600
