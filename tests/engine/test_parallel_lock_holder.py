import pytest

from tidelock.engine.parallel.lock_holder import LockHolder


def test_a_holder_counts_whom_it_waits_for() -> None:
    first, second, third = LockHolder(0, 0), LockHolder(1, 1), LockHolder(2, 2)
    third.wait_for(first)
    third.wait_for(second)
    assert third.pending_predecessors == 2
    assert first.successors == second.successors == [third]


@pytest.mark.parametrize(
    ("order", "lane", "committed"),
    [(5, 1, False), (3, 1, False), (1, 0, False), (1, 1, True)],
    ids=["a later one", "itself", "its own lane", "a committed one"],
)
def test_no_cycle_a_holder_only_waits_for_an_earlier_one_of_another_lane(
    order: int, lane: int, committed: bool
) -> None:
    other = LockHolder(order, lane)
    other.committed = committed
    waiting = LockHolder(3, 0)
    with pytest.raises(AssertionError):
        waiting.wait_for(other)
    assert waiting.pending_predecessors == 0
