"""The coordinator of a scaled-out feed: starts the publisher, computes the feed's position, holds the DDL barrier.

- Every group has drained before a statement and made it durable when it votes; the vote is its owner's, so a newer
  owner takes it back, and the statement's transaction looks at the epochs once more (`RunStatement`).
- A statement that has passed already (it ran under a coordinator before us, or the operator said done or skip: then the
  groups' checkpoints pass it) is not run: only the tables are read, for the plan.
- The publisher goes on only when every group's checkpoint is at or past the statement.  So while the log ends with a
  statement nothing behind it exists, and a coordinator that comes anew finds everything as it was.
- A plan changes only where the publisher waits and nothing that it holds for has been published.  Without a statement
  (the feed asks for more partitions, or its tables have changed) the publisher is held at its start until every
  checkpoint is at the log's end.
- A table never leaves a group that has parked rows: they would stay behind, and later changes of the same rows would
  pass them by.  The plan, and the publisher with it, wait until an operator has retried or skipped them.
- A statement that the target refuses is announced, and run again only when some group has voted anew.

The feed's position is the least of its groups', and never announced lower than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from tidelock.engine.apply.ddl_barrier import Passage, judge
from tidelock.engine.cluster.coordinator_states import (
    AtBarrier,
    Barrier,
    CoordinatorState,
    Draining,
    Flowing,
    Halted,
    Ousted,
    Publisher,
    Refusal,
    Running,
    Sealing,
    Starting,
    Storing,
    Unparking,
    barrier_of,
    refusal_of,
)
from tidelock.engine.cluster.group_progress import GroupProgress
from tidelock.engine.cluster.state_publisher import StatePublisher
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure, Policy, policy
from tidelock.engine.model.records import Position, TableName
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


class Coordinator:
    """`plan`: the one that holds, None until the first is stored."""

    _taken: FeedTaken
    _progress: GroupProgress

    def __init__(self) -> None:
        self.state: CoordinatorState = Starting()
        self.plan: TablePartitioning | None = None
        self._publisher = Publisher.GOING
        self._effects: list[CoordinatorEffect] = []
        self._now = 0
        self._counter = 0
        self._rows: dict[TableName, int] = {}  # published so far
        self._tables: dict[TableName, TargetTable] = {}
        self._published: Position | None = None
        self._passed: Statement | None = None
        self._emptied: tuple[TableName, ...] = ()
        self._state_publisher = StatePublisher(None)

    def step(self, now: int, events: Sequence[CoordinatorEvent]) -> list[CoordinatorEffect]:
        """Takes events in order; returns what to do.  `now`: microseconds, never less than before."""
        self._now = max(now, self._now)
        for event in events:
            if isinstance(self.state, Starting) and not isinstance(event, FeedTaken):
                continue
            if not self._over:
                self._take(event)
        if not self._over:
            self._advance()
        if not isinstance(self.state, Ousted):
            self._announce()
        effects, self._effects = self._effects, []
        return effects

    @property
    def reports(self) -> tuple[GroupReport, ...]:
        """The newest report of each group."""
        return self._progress.newest

    @property
    def _over(self) -> bool:
        return isinstance(self.state, Halted | Ousted)

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
                if isinstance(self.state, Running) and event.id == self.state.effect.id:
                    self._ran(self.state, event)
            case DdlFailed():
                if isinstance(self.state, Running) and event.id == self.state.effect.id:
                    self._failed(self.state, event.failure)
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
        assert isinstance(self.state, Starting), "taken over twice"
        self._taken = event
        self._tables = event.tables
        self._progress = GroupProgress(event.reports)
        if event.feed is not None:
            self._state_publisher = StatePublisher(event.feed)
            self._passed, self._emptied = event.feed.passed, event.feed.emptied
        if event.plan is None:
            groups = joined_tables(event.tables)
            partitions = event.partitions or min(PARTITIONS_MAX, max(1, len(groups)))
            self._store(partition_tables(event.tables, partitions, event.start), None)
            return
        self.plan = event.plan
        self.state = Flowing()
        self._start_publisher()

    def _start_publisher(self) -> None:
        """Starts it anew, also after a failure: then it says again whether the log ends with a statement."""
        if self.plan is None:
            return
        barrier = barrier_of(self.state)
        if isinstance(self.state, Draining | Unparking) and barrier is None:
            self.state = Flowing()
        held = barrier is None and (isinstance(self.state, Storing) or self._replan(self.plan) != self.plan)
        self._publisher = Publisher.HELD if held else Publisher.GOING
        self._effects.append(StartPublisher(self.plan, self._progress.checkpoint(self.plan), held))

    def _log_grew(self, event: LogGrew) -> None:
        self._published = event.end
        for name, rows in event.rows.items():
            self._rows[name] = self._rows.get(name, 0) + rows
        if self._publisher is Publisher.HELD:
            self._publisher = Publisher.WAITING
            if not isinstance(self.state, Storing):
                self.state = Draining()

    def _reach(self, event: StatementReached) -> None:
        """A publisher that was started anew says it again, whatever has become of the statement meanwhile."""
        self._published = event.end
        self._publisher = Publisher.WAITING
        statement = Statement(event.ddl.source, event.ddl.number, event.end)
        barrier = barrier_of(self.state)
        if barrier is None or barrier.statement != statement:
            self.state = AtBarrier(Barrier(event.ddl, statement))

    def _stored(self, version: int) -> None:
        state = self.state
        if not isinstance(state, Storing) or version != state.plan.version:
            return
        first = self.plan is None
        self.plan = state.plan
        if first:
            self.state = Flowing()
            self._start_publisher()
        elif state.barrier is not None:
            self._seal(state.barrier)
        else:
            self._go_on(self.plan)

    # ------------------------------------------------------------------ the barrier

    def _advance(self) -> None:
        plan = self.plan
        if plan is None:
            return
        if isinstance(self.state, AtBarrier) and self._now >= self.state.run_after:
            self._run(self.state, plan)
        if isinstance(self.state, Draining) and self._published and self._progress.sealed(plan, self._published):
            self._change_plan(plan, self._published, None)
        if isinstance(self.state, Unparking):
            barrier = self.state.barrier
            end = barrier.end if barrier is not None else self._published
            assert end is not None
            if self._progress.sealed(plan, end):
                self._change_plan(plan, end, barrier)
        if isinstance(self.state, Sealing) and self._publisher is Publisher.WAITING and self._all_past_it(plan):
            self._go_on(plan)

    def _run(self, state: AtBarrier, plan: TablePartitioning) -> None:
        """Runs the statement once all groups have voted for it, or passes it if that is to be."""
        ddl, statement = state.barrier.ddl, state.barrier.statement
        effect: RunStatement | PassStatement
        if self._has_passed(statement) or self._all_past_it(plan):
            effect = PassStatement(self._next_id(), ddl, statement.end)
        elif judge(ddl, None) is Passage.APPLY:
            votes = self._progress.votes(plan, statement)
            if votes is None or (state.refusal is not None and state.refusal.votes == votes):
                return
            effect = RunStatement(self._next_id(), ddl, statement.end, votes)
        else:
            return  # the groups halt by themselves
        self.state = Running(state.barrier, effect, state.refusal)
        self._effects.append(effect)

    def _all_past_it(self, plan: TablePartitioning) -> bool:
        barrier = barrier_of(self.state)
        return barrier is not None and self._progress.sealed(plan, barrier.end)

    def _has_passed(self, statement: Statement) -> bool:
        return statement == self._passed or (statement.source, statement.number) == self._taken.ddl_passed

    def _ran(self, state: Running, event: DdlApplied) -> None:
        assert self.plan is not None
        self._tables = event.tables
        self._change_plan(self.plan, state.barrier.end, replace(state.barrier, emptied=event.emptied))

    def _seal(self, barrier: Barrier) -> None:
        """The plan behind the statement is stored: the groups may pass it."""
        self.state = Sealing(barrier)
        self._passed, self._emptied = barrier.statement, barrier.emptied

    def _failed(self, state: Running, failure: Failure) -> None:
        match policy(failure):
            case Policy.RETRY:
                self.state = AtBarrier(state.barrier, state.refusal, self._now + _RETRY_US)
            case Policy.STEP_DOWN:
                self.state = Ousted()
                self._effects.append(StepDown(failure.message, failure.kind is ErrorKind.COMMITS_LOST))
            case _ if isinstance(state.effect, RunStatement):
                refusal = Refusal(state.barrier.statement, state.effect.votes, failure.message)
                self.state = AtBarrier(state.barrier, refusal)
            case _:
                self._halt(
                    Alarm(
                        "target",
                        f"the tables behind a statement could not be read: {failure.message}",
                        "Mend the target (`tidelock check FEED` says more), then `tidelock resume FEED`",
                        str(state.effect.end),
                    )
                )

    # ------------------------------------------------------------------ the plan

    def _replan(self, plan: TablePartitioning, position: Position | None = None) -> TablePartitioning:
        """The plan that the tables of now would have from `position` on; `plan` itself if nothing changes."""
        partitions = max(plan.partitions, self._taken.partitions)
        made = partition_tables(self._tables, partitions, position or plan.position, plan, self._rows)
        same = made.tables == plan.tables and made.partitions == plan.partitions
        return plan if same else made

    def _change_plan(self, plan: TablePartitioning, position: Position, barrier: Barrier | None) -> None:
        """Everything up to `position` is in every checkpoint, or at least drained: the plan may change behind it."""
        made = self._replan(plan, position)
        if any(self._progress.parked(group) for group in made.left):
            if barrier is not None:  # the groups pass the statement: none retries parked rows in front of one
                self._seal(barrier)
            self.state = Unparking(barrier)
        elif made != plan:
            self._store(made, barrier)
        elif barrier is not None:
            self._seal(barrier)
        else:
            self._go_on(plan)

    def _store(self, plan: TablePartitioning, barrier: Barrier | None) -> None:
        self.state = Storing(plan, barrier)
        self._effects.append(StorePlan(plan))

    def _go_on(self, plan: TablePartitioning) -> None:
        """Notes that nothing is waited for any more.  A publisher that is being started anew just goes on."""
        self.state = Flowing()
        if self._publisher is Publisher.WAITING:
            self._publisher = Publisher.GOING
            self._effects.append(GoOn(plan))

    # ------------------------------------------------------------------ what others see

    def _announce(self) -> None:
        if self.plan is None:
            return
        news = self._state_publisher.observe(self._now, self._feed_state(self.plan))
        if news is not None:
            self._effects.append(Announce(news))

    def _feed_state(self, plan: TablePartitioning) -> FeedState:
        refusal = refusal_of(self.state)
        return FeedState(
            epoch=self._taken.epoch,
            worker=self._taken.worker,
            state=self.state.told,
            plan=plan.version,
            resolved=self._progress.resolved(plan),
            checkpoint=self._progress.checkpoint(plan),
            published=self._published or plan.position,
            passed=self._passed,
            emptied=self._emptied,
            refused=refusal.statement if refusal is not None else None,
            refused_votes=refusal.votes if refusal is not None else {},
            refusal=refusal.message if refusal is not None else "",
            alarm=self.state.alarm if isinstance(self.state, Halted) else None,
        )

    def _halt(self, alarm: Alarm) -> None:
        self.state = Halted(alarm, refusal_of(self.state))
        self._effects.append(Halt(alarm))

    def _next_id(self) -> EffectId:
        self._counter += 1
        return EffectId(self._taken.epoch, self._counter)
