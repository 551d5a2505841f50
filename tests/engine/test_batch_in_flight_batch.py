import pytest

from tests.engine.world import ACCOUNT, change
from tidelock.engine.batch.in_flight_batch import NEXT, InFlightBatch, Phase
from tidelock.engine.parallel.segments import Segment
from tidelock.engine.protocol.effects import ApplyBatch, EffectId


def segment(order: int, window: int, rows: int) -> Segment:
    made = Segment(order, 1, window)
    (binding,) = ACCOUNT.bindings()
    made.changes += [change(binding, None, (order * 10 + n, None, 0)) for n in range(rows)]
    return made


def test_an_attempt_covers_its_segments_in_log_order() -> None:
    first, second = segment(3, 1, 2), segment(5, 2, 1)
    attempt = InFlightBatch(1, [first, second])
    assert attempt.changes == [*first.changes, *second.changes]
    assert (attempt.order, attempt.window, attempt.lane) == (3, 2, 1)
    assert attempt.id is None and attempt.search is None


def test_its_id_is_that_of_the_transaction_last_sent() -> None:
    attempt = InFlightBatch(1, [segment(0, 0, 1)])
    attempt.effect = ApplyBatch(EffectId(4, 2), 1, [], b"", 1)
    assert attempt.id == EffectId(4, 2)


@pytest.mark.parametrize("now", Phase)
@pytest.mark.parametrize("then", Phase)
def test_phases_change_only_as_the_table_says(now: Phase, then: Phase) -> None:
    attempt = InFlightBatch(0, [segment(0, 0, 1)])
    attempt.phase = now
    if then in NEXT[now]:
        attempt.enter(then)
        assert attempt.phase is then
    else:
        with pytest.raises(AssertionError, match=f"{now} → {then}"):
            attempt.enter(then)
        assert attempt.phase is now


def test_in_doubt_is_never_planned_anew_counter_example_4() -> None:
    """From COMMITTING there is no way to PREPARED, ROLLING_BACK or a second COMMIT: only the same batch again."""
    assert set(NEXT[Phase.COMMITTING]) == {Phase.BACKOFF, Phase.RUNNING}
    assert set(NEXT) == set(Phase)
