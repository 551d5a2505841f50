"""The intake takes the log in order, asks again for what is missing, and halts where that does not help."""

from tests.engine.scenario_feed import Told

BEGUN = ("tables account", "options checkpoint_us=1000000000000", "take over")


def test_a_batch_that_comes_twice_is_taken_once() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x", "pause", "log 2: insert account 2 b x")
    buffer = feed.scenario.machine.pipeline.intake.buffer
    assert buffer.rows == 1
    assert feed.tell("log 2 after 1: insert account 2 b x") == []
    assert buffer.rows == 1


def test_a_gap_is_asked_for_once_and_halts_if_the_new_reader_shows_it_too() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    assert feed.tell("log 3 after 2: insert account 3 c x") == ["resend from log.000001:100"]
    (told,) = feed.tell("log 3 resent after 2: insert account 3 c x")
    assert told.startswith("halt (gap): the log has a gap: log.000001:100 was followed by a record after log.000001:2")


def test_a_lost_source_is_told_until_the_log_goes_on() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    machine = feed.scenario.machine
    assert feed.tell("source failed") == ["resend from log.000001:100"]
    first = machine.hindrances["source"]
    feed.tell("source failed")
    assert machine.hindrances["source"] == first, "since its first failure"
    feed.tell("log 2 resent: insert account 2 b x")
    assert "source" not in machine.hindrances


def test_a_log_that_cannot_be_read_on_halts_at_once_and_nothing_is_asked_for() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    told = feed.tell("source ended purged: the log was purged")
    assert len(told) == 1 and told[0].startswith("halt (purged): the log was purged")
    assert feed.tell("log 2: insert account 2 b x", "source failed") == []
