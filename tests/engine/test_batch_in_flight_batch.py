import pytest

from tidelock.engine.batch.in_flight_batch import NEXT, Phase, Turn


@pytest.mark.parametrize("now", Phase)
@pytest.mark.parametrize("then", Phase)
def test_phases_change_only_as_the_table_says(now: Phase, then: Phase) -> None:
    turn = Turn(0, now)
    if then in NEXT[now]:
        turn.enter(then)
        assert turn.phase is then
    else:
        with pytest.raises(AssertionError, match=f"{now} → {then}"):
            turn.enter(then)
        assert turn.phase is now


def test_in_doubt_is_never_planned_anew_counter_example_4() -> None:
    """From COMMITTING there is no way to PREPARED, ROLLING_BACK or a second COMMIT: only the same batch again."""
    assert set(NEXT[Phase.COMMITTING]) == {Phase.BACKOFF, Phase.RUNNING}
    assert set(NEXT) == set(Phase)
