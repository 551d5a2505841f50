"""The pipeline gives each answer to the part that asked, and what ends one part ends the owner."""

import pytest

from tests.engine.scenario_feed import Told
from tidelock.engine.apply.machine import State
from tidelock.engine.protocol.events import TakenOver
from tidelock.simulations.scenario import position

BEGUN = ("tables account", "options checkpoint_us=1000000000000", "take over")
TRUNCATE = "ddl 2 truncate account"


def test_a_feed_is_taken_over_once() -> None:
    feed = Told(*BEGUN)
    with pytest.raises(AssertionError, match="taken over twice"):
        feed.scenario.machine.step(10**9, [TakenOver(2, position(0))])


def test_an_answer_to_nobody_changes_nothing() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    strangers = ("committed 1.9", "ready 1.9", "rolled back 1.9", "failed 1.9 row x", "saved 1.9")
    assert feed.tell(*strangers, "ddl applied 1.9", "ddl failed 1.9 target x") == []
    machine = feed.scenario.machine
    assert (machine.state, machine.batches.rows) == (State.FLOWING, 1)


def test_a_statement_runs_alone_and_is_tried_again_where_that_may_help() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    assert feed.tell(TRUNCATE, "log 3: insert account 3 c x") == [], "what is before it is under way"
    assert feed.tell("committed 1.1") == ["apply ddl 1.2: truncate account"]
    machine = feed.scenario.machine
    assert feed.tell("ddl failed 1.2 transient a lock timed out", "wait 198") == []
    assert machine.hindrances["target"].message == "a lock timed out"
    assert feed.tell("wait 2") == ["apply ddl 1.3: truncate account"]
    assert feed.tell("ddl applied 1.3") == ["save checkpoint 1.4 log.000001:200, drop 1.1"], "before what follows"
    assert machine.hindrances == {}
    (told,) = feed.tell("saved 1.4")
    assert told.startswith("apply 1.5 ")


def test_rows_of_the_shape_that_a_statement_takes_away_are_below_a_checkpoint_first() -> None:
    """Else a run that begins just behind the statement would read them again, and find no columns for them."""
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    assert feed.tell("ddl 2 altered account") == []
    assert feed.tell("committed 1.1") == ["save checkpoint 1.2 log.000001:100, drop 1.1"]
    assert feed.tell("saved 1.2") == ["apply ddl 1.3: altered account"]
    assert feed.tell("ddl applied 1.3") == ["save checkpoint 1.4 log.000001:200"]


def test_a_statement_that_is_refused_halts_with_it_in_hand() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x", TRUNCATE, "committed 1.1")
    (told,) = feed.tell("ddl failed 1.2 target no permission")
    assert told.startswith("halt (ddl): the target refused a schema change: no permission")
    assert feed.scenario.machine.state is State.HALTED


def test_a_statement_that_is_not_applied_halts_once_all_before_it_is_saved() -> None:
    feed = Told(*BEGUN, "log 1 resent: insert account 1 a x")
    feed.tell("ddl 2 other account")
    assert feed.tell("committed 1.1") == ["save checkpoint 1.2 log.000001:100, drop 1.1"]
    assert feed.scenario.machine.state is State.FLOWING
    (told,) = feed.tell("saved 1.2")
    assert told.startswith("halt (ddl): ")
    assert feed.scenario.machine.alarm is not None and feed.scenario.machine.backpressured


def test_the_way_out_of_a_halt_begins_with_failed_rows_of_its_tables() -> None:
    for other, told in (("account", True), ("seat", False)):
        feed = Told("tables account seat", "options checkpoint_us=1000000000000", "take over")
        feed.tell("log 1 resent: insert account 1 a x", "failed 1.1 row too long", "committed 1.2")
        feed.tell(f"ddl 2 other {other}", "saved 1.3")
        alarm = feed.scenario.machine.alarm
        assert alarm is not None and ("but 1 failed row that" in alarm.hint) is told, alarm.hint
        assert ("`tidelock rows retry FEED --all`" in alarm.hint) is told
