"""The conductor of a scaled-out feed: it starts the publisher, computes the feed's position, holds the DDL barrier.

FLOWING ─statement→ GATHERING ─all groups vote→ RUNNING ─ran→ STORING(plan) ─stored→ SEALING ─all sealed→ FLOWING.

- Every group has drained before a statement and made it durable when it votes; the vote is its owner's, so a newer
  owner takes it back, and the statement's transaction looks at the epochs once more (`RunStatement`).
- A statement that has passed already (it ran under a conductor before us, or the operator said done or skip: then the
  groups' checkpoints pass it) is not run: only the tables are read, for the plan.
- The publisher goes on only when every group's checkpoint is at or past the statement.  So while the log ends with a
  statement nothing behind it exists, and a conductor that comes anew finds everything as it was.
- A plan changes only where the publisher waits and nothing that it holds for has been published.  Without a statement
  (the feed asks for more partitions, or its tables have changed) the publisher is held at its start until every
  checkpoint is at the log's end: DRAINING.
- A table never leaves a group that has parked rows: they would stay behind, and later changes of the same rows would
  pass them by.  The plan, and the publisher with it, wait until an operator has retried or skipped them: UNPARKING.
- A statement that the target refuses is announced, and run again only when some group has voted anew.

The feed's position is the least of its groups', and never announced lower than before.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import assert_never

from tidelock.engine.apply.ddl_barrier import Passage, judge
from tidelock.engine.cluster.group_progress import GroupProgress
from tidelock.engine.cluster.state_publisher import StatePublisher
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure, Policy, policy
from tidelock.engine.model.records import Ddl, Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.table_partitioning import TablePartitioning, joined_tables, partition_tables
from tidelock.engine.protocol.coordinator_messages import (
    Announce,
    CoordinatorEffect,
    CoordinatorEvent,
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
from tidelock.engine.protocol.effects import EffectId, Halt, StepDown
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, SourceFailed, Tick
from tidelock.engine.protocol.group_reports import FeedState, GroupReport, Statement

PARTITIONS_MAX = 8
_RETRY_US = 200_000


class State(enum.Enum):
    WAITING = "starting"
    FLOWING = "running"
    DRAINING = "draining for a new plan"
    GATHERING = "draining before a statement"
    RUNNING = "running a statement"
    STORING = "storing the plan"
    SEALING = "passing a statement"
    UNPARKING = "waiting for parked rows of a table that moves to another group"
    HALTED = "halted"
    FENCED = "ousted"


class Coordinator:
    """`plan`: the one that holds, None until the first is stored."""

    _taken: FeedTaken
    _progress: GroupProgress

    def __init__(self) -> None:
        self.state = State.WAITING
        self.plan: TablePartitioning | None = None
        self._effects: list[CoordinatorEffect] = []
        self._now = 0
        self._counter = 0
        self._storing: TablePartitioning | None = None
        self._waits = False  # the publisher waits to be let go on
        self._held = False  # it was started to say where the log ends, and to wait there
        self._rows: dict[TableName, int] = {}
        self._tables: dict[TableName, TargetTable] = {}
        self._published: Position | None = None
        self._ddl: Ddl | None = None  # the statement that the log ends with
        self._statement: Statement | None = None
        self._running: RunStatement | PassStatement | None = None
        self._run_after = 0
        self._passed: Statement | None = None
        self._emptied: tuple[TableName, ...] = ()
        self._ran_emptied: tuple[TableName, ...] = ()
        self._refused: tuple[Statement, dict[int, int], str] | None = None
        self._alarm: Alarm | None = None
        self._state_publisher = StatePublisher(None)

    def step(self, now: int, events: Sequence[CoordinatorEvent]) -> list[CoordinatorEffect]:
        """Take events in order; return what to do.  `now`: microseconds, never less than before."""
        self._now = max(now, self._now)
        for event in events:
            if self.state is State.WAITING and not isinstance(event, FeedTaken):
                continue
            if self.state not in (State.HALTED, State.FENCED):
                self._take(event)
        if self.state not in (State.HALTED, State.FENCED):
            self._advance()
        if self.state is not State.FENCED:
            self._announce()
        effects, self._effects = self._effects, []
        return effects

    # ------------------------------------------------------------------ events

    def _take(self, event: CoordinatorEvent) -> None:
        match event:
            case FeedTaken():
                self._take_over(event)
            case GroupReport():
                self._progress.observe(event)
            case LogGrew():
                self._log_grew(event)
            case StatementReached():
                self._reach(event)
            case PlanStored():
                self._stored(event.version)
            case DdlApplied():
                if self._running is not None and event.id == self._running.id:
                    self._ran(event)
            case DdlFailed():
                if self._running is not None and event.id == self._running.id:
                    self._failed(event.failure)
            case SourceFailed():
                if event.retryable:
                    self._start_publisher()
                else:
                    self._halt(event.alarm)
            case Tick():
                pass
            case _:
                assert_never(event)

    def _take_over(self, event: FeedTaken) -> None:
        assert self.state is State.WAITING, "taken over twice"
        self._taken = event
        self._tables = event.tables
        self._progress = GroupProgress(event.reports)
        if event.feed is not None:
            self._state_publisher = StatePublisher(event.feed)
            self._passed, self._emptied = event.feed.passed, event.feed.emptied
        if event.plan is None:
            partitions = event.partitions or min(PARTITIONS_MAX, max(1, len(joined_tables(event.tables))))
            self._store(partition_tables(event.tables, partitions, event.start))
            return
        self.plan = event.plan
        self.state = State.FLOWING
        self._start_publisher()

    def _start_publisher(self) -> None:
        """Anew, also after a failure: then it says again whether the log ends with a statement."""
        if self.plan is None:
            return
        self._waits = False
        if self.state is State.DRAINING or (self.state is State.UNPARKING and self._ddl is None):
            self.state = State.FLOWING
        self._held = self._ddl is None and (self._storing is not None or self._replan(self.plan) != self.plan)
        self._effects.append(StartPublisher(self.plan, self._progress.checkpoint(self.plan), self._held))

    def _log_grew(self, event: LogGrew) -> None:
        self._published = event.end
        for name, rows in event.rows.items():
            self._rows[name] = self._rows.get(name, 0) + rows
        if self._held:
            self._held, self._waits = False, True
            self.state = State.DRAINING

    def _reach(self, event: StatementReached) -> None:
        """A publisher that was started anew says it again, whatever has become of the statement meanwhile."""
        self._published = event.end
        self._held, self._waits = False, True
        statement = Statement(event.ddl.source, event.ddl.number, event.end)
        if statement != self._statement:
            self._ddl, self._statement = event.ddl, statement
            self._running = self._refused = None
            self.state = State.GATHERING

    def _stored(self, version: int) -> None:
        if self._storing is None or version != self._storing.version:
            return
        first = self.plan is None
        self.plan, self._storing = self._storing, None
        if first:
            self.state = State.FLOWING
            self._start_publisher()
        elif self._ddl is not None:
            self._seal()
        else:
            self._go_on()

    # ------------------------------------------------------------------ the barrier

    def _advance(self) -> None:
        if self.plan is None:
            return
        if self.state is State.GATHERING and self._now >= self._run_after:
            self._gather(self.plan)
        if self.state is State.DRAINING and self._published and self._progress.sealed(self.plan, self._published):
            self._change_plan(self._published)
        if self.state is State.UNPARKING and self._progress.sealed(self.plan, self._drained_at()):
            self._change_plan(self._drained_at())
        if self.state is State.SEALING and self._waits and self._all_past_it(self.plan):
            self._go_on()

    def _gather(self, plan: TablePartitioning) -> None:
        ddl, statement = self._ddl, self._statement
        assert ddl is not None and statement is not None
        if self._has_passed(statement) or self._all_past_it(plan):
            self._running = PassStatement(self._next_id(), ddl, statement.end)
        elif judge(ddl, None) is Passage.APPLY:
            votes = self._progress.votes(plan, statement)
            if votes is None or (self._refused is not None and self._refused[1] == votes):
                return
            self._running = RunStatement(self._next_id(), ddl, statement.end, votes)
        else:
            return  # the groups halt by themselves
        self.state = State.RUNNING
        self._effects.append(self._running)

    def _all_past_it(self, plan: TablePartitioning) -> bool:
        return self._statement is not None and self._progress.sealed(plan, self._statement.end)

    def _has_passed(self, statement: Statement) -> bool:
        return statement == self._passed or (statement.source, statement.number) == self._taken.ddl_passed

    def _ran(self, event: DdlApplied) -> None:
        assert self._statement is not None
        self._running = self._refused = None
        self._ran_emptied = event.emptied
        self._tables = event.tables
        self._change_plan(self._statement.end)

    def _seal(self) -> None:
        """The plan behind the statement is stored: the groups may pass it."""
        self.state = State.SEALING
        self._passed, self._emptied = self._statement, self._ran_emptied

    def _failed(self, failure: Failure) -> None:
        running, self._running = self._running, None
        assert running is not None and self._statement is not None
        self.state = State.GATHERING
        match policy(failure):
            case Policy.RETRY:
                self._run_after = self._now + _RETRY_US
            case Policy.STEP_DOWN:
                self.state = State.FENCED
                self._effects.append(StepDown(failure.message, failure.kind is ErrorKind.COMMITS_LOST))
            case _ if isinstance(running, RunStatement):
                self._refused = (self._statement, running.votes, failure.message)
            case _:
                self._halt(
                    Alarm(
                        "target",
                        f"the tables behind a statement could not be read: {failure.message}",
                        "Mend the target (`tidelock check FEED` says more), then `tidelock resume FEED`",
                        str(running.end),
                    )
                )

    # ------------------------------------------------------------------ the plan

    def _replan(self, plan: TablePartitioning, position: Position | None = None) -> TablePartitioning:
        """The plan that the tables of now would have from `position` on; `plan` itself if nothing changes."""
        partitions = max(plan.partitions, self._taken.partitions)
        made = partition_tables(self._tables, partitions, position or plan.position, plan, self._rows)
        same = made.tables == plan.tables and made.partitions == plan.partitions
        return plan if same else made

    def _drained_at(self) -> Position:
        end = self._statement.end if self._statement else self._published
        assert end is not None
        return end

    def _change_plan(self, position: Position) -> None:
        assert self.plan is not None
        made = self._replan(self.plan, position)
        if any(self._progress.parked(group) for group in _left(self.plan, made)):
            self._unpark()
        elif made != self.plan:
            self._store(made)
        elif self._ddl is not None:
            self._seal()
        else:
            self._go_on()

    def _unpark(self) -> None:
        """The groups pass the statement: none carries out a wish in front of one."""
        if self._statement is not None:
            self._seal()
        self.state = State.UNPARKING

    def _store(self, plan: TablePartitioning) -> None:
        self.state = State.STORING
        self._storing = plan
        self._effects.append(StorePlan(plan))

    def _go_on(self) -> None:
        """Nothing is waited for any more.  A publisher that is being started anew just goes on."""
        assert self.plan is not None
        self._ddl = self._statement = None
        self.state = State.FLOWING
        if self._waits:
            self._waits = False
            self._effects.append(GoOn(self.plan))

    # ------------------------------------------------------------------ what others see

    def _announce(self) -> None:
        if self.plan is None:
            return
        news = self._state_publisher.observe(self._now, self._feed_state(self.plan))
        if news is not None:
            self._effects.append(Announce(news))

    def _feed_state(self, plan: TablePartitioning) -> FeedState:
        refused, votes, refusal = self._refused or (None, {}, "")
        return FeedState(
            epoch=self._taken.epoch,
            worker=self._taken.worker,
            state=self.state.value,
            plan=plan.version,
            resolved=self._progress.resolved(plan),
            checkpoint=self._progress.checkpoint(plan),
            published=self._published or plan.position,
            passed=self._passed,
            emptied=self._emptied,
            refused=refused,
            refused_votes=votes,
            refusal=refusal,
            alarm=self._alarm,
        )

    def _halt(self, alarm: Alarm) -> None:
        self.state = State.HALTED
        self._alarm = alarm
        self._effects.append(Halt(alarm))

    def _next_id(self) -> EffectId:
        self._counter += 1
        return EffectId(self._taken.epoch, self._counter)


def _left(before: TablePartitioning, after: TablePartitioning) -> list[int]:
    """Groups that a table leaves."""
    homes = dict(after.tables)
    return sorted({group for name, group in before.tables if homes.get(name, group) != group})
