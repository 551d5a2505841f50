"""Batches in backoff: when each is sent again, and in which order."""

from tidelock.engine.batch.backoff import FIRST_DELAY_US, LONGEST_DELAY_US, Backoff, delay_us
from tidelock.engine.batch.in_flight_batch import InFlightBatch, Phase, Turn


def batch(lane: int) -> InFlightBatch:
    return InFlightBatch(lane, 0, [], Turn(lane))


def test_the_wait_doubles_with_each_failure_up_to_a_bound() -> None:
    assert [delay_us(tries) for tries in (1, 2, 3)] == [FIRST_DELAY_US, 2 * FIRST_DELAY_US, 4 * FIRST_DELAY_US]
    assert delay_us(9) == LONGEST_DELAY_US == delay_us(10_000)


def test_a_batch_is_taken_once_when_it_has_waited_long_enough() -> None:
    backoff, first, second = Backoff(), batch(0), batch(1)
    backoff.add(first, 30)
    backoff.add(second, 20)
    assert (first.turn.phase, first.turn.retry_at) == (Phase.BACKOFF, 30)
    assert backoff.take_due(19) == []
    assert backoff.take_due(20) == [second]
    assert backoff.take_due(40) == [first]
    assert backoff.take_due(40) == []


def test_those_that_are_due_together_go_in_the_order_in_which_they_began_to_wait() -> None:
    backoff, made = Backoff(), [batch(lane) for lane in range(3)]
    for lane in (2, 0, 1):
        backoff.add(made[lane], 50 - lane)
    assert backoff.take_due(50) == [made[2], made[0], made[1]]


def test_a_batch_whose_time_is_set_earlier_meanwhile_goes_then() -> None:
    """So the head of the commit order is sent at once."""
    backoff, one = Backoff(), batch(0)
    backoff.add(one, 1_000)
    one.turn.retry_at = 5
    assert backoff.take_due(5) == [one]
