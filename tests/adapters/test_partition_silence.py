"""The silence of a partition counts only while records are owed, and each ask is left the time for its answer."""

from tidelock.adapters.workers.silence import Silence


def asked_at(silence: Silence, seconds: int, owed: bool = True) -> list[int]:
    return [second for second in range(1, seconds + 1) if silence.tick(1.0, owed)]


def test_each_ask_is_left_more_time_than_the_one_before() -> None:
    assert asked_at(Silence(), 40) == [4, 12, 28]


def test_nothing_is_asked_for_while_nothing_is_owed() -> None:
    silence = Silence()
    assert asked_at(silence, 100, owed=False) == []
    assert silence.seconds == 0.0


def test_what_was_silent_while_nobody_published_does_not_count_afterwards() -> None:
    silence = Silence()
    asked_at(silence, 100, owed=False)
    assert not silence.tick(1.0, owed=True)
    assert silence.seconds == 1.0


def test_a_record_ends_the_silence() -> None:
    silence = Silence()
    asked_at(silence, 10)
    silence.heard()
    assert silence.seconds == 0.0
    assert asked_at(silence, 5) == [4]
