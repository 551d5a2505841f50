"""The window planner: how much is planned at once, what makes it wait, and what tells the log to wait."""

import pytest

from tests.engine.scenario_feed import Told

LATE = "checkpoint_us=1000000000000"
NARROW = f"options lanes=1 window_rows=1 batch_rows=1 max_in_flight_rows=4 {LATE}"


def test_planning_stops_at_half_of_the_rows_in_flight_and_the_log_at_all_of_them() -> None:
    feed = Told("tables account", NARROW, "take over")
    machine = feed.scenario.machine
    feed.tell("log 1 resent: insert account 1 a x")
    for number in range(2, 6):
        assert feed.tell("room?") == ["room" if number < 5 else "no room"]
        feed.tell(f"log {number}: insert account {number} {number} x")
    assert machine.batches.rows == 3, "one more than half: then it is seen"
    assert machine.pipeline.intake.buffer.rows == 2
    feed.tell("committed 1.1", "wait 1")
    assert machine.batches.rows == 3 and machine.pipeline.intake.buffer.rows == 1


@pytest.mark.parametrize("passed", [True, False])
def test_a_statement_is_planned_past_only_if_it_passes_and_a_checkpoint_is_behind_it(passed: bool) -> None:
    feed = Told("tables account", f"options {LATE}", f"take over{' ddl passed 2' if passed else ''}")
    feed.tell("log 1 resent: insert account 1 a x")
    feed.tell("ddl 2 other account")
    feed.tell("log 3: insert account 3 b x")
    assert feed.scenario.machine.batches.rows == 1
    (before,) = feed.tell("committed 1.1")
    assert before.startswith("save checkpoint 1.2") and feed.scenario.machine.batches.rows == 0
    (told,) = feed.tell("saved 1.2")
    assert ("(3, b, x)" in told) is passed and told.startswith("halt (ddl)") is not passed


def test_rows_that_a_receipt_covers_are_dropped_once() -> None:
    feed = Told("tables account", f"options {LATE}", "take over epoch 2 at 0 having 1.1=0-1:1:0")
    assert feed.tell("log 1 resent: insert account 1 a x") == []
    (told,) = feed.tell("log 2: insert account 2 b x")
    assert "(2, b, x)" in told and "(1, a, x)" not in told
