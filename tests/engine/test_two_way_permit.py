"""The permit: both directions are proven, live and near each other, or neither applies."""

import pytest

from tidelock.engine.two_way.permit import Limits, Own, Permit, PermitState, Sister

OPEN, PROBING, CLOSED, DRAINING = PermitState.OPEN, PermitState.PROBING, PermitState.CLOSED, PermitState.DRAINING
LIMITS = Limits(lag_us=100, after_us=10)


def sister(alive: int = 1, *, ready: bool = True, lag_us: int = 0) -> Sister:
    return Sister("us-eu", alive, ready, lag_us)


def opened() -> Permit:
    permit = Permit("us-eu", LIMITS)
    permit.begin("n1")
    permit.probe_seen("n1")
    permit.sister_seen(0, sister())
    assert permit.state(0, Own()) is OPEN
    return permit


def test_it_opens_when_both_are_proven() -> None:
    permit = Permit("us-eu", LIMITS)
    assert permit.state(0, Own()) is PROBING
    permit.begin("n1")
    permit.sister_seen(0, sister())
    assert permit.state(0, Own()) is PROBING
    permit.probe_seen("n1")
    permit.sister_seen(0, sister(2, ready=False))
    assert permit.state(0, Own()) is PROBING and permit.ready(0, Own())
    permit.sister_seen(0, sister(3))
    assert permit.state(0, Own()) is OPEN


def test_a_probe_of_an_earlier_session_proves_nothing() -> None:
    permit = opened()
    permit.begin("n2")
    permit.probe_seen("n1")
    assert permit.state(0, Own()) is PROBING and not permit.ready(0, Own())
    permit.probe_seen("n2")
    assert permit.state(0, Own()) is OPEN


def test_a_silent_sister_closes_it_and_a_row_that_does_not_move_is_silence() -> None:
    permit = opened()
    permit.sister_seen(5, sister())
    assert [permit.state(now, Own()) for now in (9, 10)] == [OPEN, PROBING]
    permit.sister_seen(11, sister(2))
    assert permit.state(11, Own()) is OPEN


def test_an_operator_and_a_halt_close_it() -> None:
    permit = opened()
    assert permit.state(0, Own(wished=False)) is CLOSED is permit.state(0, Own(halted=True))
    assert not permit.ready(0, Own(wished=False)) and not permit.ready(0, Own(halted=True))


def test_what_was_sent_is_finished() -> None:
    permit = opened()
    assert permit.state(0, Own(wished=False, in_flight=1)) is DRAINING is permit.state(10, Own(in_flight=1))
    assert permit.state(0, Own(in_flight=1)) is OPEN


def test_it_holds_for_a_sister_that_lags_unless_it_lags_itself() -> None:
    permit = opened()
    permit.sister_seen(1, sister(2, lag_us=101))
    assert permit.state(1, Own(lag_us=100)) is PROBING
    assert permit.state(1, Own(lag_us=101)) is OPEN
    permit.sister_seen(1, sister(3, lag_us=100))
    assert permit.state(1, Own(lag_us=500)) is OPEN is permit.state(1, Own())


def test_the_row_of_another_feed_is_refused() -> None:
    """Else a feed would read its own halt, or none, as its sister's."""
    permit = opened()
    with pytest.raises(ValueError, match="the row of eu-us was read in place of us-eu's"):
        permit.sister_seen(1, Sister("eu-us", 2, True))
