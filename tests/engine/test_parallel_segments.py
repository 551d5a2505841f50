import pytest

from tests.engine.world import ACCOUNT
from tidelock.engine.model.records import RowChange, Transaction
from tidelock.engine.parallel.segments import Change, Segment

(ACCOUNTS,) = ACCOUNT.bindings()


def test_a_change_knows_its_place_in_the_log() -> None:
    one = Change.of(ACCOUNTS, RowChange(0, None, (1, "a", 0), 7), Transaction("0-101", 42, 3))
    assert (one.source, one.number, one.ordinal) == ("0-101", 42, 7)
    assert (one.binding, one.before, one.after) == (ACCOUNTS, None, (1, "a", 0))


def test_a_change_is_as_large_as_its_values() -> None:
    small, both = Change(ACCOUNTS, None, (1, "a", 0), "0-101", 42, 7), (1, "a" * 501, 0)
    large = Change(ACCOUNTS, both, both, "0-101", 42, 7)
    assert large.size == 2 * (small.size + 500)


def test_a_segment_counts_whom_it_waits_for() -> None:
    first, second, third = Segment(0, 0, 0), Segment(1, 1, 0), Segment(2, 2, 0)
    third.wait_for(first)
    third.wait_for(second)
    assert third.pending_predecessors == 2
    assert first.successors == second.successors == [third]


@pytest.mark.parametrize(
    ("order", "lane", "committed"),
    [(5, 1, False), (3, 1, False), (1, 0, False), (1, 1, True)],
    ids=["a later one", "itself", "its own lane", "a committed one"],
)
def test_no_cycle_a_segment_only_waits_for_an_earlier_one_of_another_lane(
    order: int, lane: int, committed: bool
) -> None:
    other = Segment(order, lane, 0)
    other.committed = committed
    waiting = Segment(3, 0, 0)
    with pytest.raises(AssertionError):
        waiting.wait_for(other)
    assert waiting.pending_predecessors == 0
