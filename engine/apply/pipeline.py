"""The pipeline of one owner: from the takeover of the feed until the owner halts or steps down.

intake → fence (receipts) → barrier (DDL) → lock table → lanes → merge → batch → watermark → checkpoint.

It composes the leaf machines: events go to the one that they answer, and a step ends with what each may do now.
`engine.protocol.effects` says what must be durable before what.
"""

from __future__ import annotations

from typing import Literal, assert_never

from msgspec.structs import replace

from tidelock.engine.apply.checkpointer import Checkpointer
from tidelock.engine.apply.ddl_barrier import Barrier, Passage, alarm, judge
from tidelock.engine.apply.log_intake import LogIntake
from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.apply.streaming import Streaming
from tidelock.engine.apply.window_planner import WindowPlanner
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.copy.machine import CopyMachine
from tidelock.engine.log.receipts import Fence
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Failure, Hindrance, Policy, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol import effects, events
from tidelock.engine.two_way.conflicts import Conflict
from tidelock.engine.two_way.decisions import DISPLACED


class Pipeline:
    """Carries one owner's events to its parts, and has them go on.

    `paused`: nothing new is planned; what is in flight finishes.
    `planning_deferred`: the last step sent what could be sent and left the planning to the next one, which should
    follow as soon as that is on its way: a target does not wait while we plan.
    `tables`: of the target, as they are known to be.
    """

    def __init__(self, options: Options, taken: events.TakenOver, goal: Position | None, context: StepContext) -> None:
        self.paused = False
        self._down = options.direction == "down"
        self.planning_deferred = False
        self.tables = tables = dict(taken.tables)
        self.watermark = watermark = Watermark(taken.checkpoint)
        next_id, emit = context.next_id, context.emit
        self.batches = BatchScheduler(options, tables, watermark, next_id, emit)
        self.copying = CopyMachine(options, tables, self.batches, watermark, next_id, emit)
        self.streaming = Streaming(options, self.batches, watermark, next_id, emit)
        self._context = context
        self._stamps = options.stamp is not None
        self._barrier = Barrier()
        self._ddl_passed = taken.ddl_passed
        fence = Fence(taken.receipts, blind=options.direction == "down")
        self.intake = LogIntake(taken.checkpoint, fence, self.streaming, self.copying, context, atomic=options.atomic)
        self.planner = WindowPlanner(
            options, taken, self.intake, self._barrier, fence, watermark, self.batches, self.copying, self.streaming,
            context,
        )  # fmt: skip
        self.checkpointer = Checkpointer(options, watermark, self.batches, self.copying, context, goal)
        self.tell_time()
        self.batches.parked_retry.adopt(taken.parked)
        self.copying.adopt(taken.chunks)
        for receipt in fence.empty:
            watermark.receipt(-1, receipt)

    def tell_time(self) -> None:
        """Let the parts know the time of this step."""
        self.batches.now = self.copying.now = self.streaming.now = self._context.now

    @property
    def hindrances(self) -> dict[Literal["source", "target"], Hindrance]:
        """Troubles at the `target` and the `source` that are tried again and again; the oldest of each end."""
        parts = (self.batches, self.copying, self.streaming, self._barrier, self.checkpointer)
        found = [part.hindrance for part in parts if part.hindrance is not None]
        ends: dict[Literal["source", "target"], Hindrance] = {}
        if found:
            ends["target"] = min(found, key=lambda one: one.since)
        if self.intake.hindrance is not None:
            ends["source"] = self.intake.hindrance
        return ends

    # ------------------------------------------------------------------ events

    def take(self, event: events.ApplyEvent) -> None:
        """Take one event; what follows from all of a step is done by `advance`."""
        match event:
            case events.TakenOver():
                raise AssertionError("taken over twice")
            case events.LogArrived():
                raise AssertionError("the machine gives the log to the intake")
            case events.BatchCommitted():
                self.batches.replaced_rows += event.replaced
                if event.replaced and self._down:
                    self.batches.conflicts[Conflict.INSERT_EXISTS.value, DISPLACED] += event.replaced
                self._committed(event.id, event.decided)
            case events.CopyBegun():
                self._committed(event.id, ())
            case events.BatchReady():
                self._ready(event.id)
            case events.BatchRolledBack():
                self._rolled_back(event.id)
            case events.BatchFailed() | events.CopyFailed():
                self._failed(event)
            case events.CheckpointSaved():
                if (position := self.checkpointer.saved(event)) is not None:
                    self._barrier.saved(position)
            case events.CheckpointFailed():
                self.checkpointer.failed(event)
            case events.DdlApplied():
                self._ddl_applied(event)
            case events.DdlFailed():
                if self._barrier.answers(event.id):
                    self._ddl_failed(event.failure)
            case events.ChunksPlanned():
                self.copying.request(event)
            case events.ChunkStaged():
                self.copying.staged(event)
            case events.RefusedFound():
                if self.copying.answers(event.id):
                    self.copying.found(event)
            case events.ChunkFailed():
                self.copying.unread(event.id)
            case events.ParkedWished():
                self.batches.parked_retry.request(event.rows)
            case events.GoalSet():
                self.checkpointer.goal = event.position
            case events.Paused():
                self.paused = event.paused
            case events.SourceFailed():
                self.intake.source_failed(event)
            case events.Tick():
                pass
            case _:
                assert_never(event)

    def _committed(self, id_: effects.EffectId, decided: tuple[events.Decided, ...]) -> None:
        if self.copying.answers(id_):
            self._copied()
        elif self.streaming.answers(id_):
            self.streaming.committed()
        else:
            self.batches.committed(id_, decided)

    def _copied(self) -> None:
        """Note that a copy has begun or a chunk is merged, and the checkpoint saved with it."""
        watched = self.batches.binding_locks.copied
        effect = self.copying.committed()
        self.checkpointer.stored(effect.position, effect.drop)
        if self.batches.binding_locks.copied != watched:
            self._rebind(self.tables)

    def _ready(self, id_: effects.EffectId) -> None:
        if not self.streaming.answers(id_):
            self.batches.ready(id_)
        elif (effect := self.streaming.ready()) is not None:
            self._context.step_down(effect)

    def _rolled_back(self, id_: effects.EffectId) -> None:
        if self.streaming.answers(id_):
            self.streaming.rolled_back()
        else:
            self.batches.rolled_back(id_)

    def _failed(self, event: events.BatchFailed | events.CopyFailed) -> None:
        """Let the part that sent it try again, or end this owner."""
        failure: Failure | None = None
        if self.copying.answers(event.id):
            failure = self.copying.failed(event.failure)
        elif isinstance(event, events.CopyFailed):
            pass
        elif self.streaming.answers(event.id):
            failure = self.streaming.failed(event.failure)
        elif policy(event.failure) in (Policy.RETRY, Policy.SPLIT):
            self.batches.failed(event.id, event.failure, event.suspects)
        else:
            failure = event.failure
        if failure is not None:
            self._context.give_up(failure, self.watermark.position)

    def _ddl_applied(self, event: events.DdlApplied) -> None:
        if not self._barrier.answers(event.id):
            return
        self._rebind(dict(event.tables))
        self.copying.retable(self.tables, event.copied)
        self.batches.parked_retry.emptied(event.emptied)
        self.watermark.open(self._barrier.applied(), 0)

    def _ddl_failed(self, failure: Failure) -> None:
        match policy(failure):
            case Policy.STEP_DOWN:
                self._context.give_up(failure, self.watermark.position)
            case Policy.RETRY:
                self._barrier.again(self._context.now, failure.message)
            case _:
                self._halt_at_statement(f"the target refused a schema change: {failure.message}")

    def _rebind(self, tables: dict[TableName, TargetTable]) -> None:
        """Have rows bound to these tables from now on, or to the same ones with other locks."""
        self.tables = tables
        self.planner.retable(tables)
        self.batches.retable(tables)

    # ------------------------------------------------------------------ going on

    def advance(self) -> None:
        """Do what may be done now: plan, send, run the statement at the barrier, save a checkpoint."""
        self.batches.tick()
        self.planning_deferred = not self.planning_deferred and bool(self.intake.buffer) and self.batches.sendable
        if not self.paused and not self.planning_deferred:
            self.planner.plan()
        if self.streaming:
            self.planning_deferred = self.planner.stream() or self.planning_deferred
        if self._context.end is not None:
            return
        self.batches.send(retries=self._barrier.ddl is None and not self.copying.writing)
        self.copying.send(saving=self.checkpointer.saving)
        drained = self._barrier.draining and not self.batches.busy
        if drained and (self.checkpointer.settled or not self._barrier.reshapes):
            self._drained()
        waited_for = self._barrier.sealing or self._barrier.halting or (drained and self._barrier.reshapes)
        self.checkpointer.save(hurry=waited_for)
        if self._barrier.halting and self.checkpointer.settled:
            self._halt_at_statement(None)
        if self._context.end is None:
            self.checkpointer.reach_goal()
        if self.copying.alarm is not None:
            self._context.halt(self.copying.alarm)

    def _drained(self) -> None:
        """Run the statement that all before it was committed for, or halt at it."""
        barrier = self._barrier
        assert barrier.ddl is not None
        if judge(barrier.ddl, self._ddl_passed, stamps=self._stamps) is not Passage.APPLY:
            barrier.halt()
        elif not barrier.resting(self._context.now):
            self._context.emit(barrier.apply(self._context.next_id()))

    def _halt_at_statement(self, refusal: str | None) -> None:
        """End this owner at the drained point; `refusal`: why the target did not take the statement."""
        ddl = self._barrier.ddl
        assert ddl is not None
        told = alarm(ddl, str(self.watermark.position), stamps=self._stamps, failed=self._failed_of(ddl))
        self._context.halt(told if refusal is None else replace(told, message=refusal), ddl)

    def _failed_of(self, ddl: Ddl) -> int:
        """Returns how many rows of a statement's tables are set aside; it may concern any where none is known."""
        rows = self.batches.parked_rows
        return sum(len(rows.of(table)) for table in ddl.targets) if ddl.targets else len(rows)
