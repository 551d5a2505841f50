"""The coordinator: every order of a small world, long walks through a larger one, and single rules by themselves.

Each rule is also broken once (`BROKEN`), to see that the small world finds it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from coordinator_world import AT, DDL, STATEMENT, World, Wrong, at, explore, table

from tidelock.engine.cluster import state_publisher
from tidelock.engine.cluster.coordinator import Coordinator
from tidelock.engine.cluster.coordinator_states import CoordinatorState, Draining, Running, Sealing, Unparking
from tidelock.engine.cluster.group_progress import GroupProgress
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema import ForeignKey, TargetTable
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.coordinator_messages import (
    Announce,
    FeedTaken,
    GoOn,
    LogGrew,
    PassStatement,
    PlanStored,
    RunStatement,
    StartPublisher,
    StatementReached,
    StorePlan,
)
from tidelock.engine.protocol.effects import Halt, StepDown
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, SourceFailed, Tick
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement

SECOND = 1_000_000


# --- every order of a small world


@pytest.mark.parametrize(
    ("groups", "changes", "crashes", "failures"), [(2, 0, 0, 0), pytest.param(1, 1, 0, 0, marks=pytest.mark.proof)]
)
def test_every_order_of_a_small_world(groups: int, changes: int, crashes: int, failures: int) -> None:
    assert explore(World(groups, changes, crashes, failures), most=10_000) > 50


@pytest.mark.proof
@pytest.mark.parametrize(
    ("groups", "changes", "crashes", "failures"),
    [(2, 0, 1, 0), (2, 0, 0, 1), (1, 1, 1, 1), (2, 1, 0, 0), (2, 1, 1, 0), (3, 0, 0, 0)],
)
def test_every_order_of_a_larger_world(groups: int, changes: int, crashes: int, failures: int) -> None:
    explore(World(groups, changes, crashes, failures), most=1_000_000)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_walks_through_a_larger_world(data: st.DataObject) -> None:
    world = World(groups=3, changes=3, crashes=2, failures=3)
    for _ in range(400):
        actions = list(world.actions())
        good = [action for action in actions if not action[0].startswith("!")]
        if not good:
            break
        faulty = len(actions) > len(good) and data.draw(st.integers(0, 9)) == 0
        _, act = data.draw(st.sampled_from(actions if faulty else good), label="action")
        act(world)
    assert world.done


def _any_votes(self: GroupProgress, plan: TablePartitioning, statement: Statement) -> dict[int, int] | None:
    return {r.group: r.epoch for r in self._newest.values() if r.vote == statement} or None


def _votes_of_any_statement(
    self: GroupProgress, plan: TablePartitioning, statement: Statement
) -> dict[int, int] | None:
    return {r.group: r.epoch for r in self._newest.values()} if len(self._newest) == plan.partitions else None


def _of_those_that_reported(self: GroupProgress, plan: TablePartitioning) -> Position:
    found = [report.resolved for report in self._newest.values()]
    return min(found, key=lambda p: p.order) if found else plan.position


def _most(self: GroupProgress, plan: TablePartitioning) -> Position:
    return max((r.checkpoint for r in self._newest.values()), key=lambda p: p.order, default=plan.position)


def _go_on_at_once(self: Coordinator, plan: TablePartitioning) -> bool:
    return isinstance(self.state, Sealing) or self._progress.sealed(plan, at(AT))


_take_over = Coordinator._take_over


def _take_over_blindly(self: Coordinator, event: FeedTaken) -> None:
    _take_over(self, msgspec.structs.replace(event, feed=None, ddl_passed=None))


BROKEN: dict[str, tuple[Any, str, Any, tuple[int, int, int, int], str]] = {
    "some groups vote": (GroupProgress, "votes", _any_votes, (2, 0, 0, 0), "before what is before it is durable"),
    "every report is a vote": (GroupProgress, "votes", _votes_of_any_statement, (2, 0, 0, 0), "is durable"),
    "resolved of those that reported": (
        GroupProgress, "resolved", _of_those_that_reported, (2, 0, 0, 0), "resolved position is past",
    ),
    "the most of the checkpoints": (GroupProgress, "checkpoint", _most, (2, 0, 0, 0), "past|passed"),
    "the position goes back": (state_publisher, "_later", lambda position, before: position, (1, 1, 0, 0), "goes back"),
    "on before all have sealed": (Coordinator, "_all_past_it", _go_on_at_once, (2, 0, 0, 0), "goes on before"),
    "what has passed is forgotten": (
        Coordinator, "_take_over", _take_over_blindly, (2, 0, 1, 0), "nothing goes on|back",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_the_small_world_finds_each_broken_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong, world, found = BROKEN[name]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(Wrong, match=found):
        explore(World(*world), most=20_000)


def test_the_small_world_finds_a_target_that_believes_old_votes() -> None:
    world = World(1, changes=1, crashes=0, failures=0)
    world.target_checks_votes = False
    with pytest.raises(Wrong, match="while a group has rows under way"):
        explore(world, most=20_000)


# --- single rules


def report(group: int, at_: int, epoch: int = 1, vote: Statement | None = None, **more: Any) -> GroupReport:
    return GroupReport(group, epoch, "w", "running", at(at_), at(at_), vote, **more)


def taken(**more: Any) -> FeedTaken:
    tables = {table(name).name: table(name) for name in "ab"}
    return FeedTaken(**{"epoch": 1, "worker": "w1", "start": at(0), "tables": tables, "partitions": 2, **more})


PLAN = TablePartitioning(1, at(0), (at(0), at(0)), ((table("a").name, 0), (table("b").name, 1)))


class Driver:
    def __init__(self, **more: Any) -> None:
        self.machine = Coordinator()
        self.now = 0
        self.announced: FeedState | None = None
        self.first = self.step(taken(**{"plan": PLAN, **more}))

    def step(self, *events: Any, seconds: float = 1.0) -> list[Any]:
        """Returns what it wants done; what it announces apart."""
        self.now += round(seconds * SECOND)
        effects = self.machine.step(self.now, events)
        for effect in effects:
            if isinstance(effect, Announce):
                self.announced = effect.feed
        return [effect for effect in effects if not isinstance(effect, Announce)]


def test_the_first_plan_is_stored_before_anything_is_published() -> None:
    machine = Coordinator()
    (store,) = machine.step(1, [taken()])
    assert store == StorePlan(PLAN)
    assert machine.step(2, [Tick(), report(0, 0)]) == []
    start, announce = machine.step(3, [PlanStored(1)])
    assert start == StartPublisher(PLAN, at(0))
    assert isinstance(announce, Announce)


def test_without_a_number_there_is_a_partition_for_each_group_of_tables_up_to_eight() -> None:
    for names, expected in (("a", 1), ("abc", 3), ("abcdefghij", 8), ("", 1)):
        tables = {table(name).name: table(name) for name in names}
        (store,) = Coordinator().step(1, [taken(partitions=0, tables=tables)])
        assert store.plan.partitions == expected


def test_a_zombies_report_counts_for_nothing() -> None:
    driver = Driver()
    driver.step(report(0, 1, epoch=2), report(1, 1))
    assert driver.announced is not None
    assert driver.announced.checkpoint == at(1)
    driver.step(LogGrew(at(1)), StatementReached(DDL, at(2)))
    assert driver.step(report(0, 1, epoch=1, vote=STATEMENT), report(1, 1, vote=STATEMENT)) == []
    (run,) = driver.step(report(0, 1, epoch=2, vote=STATEMENT))
    assert run.votes == {0: 2, 1: 1}


def test_a_group_that_has_never_reported_holds_the_feed_where_its_partition_begins() -> None:
    driver = Driver()
    driver.step(LogGrew(at(5)), report(0, 5))
    assert driver.announced is not None
    assert (driver.announced.resolved, driver.announced.checkpoint) == (at(0), at(0))


def test_a_vote_is_for_one_statement_alone_and_is_taken_back() -> None:
    driver = Driver()
    driver.step(StatementReached(DDL, at(2)))
    other = msgspec.structs.replace(STATEMENT, number=8)
    assert driver.step(report(0, 1, vote=STATEMENT), report(1, 1, vote=other)) == []
    assert driver.step(report(0, 1), report(1, 1, vote=STATEMENT)) == []
    assert isinstance(driver.step(report(0, 1, vote=STATEMENT))[0], RunStatement)


def at_statement(ddl: Any = DDL) -> tuple[Driver, list[Any]]:
    driver = Driver()
    return driver, driver.step(StatementReached(ddl, at(2)), report(0, 1, vote=STATEMENT), report(1, 1, vote=STATEMENT))


def test_a_statement_that_did_not_run_is_tried_again_with_the_votes_of_then() -> None:
    driver, (run,) = at_statement()
    assert driver.step(DdlFailed(run.id, Failure(ErrorKind.TRANSIENT, "a vote no longer holds")), seconds=0.01) == []
    assert driver.step(report(1, 1, epoch=2), seconds=1) == []
    (again,) = driver.step(report(1, 1, epoch=2, vote=STATEMENT))
    assert (again.votes, again.id.counter) == ({0: 1, 1: 2}, 2)
    assert driver.step(DdlApplied(run.id, {})) == []  # a late answer to the first


def test_a_refused_statement_is_announced_and_run_again_only_with_newer_votes() -> None:
    driver, (run,) = at_statement()
    assert driver.step(DdlFailed(run.id, Failure(ErrorKind.TARGET, "no rights"))) == []
    assert driver.announced is not None
    assert (driver.announced.refused, driver.announced.refusal) == (STATEMENT, "no rights")
    assert driver.announced.refused_votes == {0: 1, 1: 1}
    assert driver.step(Tick(), report(0, 1, vote=STATEMENT), seconds=60) == []
    (again,) = driver.step(report(0, 1, epoch=2, vote=STATEMENT))
    assert again.votes == {0: 2, 1: 1}
    driver.step(DdlApplied(again.id, taken().tables))
    assert driver.announced.refused is None
    assert driver.announced.passed == STATEMENT


def test_a_fenced_conductor_stands_down_and_says_nothing_more() -> None:
    driver, (run,) = at_statement()
    effects = driver.machine.step(driver.now, [DdlFailed(run.id, Failure(ErrorKind.FENCED, "a newer owner"))])
    assert effects == [StepDown("a newer owner", again=False)]
    assert driver.machine.step(driver.now + 60 * SECOND, [Tick(), report(0, 2)]) == []


def test_a_statement_that_is_not_applied_is_left_to_the_groups_and_the_operator() -> None:
    driver, nothing = at_statement(msgspec.structs.replace(DDL, kind=DdlKind.OTHER))
    assert nothing == []
    assert driver.step(report(0, 2)) == []
    (passing,) = driver.step(report(1, 2))
    assert isinstance(passing, PassStatement)
    assert driver.step(DdlApplied(passing.id, taken().tables)) == [GoOn(PLAN)]


def test_a_new_table_makes_a_new_plan_that_is_stored_before_the_statement_has_passed() -> None:
    driver, (run,) = at_statement()
    tables = {**taken().tables, table("c").name: table("c")}
    (store,) = driver.step(DdlApplied(run.id, tables, emptied=(table("a").name,)))
    assert (store.plan.version, store.plan.position, len(store.plan.tables)) == (2, at(2), 3)
    assert driver.announced is not None
    assert driver.announced.passed is None
    assert driver.step(report(0, 2), report(1, 2)) == []
    assert driver.step(PlanStored(2)) == [GoOn(store.plan)]
    assert (driver.announced.passed, driver.announced.emptied) == (STATEMENT, (table("a").name,))
    assert driver.announced.plan == 2


def test_rows_that_were_seen_weigh_when_a_foreign_key_joins_two_groups() -> None:
    driver = Driver()
    driver.step(LogGrew(at(1), {table("b").name: 500}))
    (run,) = driver.step(StatementReached(DDL, at(2)), report(0, 1, vote=STATEMENT), report(1, 1, vote=STATEMENT))
    key = ForeignKey("fk", table("b").name, ("a",), table("a").name, ("id",))
    joined = {table("a").name: table("a"), table("b").name: TargetTable(table("b").name, (), (), foreign_keys=(key,))}
    (store,) = driver.step(DdlApplied(run.id, joined))
    assert store.plan.tables == ((table("a").name, 1), (table("b").name, 1))


def test_a_table_does_not_leave_a_group_that_has_parked_rows() -> None:
    """The groups pass the statement, or no wish would be carried out; the publisher waits for the plan."""
    driver = Driver()
    driver.step(LogGrew(at(1), {table("b").name: 500}))
    parked = report(0, 1, vote=STATEMENT, parked=3)
    (run,) = driver.step(StatementReached(DDL, at(2)), parked, report(1, 1, vote=STATEMENT))
    key = ForeignKey("fk", table("b").name, ("a",), table("a").name, ("id",))
    joined = {table("a").name: table("a"), table("b").name: TargetTable(table("b").name, (), (), foreign_keys=(key,))}
    assert driver.step(DdlApplied(run.id, joined)) == []
    assert driver.announced is not None
    assert (driver.announced.passed, driver.announced.state) == (STATEMENT, Unparking.told)
    assert driver.step(report(0, 2, parked=3), report(1, 2)) == []
    (store,) = driver.step(report(0, 2))
    assert store.plan.tables == ((table("a").name, 1), (table("b").name, 1))
    assert driver.step(PlanStored(2)) == [GoOn(store.plan)]


def test_more_partitions_come_only_where_everything_is_drained() -> None:
    driver = Driver(partitions=3)
    assert driver.first == [StartPublisher(PLAN, at(0), hold=True)]
    assert driver.step(LogGrew(at(5)), report(0, 5), report(1, 4)) == []
    assert driver.announced is not None
    assert driver.announced.state == Draining.told
    (store,) = driver.step(report(1, 5))
    assert store.plan.since == (at(0), at(0), at(5))
    assert driver.step(PlanStored(2)) == [GoOn(store.plan)]


def test_a_plan_on_its_way_is_not_stored_again_for_a_publisher_that_failed() -> None:
    driver = Driver(partitions=3)
    (store,) = driver.step(LogGrew(at(5)), report(0, 5), report(1, 5))
    assert isinstance(store, StorePlan)
    (start,) = driver.step(SourceFailed(Alarm("source", "gone", "wait"), retryable=True))
    assert start == StartPublisher(PLAN, at(5), hold=True)
    assert driver.step(LogGrew(at(5))) == [], "it is held until the plan is stored"
    assert driver.step(PlanStored(2)) == [GoOn(store.plan)]


def test_a_refusal_is_told_until_the_statement_has_run() -> None:
    driver = Driver()
    votes = (report(0, 1, vote=STATEMENT), report(1, 1, vote=STATEMENT))
    (run,) = driver.step(StatementReached(DDL, at(2)), *votes)
    assert driver.step(DdlFailed(run.id, Failure(ErrorKind.ROW, "no such type"))) == []
    assert driver.announced is not None
    assert (driver.announced.refused, driver.announced.refusal) == (STATEMENT, "no such type")
    (again,) = driver.step(report(0, 1, epoch=2, vote=STATEMENT))
    assert (driver.announced.state, driver.announced.refusal) == (Running.told, "no such type")
    driver.step(DdlApplied(again.id, {table(name).name: table(name) for name in "ab"}))
    assert (driver.announced.state, driver.announced.refused, driver.announced.refusal) == (Sealing.told, None, "")
    assert driver.announced.refused_votes == {}


def test_the_words_of_the_states_stay() -> None:
    """They are in the control topic, and other versions read them."""
    words = {state.__name__: state.told for state in get_args(CoordinatorState)}
    assert words == {
        "Starting": "starting",
        "Flowing": "running",
        "Draining": "draining for a new plan",
        "AtBarrier": "draining before a statement",
        "Running": "running a statement",
        "Storing": "storing the plan",
        "Sealing": "passing a statement",
        "Unparking": "waiting for parked rows of a table that moves to another group",
        "Halted": "halted",
        "Ousted": "ousted",
    }


def test_a_held_publisher_that_dies_is_held_again_also_while_the_plan_is_stored() -> None:
    driver = Driver(partitions=3)
    failed = SourceFailed(Alarm("source", "gone", ""), retryable=True)
    driver.step(LogGrew(at(5)))
    assert driver.step(failed) == [StartPublisher(PLAN, at(0), hold=True)]
    (store,) = driver.step(LogGrew(at(5)), report(0, 5), report(1, 5))
    assert driver.step(failed) == [StartPublisher(PLAN, at(5), hold=True)]
    assert driver.step(PlanStored(2)) == []
    assert driver.step(LogGrew(at(5)), report(2, 5)) == [GoOn(store.plan)]


def test_a_log_that_ends_with_a_statement_is_crossed_again_by_whoever_comes_anew() -> None:
    driver = Driver(ddl_passed=("0-1", 7), reports=(report(0, 2), report(1, 1, vote=STATEMENT)))
    (passing,) = driver.step(StatementReached(DDL, at(2)))
    assert isinstance(passing, PassStatement)
    assert driver.step(DdlApplied(passing.id, taken().tables)) == []
    assert driver.announced is not None
    assert driver.announced.passed == STATEMENT
    assert driver.step(report(1, 2)) == [GoOn(PLAN)]


def test_what_was_announced_before_us_is_carried_on() -> None:
    before = FeedState(
        1, "w0", "running", 1, at(4), at(4), at(6), passed=STATEMENT, emptied=(table("a").name,), at_us=7
    )
    driver = Driver(epoch=2, feed=before, reports=(report(0, 3), report(1, 3)))
    now = driver.announced
    assert now is not None
    assert (now.resolved, now.checkpoint, now.published) == (at(4), at(4), at(6))
    assert (now.passed, now.emptied, now.epoch) == (STATEMENT, (table("a").name,), 2)


def test_a_publisher_that_cannot_go_on_halts_the_feed() -> None:
    driver = Driver()
    alarm = Alarm("source", "the log is purged", "copy the tables anew")
    assert driver.step(SourceFailed(alarm, retryable=False)) == [Halt(alarm)]
    assert driver.announced is not None
    assert (driver.announced.state, driver.announced.alarm) == ("halted", alarm)
    assert driver.step(StatementReached(DDL, at(2))) == []


def test_a_failed_publisher_is_started_anew() -> None:
    driver = Driver()
    assert driver.step(SourceFailed(Alarm("s", "gone", ""), retryable=True)) == [StartPublisher(PLAN, at(0))]


def test_positions_are_told_twice_a_second_news_at_once_and_a_sign_of_life_now_and_then() -> None:
    driver = Driver()
    driver.announced = None
    driver.step(report(0, 1), report(1, 1), seconds=0.1)
    assert driver.announced is None
    driver.step(Tick(), seconds=0.5)
    assert driver.announced is not None
    driver.announced = None
    driver.step(Tick(), seconds=1)
    assert driver.announced is None
    driver.step(Tick(), seconds=5)
    assert driver.announced is not None
    driver.announced = None
    driver.step(StatementReached(DDL, at(2)), seconds=0.01)
    assert driver.announced is not None
