"""Stamps and tombstones: one order at every site, and when a tombstone may be forgotten."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelock.engine.model.index import Index
from tidelock.engine.model.schema import Equality
from tidelock.engine.two_way.stamp import Stamp, local_stamp, must_wait, stands
from tidelock.engine.two_way.tombstones import InexactKey, Rounds, Tombstone, Tombstones, buried, exact_key

KEY = Index(0, (0,), (Equality.FOLDED,), True)
K = (0, "a")
TIMES = st.integers(0, 50)
STAMPS = st.builds(Stamp, TIMES, st.sampled_from(["eu", "us"]))


def test_the_site_decides_between_equal_times() -> None:
    assert stands(Stamp(5, "us"), Stamp(5, "eu"), None) and not stands(Stamp(5, "eu"), Stamp(5, "us"), None)
    assert not stands(Stamp(5, "us"), None, Stamp(5, "us"))


@given(TIMES, st.none() | STAMPS, TIMES)
def test_a_write_is_above_what_it_writes_over_and_what_was_purged(clock: int, over: Stamp | None, floor: int) -> None:
    stamp = local_stamp(clock, "eu", over, floor)
    assert stamp.time >= clock and stamp.time > floor and (over is None or stamp > over)
    assert stands(stamp, over, None)


def test_a_change_waits_until_the_clock_has_passed_it() -> None:
    assert [must_wait(Stamp(5, "eu"), clock) for clock in (4, 5, 6)] == [True, True, False]


def test_deletes_and_changed_keys_leave_tombstones_of_keys_as_the_index_compares_them() -> None:
    assert buried(KEY, ("A", 1), None) == K == buried(KEY, ("a", 1), ("b", 1))
    assert buried(KEY, ("A", 1), ("a", 2)) is None is buried(KEY, None, ("a", 1))


def test_a_key_that_does_not_compare_exactly_has_none() -> None:
    with pytest.raises(InexactKey, match="needs an arbiter"):
        buried(KEY, ("é", 1), None)
    with pytest.raises(InexactKey):
        exact_key(KEY, (None, 1))


def test_the_later_tombstone_stays() -> None:
    tombstones = Tombstones()
    tombstones.leave(K, Stamp(7, "eu"), 1)
    tombstones.leave(K, Stamp(5, "us"), 2)
    assert tombstones.of(K) == Stamp(7, "eu") and tombstones.of((0, "b")) is None
    assert tombstones.left() == (Tombstone(K, Stamp(7, "eu"), 1),)


@pytest.mark.parametrize(("hops", "enough"), [(1, 5), (2, 7)])
def test_a_tombstone_is_purged_after_twice_as_many_rounds_as_there_are_hops(hops: int, enough: int) -> None:
    tombstones = Tombstones()
    tombstones.leave(K, Stamp(7, "eu"), 3)
    tombstones.purge(enough - 1, hops)
    assert (len(tombstones), tombstones.floor) == (1, 0)
    tombstones.purge(enough, hops)
    assert (len(tombstones), tombstones.floor) == (0, 7)


def test_a_round_ends_when_every_reader_is_past_the_ends_that_it_began_with() -> None:
    rounds = Rounds({"eu": (5,), "us": (3,)})
    assert not rounds.step({("us", "eu"): (5,), ("eu", "us"): (2,)}, {"eu": (9,), "us": (9,)})
    assert rounds.running == 1 and rounds.ends == {"eu": (5,), "us": (3,)}
    assert rounds.step({("us", "eu"): (5,), ("eu", "us"): (3,)}, {"eu": (9,), "us": (8,)})
    assert (rounds.finished, rounds.running, rounds.ends) == (1, 2, {"eu": (9,), "us": (8,)})


@settings(max_examples=30)
@given(st.lists(STAMPS, min_size=1, unique=True), st.randoms())
def test_in_whatever_order_changes_come_the_latest_stands(stamps: list[Stamp], chance: Random) -> None:
    chance.shuffle(order := list(stamps))
    row: Stamp | None = None
    for stamp in order:
        if stands(stamp, row, None):
            row = stamp
    assert row == max(stamps)
