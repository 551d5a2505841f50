import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lanes import Lane
from engine.segments import Segment
from tests.engine.world import ACCOUNT, change

(ACCOUNTS,) = ACCOUNT.bindings()


def segment(order: int, rows: int, blockers: int = 0) -> Segment:
    made = Segment(order, 0, 0)
    made.changes += [change(ACCOUNTS, None, (n, None, 0)) for n in range(rows)]
    made.blockers = blockers
    return made


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans())), st.integers(1, 12))
def test_a_batch_is_a_runnable_prefix_of_at_most_the_limit_or_one_segment(sizes: list, limit: int) -> None:
    lane = Lane(0)
    queued = [segment(n, rows, int(blocked)) for n, (rows, blocked) in enumerate(sizes)]
    for one in queued:
        lane.append(one)
    assert lane.ready == (bool(queued) and queued[0].blockers == 0)
    total = lane.rows
    batch = list(lane.cut(limit))
    assert batch == queued[: len(batch)]
    assert all(one.blockers == 0 for one in batch)
    assert len(batch) <= 1 or sum(len(one.changes) for one in batch) <= limit
    rest = queued[len(batch) :]
    stopped = not rest or rest[0].blockers > 0 or sum(len(one.changes) for one in batch) + len(rest[0].changes) > limit
    assert stopped and (batch or not queued or queued[0].blockers)
    assert lane.rows == total == sum(len(one.changes) for one in queued)
    assert list(lane.queue) == rest


def test_counter_example_10_a_lane_stays_in_log_order() -> None:
    lane = Lane(0)
    lane.append(segment(2, 1))
    with pytest.raises(AssertionError, match="log order"):
        lane.append(segment(1, 1))


def test_one_batch_a_lane() -> None:
    lane = Lane(3)
    for n in range(3):
        lane.append(segment(n, 1))
    batch = list(lane.cut(2))
    assert not lane.ready
    with pytest.raises(AssertionError, match="one batch"):
        lane.cut(2)
    assert lane.finish() == batch
    assert lane.ready and lane.rows == 1
    with pytest.raises(AssertionError, match="nothing"):
        lane.finish()
