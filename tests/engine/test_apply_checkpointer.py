"""The checkpointer: one checkpoint at a time, when it is due, and the goal only once one is stored."""

from tests.engine.scenario_feed import Told

BEGUN = ("tables account", "options checkpoint_us=0 idle_checkpoint_us=1000000", "take over")
ONE = "log 1 resent: insert account 1 a x"


def test_one_is_on_its_way_at_a_time() -> None:
    feed = Told(*BEGUN, ONE, "log 2: insert account 2 b x")
    assert feed.tell("committed 1.1") == ["save checkpoint 1.3 log.000001:100, drop 1.1"]
    assert feed.tell("committed 1.2", "wait 1000") == [], "the first is not stored yet"
    assert feed.tell("saved 1.3") == ["save checkpoint 1.4 log.000001:200, drop 1.2"]


def test_an_answer_to_another_one_stores_nothing() -> None:
    feed = Told(*BEGUN, ONE, "committed 1.1")
    mark = feed.scenario.machine.watermark
    before = mark.saved
    feed.tell("saved 1.1", "saved 9.2")
    assert mark.saved == before != mark.position
    feed.tell("saved 1.2")
    assert mark.saved == mark.position


def test_one_that_is_refused_is_told_and_saved_again_a_little_later() -> None:
    feed = Told(*BEGUN, ONE, "committed 1.1")
    machine = feed.scenario.machine
    assert feed.tell("save failed 1.2 transient the disk is full") == []
    first = machine.hindrances["target"]
    assert first.message == "the disk is full"
    assert feed.tell("wait 198") == [], "not at once"
    assert feed.tell("wait 2") == ["save checkpoint 1.3 log.000001:100, drop 1.1"]
    feed.tell("save failed 1.3 transient no room")
    assert machine.hindrances["target"].since == first.since
    feed.tell("wait 200", "saved 1.4")
    assert machine.hindrances == {}


def test_one_that_is_refused_for_good_ends_the_owner() -> None:
    feed = Told(*BEGUN, ONE, "committed 1.1")
    assert feed.tell("save failed 1.2 fenced a newer owner") == ["step down: a newer owner"]


def test_a_goal_hurries_it_and_is_reached_once_it_is_stored() -> None:
    feed = Told(
        "tables account", "options checkpoint_us=1000000000 idle_checkpoint_us=1000000000", "take over", ONE, "goal 1"
    )
    assert feed.tell("committed 1.1") == ["save checkpoint 1.2 log.000001:100, drop 1.1"]
    assert feed.tell("saved 1.2") == ["caught up"]
    assert feed.tell("wait 1000") == [], "once"


def test_an_idle_one_is_saved_at_once_where_much_of_the_log_has_passed() -> None:
    """The source keeps its log for it."""
    idle = "checkpoint_us=1000000 idle_checkpoint_us=1000000000 idle_checkpoint_bytes=250"
    feed = Told("capture account", "tables account", f"options {idle}", "take over", "log 1 resent: insert ledger 1 x")

    def saved(number: int) -> list[str]:
        return [said for said in feed.tell(f"log {number}: insert ledger {number} x") if said.startswith("save")]

    assert saved(2) == []
    assert saved(3) == ["save checkpoint 1.1 log.000001:300"]
    feed.tell("saved 1.1")
    assert saved(4) == saved(5) == []
    assert saved(6) == ["save checkpoint 1.2 log.000001:600"]
