"""The commit order of whole transactions, and that of lanes, which is none."""

from tidelock.engine.batch.commit_order import CommitOrder, LaneOrder
from tidelock.engine.batch.in_flight_batch import Phase, Turn
from tidelock.engine.model.options import Options

BOUND_US = 100
OPTIONS = Options(lanes=3, atomic=True, commit_bound_us=BOUND_US)


def turn(order: int, phase: Phase = Phase.RUNNING) -> Turn:
    return Turn(order, phase)


def sent(*turns: Turn, at: int = 0) -> CommitOrder:
    order = CommitOrder(OPTIONS)
    for one in turns:
        order.sent(one, at)
    return order


def test_the_head_is_the_batch_of_the_first_segment_that_is_not_committed_whoever_was_sent_first() -> None:
    second, first = turn(1), turn(0)
    order = sent(second)
    assert order.head is None, "the batch before it waits for its lane"
    order.sent(first, 0)
    assert order.head is first and order.is_head(first) and not order.is_head(second)
    order.segment_committed()
    order.left(first, 10)
    assert order.head is second


def test_only_the_head_commits_and_only_when_it_is_prepared() -> None:
    first, second = turn(0), turn(1, Phase.PREPARED)
    order = sent(first, second)
    assert order.next_to_commit(second, 0) is None
    first.phase = Phase.PREPARED
    assert order.next_to_commit(None, 0) is first


def test_a_head_in_backoff_is_sent_at_once() -> None:
    first = turn(0, Phase.BACKOFF)
    first.retry_at = 1_000
    assert sent(first).next_to_commit(None, 7) is None
    assert first.retry_at == 7


def test_counter_example_13_later_turns_give_way_to_a_head_that_waits_for_too_long() -> None:
    first, held, running, resting = turn(0), turn(1, Phase.PREPARED), turn(2), turn(3, Phase.BACKOFF)
    order = sent(first, held, running, resting)
    assert order.to_roll_back(BOUND_US) == []
    assert order.to_roll_back(BOUND_US + 1) == [held, running]
    assert order.to_roll_back(2 * BOUND_US + 1) == [], "they have given way a moment ago"
    assert order.to_roll_back(2 * BOUND_US + 2) == [held, running]


def test_a_head_that_is_prepared_or_commits_waits_for_nobody() -> None:
    for phase in (Phase.PREPARED, Phase.COMMITTING, Phase.ROLLING_BACK):
        assert sent(turn(0, phase), turn(1)).to_roll_back(10 * BOUND_US) == []


def test_lanes_commit_by_themselves() -> None:
    order, one = LaneOrder(Options(batch_rows=40)), turn(5, Phase.PREPARED)
    order.sent(one, 0)
    assert (order.atomic, order.most_rows, order.lane()) == (False, 40, None)
    assert order.next_to_commit(one, 0) is one and order.next_to_commit(None, 0) is None
    assert not order.is_head(one) and order.to_roll_back(10**9) == []


def test_each_window_of_whole_transactions_goes_to_the_next_lane() -> None:
    order = CommitOrder(OPTIONS)
    assert [order.lane() for _ in range(4)] == [0, 1, 2, 0]
