"""A small world around a coordinator: a target, a log with one statement in it, groups that change their owners.

Every action is one atomic step of somebody; `explore` takes them in every order.  What is out of order is a `Wrong`.

The log has four positions: 0, rows up to 1, the statement up to 2, rows up to 3.  An owner of a group may retry parked
rows when it begins (`busy`); it votes when it has drained and settled.  An older owner's last report may come late.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator

from tidelock.engine.cluster.coordinator import Coordinator
from tidelock.engine.cluster.group_progress import GroupProgress
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind
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
from tidelock.engine.protocol.effects import StepDown
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, SourceFailed, Tick
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement

BEFORE, AT, BEHIND = 1, 2, 3
STEP_US = 10_000_000


def at(number: int) -> Position:
    return Position("bin.000001", number)


def table(name: str) -> TargetTable:
    return TargetTable(TableName("shop", name), (), ())


DDL = Ddl("shop", "CREATE TABLE c (id int PRIMARY KEY)", "0-1", 7, DdlKind.CREATE_TABLE, (TableName("shop", "c"),))
STATEMENT = Statement("0-1", 7, at(AT))


class Wrong(AssertionError):
    pass


@dataclasses.dataclass
class Owner:
    """One process that owns a group.  `resolved`: what it knows as committed.  `told`: its last report."""

    epoch: int
    resolved: int
    busy: bool
    settled: bool = False
    told: tuple[int, int, bool] | None = None


@dataclasses.dataclass
class Group:
    """At the target: `epoch` of the owner's row, `committed`, what of it is `durable`, the stored `checkpoint`."""

    owner: Owner
    epoch: int = 1
    committed: int = 0
    durable: int = 0
    checkpoint: int = 0
    most: int = 0  # the highest position it ever resolved
    late: GroupReport | None = None  # an older owner's report that is still on its way


class World:
    def __init__(self, groups: int, changes: int = 1, crashes: int = 1, failures: int = 1) -> None:
        self.tables = {table(name).name: table(name) for name in "abcdefgh"[:groups]}
        self.groups = [Group(Owner(1, 0, busy=False)) for _ in range(groups)]
        self.changes, self.crashes, self.failures = changes, crashes, failures
        self.ran = 0
        self.passed = False  # noted in the coordinator's row
        self.epoch = 0
        self.log_end = 0
        self.publisher: str = ""  # "", "publishing", "waiting"
        self.topic_plan: TablePartitioning | None = None
        self.topic_feed: FeedState | None = None
        self.topic_groups: dict[int, GroupReport] = {}
        self.pen: list[StorePlan | Announce] = []
        self.statement: RunStatement | PassStatement | None = None
        self.machine = Coordinator()
        self.now = 0
        self.target_checks_votes = True
        self.take_over()

    # ------------------------------------------------------------------ the coordinator

    def take_over(self) -> None:
        self.epoch += 1
        self.machine, self.pen, self.statement = Coordinator(), [], None
        taken = FeedTaken(
            epoch=self.epoch,
            worker="w",
            start=at(0),
            tables=dict(self.tables),
            partitions=len(self.groups),
            ddl_passed=("0-1", 7) if self.passed else None,
            plan=self.topic_plan,
            feed=self.topic_feed,
            reports=tuple(self.topic_groups.values()),
        )
        self.step(taken)

    def step(self, *events: object) -> None:
        self.now += STEP_US
        for effect in self.machine.step(self.now, events):  # type: ignore[arg-type]
            match effect:
                case StorePlan():
                    self.pen.append(effect)
                case Announce():
                    if self.pen and isinstance(self.pen[-1], Announce):
                        self.pen.pop()
                    self.pen.append(effect)
                case StartPublisher():
                    self.publisher = "held" if effect.hold else "starting"
                case GoOn():
                    if self.publisher != "waiting":
                        raise Wrong("a publisher that does not wait is let go on")
                    if self.log_end == AT and any(group.checkpoint < AT for group in self.groups):
                        raise Wrong("the publisher goes on before every group has passed the statement")
                    self.publisher = "behind"
                case RunStatement() | PassStatement():
                    if self.statement is not None:
                        raise Wrong("two statements at once")
                    self.statement = effect
                case StepDown():
                    raise Wrong("stepped down without a newer owner")

    # ------------------------------------------------------------------ what may happen next

    def actions(self) -> Iterator[tuple[str, Callable[[World], None]]]:
        """Yields first those that bring the world on; then faults, whose names begin with `!`."""
        if self.pen:
            yield "write", World.write
        if self.statement is not None:
            yield "statement", World.run
        begins = self.publisher in ("starting", "held")
        if begins or (self.publisher in ("publishing", "behind") and self.log_end < BEHIND):
            yield "publish", World.publish
        if self._tick_matters():
            yield "tick", lambda world: world.step(Tick())
        for number, group in enumerate(self.groups):
            yield from self._group_actions(number, group)
        if self.crashes:
            yield "!coordinator crashes", World.crash
        if self.failures and self.statement is not None:
            yield "!answer lost", World.lose_answer
        if self.failures and self.publisher:
            yield "!publisher fails", World.fail_publisher

    def _group_actions(self, number: int, group: Group) -> Iterator[tuple[str, Callable[[World], None]]]:
        def act(name: str) -> tuple[str, Callable[[World], None]]:
            return f"{name} {number}", lambda world: getattr(world, name)(number)

        owner = group.owner
        if owner.busy:
            yield act("drain")
        if owner.resolved < BEFORE <= self.log_end or (AT <= owner.resolved < BEHIND <= self.log_end):
            yield act("apply")
        if owner.resolved == BEFORE and not owner.busy and not owner.settled and self.log_end >= AT:
            yield act("settle")
        if owner.settled and owner.resolved == BEFORE and self.topic_feed and self.topic_feed.passed == STATEMENT:
            yield act("pass_it")
        if self._report(number) != owner.told:
            yield act("report")
        if group.late is not None:
            yield act("late")
        if self.changes:
            yield "!" + act("change_owner")[0], act("change_owner")[1]

    def _tick_matters(self) -> bool:
        machine = _copied(self.machine)
        return any(not isinstance(e, Announce) for e in machine.step(self.now + STEP_US, [Tick()]))

    # ------------------------------------------------------------------ actions

    def write(self) -> None:
        effect = self.pen.pop(0)
        if isinstance(effect, StorePlan):
            if self.topic_plan is not None and effect.plan.position != at(self.log_end):
                raise Wrong("the plan changes where the log does not end")
            self.topic_plan = effect.plan
            self.step(PlanStored(effect.plan.version))
            return
        feed, before = effect.feed, self.topic_feed
        if before is not None and (feed.checkpoint.offset, feed.resolved.offset) < (
            before.checkpoint.offset,
            before.resolved.offset,
        ):
            raise Wrong("the feed's position goes back")
        if before is not None and feed.resolved.offset < before.resolved.offset:
            raise Wrong("the feed's position goes back")
        if feed.checkpoint.offset > min(group.checkpoint for group in self.groups):
            raise Wrong("the feed's checkpoint is past a group's")
        if feed.resolved.offset > min(group.most for group in self.groups):
            raise Wrong("the feed's resolved position is past a group's")
        if self.topic_plan is None or feed.plan != self.topic_plan.version:
            raise Wrong("a plan is announced that is not stored")
        self.topic_feed = feed

    def run(self, answered: bool = True) -> None:
        effect, self.statement = self.statement, None
        assert effect is not None
        if isinstance(effect, RunStatement) and not self.passed:
            held = all(self.groups[group].epoch == epoch for group, epoch in effect.votes.items())
            if self.target_checks_votes and not held:
                self.step(DdlFailed(effect.id, Failure(ErrorKind.TRANSIENT, "a vote no longer holds")))
                return
            self._run_it()
        elif isinstance(effect, PassStatement):
            if not self.ran:
                raise Wrong("a statement that has not run counts as passed")
            self.passed = True
        if answered:
            self.step(DdlApplied(effect.id, dict(self.tables)))
        else:
            self.step(DdlFailed(effect.id, Failure(ErrorKind.IN_DOUBT, "the answer was lost")))

    def _run_it(self) -> None:
        if self.ran:
            raise Wrong("the statement runs twice")
        for group in self.groups:
            if group.durable < BEFORE:
                raise Wrong("the statement runs before what is before it is durable")
            if group.owner.busy:
                raise Wrong("the statement runs while a group has rows under way")
        self.ran += 1
        self.passed = True
        self.tables[table("c").name] = table("c")

    def lose_answer(self) -> None:
        self.failures -= 1
        self.run(answered=False)

    def publish(self) -> None:
        """A publisher says first where the log ends; at a statement it waits."""
        if self.publisher in ("starting", "held"):
            held, self.publisher = self.publisher == "held", "publishing"
            if self.log_end == AT:
                self.publisher = "waiting"
                self.step(StatementReached(DDL, at(AT)))
            else:
                self.publisher = "waiting" if held else "publishing"
                self.step(LogGrew(at(self.log_end)))
            return
        self.log_end += 1
        if self.log_end == AT:
            self.publisher = "waiting"
            self.step(StatementReached(DDL, at(AT)))
        else:
            self.step(LogGrew(at(self.log_end)))

    def fail_publisher(self) -> None:
        self.failures -= 1
        self.publisher = ""
        self.step(SourceFailed(None, retryable=True))  # type: ignore[arg-type]

    def crash(self) -> None:
        self.crashes -= 1
        if self.publisher in ("waiting", "held", "starting"):
            self.publisher = ""
        self.take_over()

    def drain(self, number: int) -> None:
        self.groups[number].owner.busy = False

    def apply(self, number: int) -> None:
        """Rows behind the statement are checkpointed at once, to keep the world small."""
        group = self.groups[number]
        if group.owner.resolved >= AT:
            if any(other.checkpoint < AT for other in self.groups):
                raise Wrong("rows behind the statement are applied before every group has passed it")
            group.owner.resolved = group.committed = group.durable = group.checkpoint = BEHIND
        else:
            group.owner.resolved = group.committed = BEFORE
        group.most = max(group.most, group.owner.resolved)

    def settle(self, number: int) -> None:
        group = self.groups[number]
        group.durable = group.committed
        group.owner.settled = True

    def pass_it(self, number: int) -> None:
        if not self.ran:
            raise Wrong("a group passes the statement before it ran")
        group = self.groups[number]
        group.owner.settled = False
        group.owner.resolved = group.committed = group.durable = group.checkpoint = AT
        group.most = max(group.most, AT)

    def _report(self, number: int) -> tuple[int, int, bool]:
        group = self.groups[number]
        return (group.owner.resolved, group.checkpoint, group.owner.settled)

    def _said(self, number: int) -> GroupReport:
        group = self.groups[number]
        vote = STATEMENT if group.owner.settled else None
        resolved, checkpoint = at(group.owner.resolved), at(group.checkpoint)
        return GroupReport(number, group.owner.epoch, "w", "running", resolved, checkpoint, vote)

    def report(self, number: int) -> None:
        self.groups[number].owner.told = self._report(number)
        self._deliver(self._said(number))

    def _deliver(self, report: GroupReport) -> None:
        self.topic_groups[report.group] = report
        self.step(report)

    def late(self, number: int) -> None:
        """It takes the newer owner's word out of the topic; that one gives a sign of life again."""
        group = self.groups[number]
        report, group.late = group.late, None
        assert report is not None
        self._deliver(report)
        group.owner.told = None

    def change_owner(self, number: int) -> None:
        self.changes -= 1
        group = self.groups[number]
        group.late = self._said(number)
        group.epoch += 1
        group.owner = Owner(group.epoch, group.checkpoint, busy=True)

    # ------------------------------------------------------------------ how it ends

    def copy(self) -> World:
        """Records are frozen; only what changes in place is copied."""
        world = copy.copy(self)
        world.machine = _copied(self.machine)
        world.groups = [dataclasses.replace(group, owner=dataclasses.replace(group.owner)) for group in self.groups]
        world.topic_groups, world.tables, world.pen = dict(self.topic_groups), dict(self.tables), list(self.pen)
        return world

    @property
    def done(self) -> bool:
        return self.ran == 1 and self.log_end == BEHIND and all(g.checkpoint == BEHIND for g in self.groups)

    @property
    def key(self) -> str:
        """Without what only grows: every step is far later than the one before."""
        growing = ("_now", "_state_publisher", "_counter", "_effects", "_taken")
        machine = {k: v for k, v in vars(self.machine).items() if k not in growing}
        machine["_taken"] = self.machine._taken.ddl_passed
        machine["_progress"] = vars(machine["_progress"])
        machine["_announced"] = self.machine._state_publisher.told
        mine = {k: v for k, v in vars(self).items() if k not in ("machine", "now")}
        return re.sub(r"EffectId\(.*?\)|run_after=\d+", "", repr((sorted(machine.items()), sorted(mine.items()))))


def _copied(machine: Coordinator) -> Coordinator:
    twin = copy.copy(machine)
    twin._effects, twin._rows = [], dict(machine._rows)
    twin._state_publisher = copy.copy(machine._state_publisher)
    twin._progress = GroupProgress(machine._progress._newest.values())
    return twin


def explore(world: World, most: int) -> int:
    """Every order of actions; how many states there are.  Raises Wrong, with the way there."""
    seen = {world.key}
    open_: list[tuple[World, tuple[str, ...]]] = [(world, ())]
    while open_:
        here, way = open_.pop()
        moved = False
        for name, act in list(here.actions()):
            there = here.copy()
            try:
                act(there)
            except Wrong as wrong:
                raise Wrong(f"{wrong}: {', '.join((*way, name))}") from None
            moved = moved or not name.startswith("!")
            if there.key not in seen:
                seen.add(there.key)
                assert len(seen) <= most, f"more than {most} states"
                open_.append((there, (*way, name)))
        if not moved and not here.done:
            raise Wrong(f"nothing goes on: {', '.join(way)}")
    return len(seen)
