"""The apply machine: one partition's ordered log → batches at the target, in parallel and exact.

Waiting ─TakenOver→ Flowing ─Halt→ Halted
                            └─StepDown→ Fenced

The machine decides everything; the shell only carries effects out and events in.  All that is decided between the
takeover and the end is the `Pipeline`'s, which is there from the takeover on.  Time is `now`, microseconds of a
monotonic clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from tidelock.engine.apply.log_intake import LogIntake
from tidelock.engine.apply.pipeline import Pipeline
from tidelock.engine.apply.status import ApplyStatus
from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.apply.streaming import Streaming
from tidelock.engine.batch.lock_waits import LockWaits
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.copy.machine import CopyMachine
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Alarm, Hindrance
from tidelock.engine.model.options import Options as Options  # callers know it by this module
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import ApplyEffect, Halt
from tidelock.engine.protocol.events import ApplyEvent, GoalSet, LogArrived, TakenOver


class State(enum.Enum):
    """Name of a state: WAITING for the takeover; FLOWING; HALTED by an alarm; FENCED by a newer owner, or over for
    another reason."""

    WAITING = "starting"
    FLOWING = "running"
    HALTED = "halted"
    FENCED = "ousted"


class Waiting(msgspec.Struct, frozen=True):
    """State before the takeover: nothing is known of the target.  `goal`: what the pipeline will be told."""

    goal: Position | None = None


class Flowing(msgspec.Struct, frozen=True):
    """State in which the feed is ours."""

    pipeline: Pipeline


class Halted(msgspec.Struct, frozen=True):
    """State after an alarm: nothing is taken any more, an operator sees to it."""

    pipeline: Pipeline
    alarm: Alarm


class Fenced(msgspec.Struct, frozen=True):
    """State of an owner that is over: nothing is taken any more."""

    pipeline: Pipeline


_State: TypeAlias = Waiting | Flowing | Halted | Fenced
_NAMES: Mapping[type, State] = {
    Waiting: State.WAITING,
    Flowing: State.FLOWING,
    Halted: State.HALTED,
    Fenced: State.FENCED,
}


class ApplyMachine:
    """Decides what becomes of one partition of the log.

    `step` is the only way in; all else here says how things are.  What a pipeline holds (`batches`, `watermark`, …) is
    there from the takeover on.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._state: _State = Waiting()
        self._context = StepContext()

    def step(self, now: int, events: Sequence[ApplyEvent]) -> list[ApplyEffect]:
        """Take events in order; return what to do.  `now`: microseconds, never less than before."""
        self._context.now = max(now, self._context.now)
        if isinstance(self._state, Flowing):
            self._state.pipeline.tell_time()
        for event in events:
            self._take(event)
        if isinstance(self._state, Flowing):
            self._state.pipeline.advance()
            self._follow(self._state.pipeline)
        effects = self._context.effects.copy()
        self._context.effects.clear()
        return effects

    def _take(self, event: ApplyEvent) -> None:
        match self._state:
            case Flowing(pipeline):
                if isinstance(event, LogArrived):
                    _keep(event, pipeline.intake)
                else:
                    pipeline.take(event)
                self._follow(pipeline)
            case Waiting(goal):
                if isinstance(event, TakenOver):
                    self._context.epoch = event.epoch
                    self._state = Flowing(Pipeline(self.options, event, goal, self._context))
                elif isinstance(event, GoalSet):
                    self._state = Waiting(event.position)
            case Halted() | Fenced():
                pass

    def _follow(self, pipeline: Pipeline) -> None:
        """Leave Flowing if the pipeline has ended."""
        end = self._context.end
        if end is not None:
            self._state = Halted(pipeline, end.alarm) if isinstance(end, Halt) else Fenced(pipeline)

    # ------------------------------------------------------------------ how things are

    @property
    def state(self) -> State:
        """Name of the state."""
        return _NAMES[type(self._state)]

    @property
    def now(self) -> int:
        """Time of the last step, microseconds."""
        return self._context.now

    @property
    def alarm(self) -> Alarm | None:
        """Reason why the feed halted; None if it did not."""
        return self._state.alarm if isinstance(self._state, Halted) else None

    @property
    def paused(self) -> bool:
        """Tells whether nothing new is planned, for the operator's wish."""
        return not isinstance(self._state, Waiting) and self._state.pipeline.paused

    @property
    def planning_deferred(self) -> bool:
        """Did the last step leave the planning to the next one, which should follow at once?"""
        return not isinstance(self._state, Waiting) and self._state.pipeline.planning_deferred

    @property
    def backpressured(self) -> bool:
        """Should the log wait?  It should where enough is taken and not committed, and where nothing is taken."""
        return not isinstance(self._state, Flowing) or self._state.pipeline.planner.backpressured

    @property
    def hindrances(self) -> dict[Literal["source", "target"], Hindrance]:
        """Troubles at the `target` and the `source` that are tried again and again."""
        return self._state.pipeline.hindrances if isinstance(self._state, Flowing) else {}

    @property
    def pipeline(self) -> Pipeline:
        """Parts that are there from the takeover on."""
        assert not isinstance(self._state, Waiting), "the feed is not taken over yet"
        return self._state.pipeline

    @property
    def tables(self) -> Mapping[TableName, TargetTable]:
        """Tables of the target, as they are known to be."""
        return self.pipeline.tables

    @property
    def batches(self) -> BatchScheduler:
        """Changes that are planned or sent and not known to be committed, with their lanes and locks."""
        return self.pipeline.batches

    @property
    def copying(self) -> CopyMachine:
        """Copies that are under way or asked for."""
        return self.pipeline.copying

    @property
    def streaming(self) -> Streaming:
        """Transaction that is applied as it comes, if one is."""
        return self.pipeline.streaming

    @property
    def watermark(self) -> Watermark:
        """Prefix of the log that is committed without a gap, and the checkpoint of it."""
        return self.pipeline.watermark

    @property
    def reached(self) -> tuple[int, int]:
        """Number of the last window that is committed with all before it (-1: none is), and the source's time at its
        end, microseconds since the epoch (0: not known)."""
        return (self.watermark.window, self.watermark.end_us) if self.state is not State.WAITING else (-1, 0)

    @property
    def under_way(self) -> bool:
        """Something was sent to the target and is not answered."""
        return self.state is not State.WAITING and self.batches.busy

    def status(self) -> ApplyStatus | None:
        """Returns what is to be shown of the machine at this moment; None before the takeover."""
        if self.state is State.WAITING:
            return None
        batches, mark = self.batches, self.watermark
        return ApplyStatus(
            position=mark.position,
            saved=mark.saved,
            end_us=mark.end_us,
            paused=self.paused,
            lanes=tuple(lane.rows for lane in batches.lanes),
            rows=batches.committed_rows,
            batches=batches.committed_batches,
            retries=batches.retries,
            locks=len(batches.locks),
            lock_waits=batches.dispatcher.waits,
            parked=len(batches.parked_rows),
            hindrances=self.hindrances,
            replaced=batches.replaced_rows,
            waiting=self._waiting,
            conflicts=dict(batches.conflicts),
        )

    def lock_waits(self) -> LockWaits | None:
        """Returns who waits for whom at this moment, as much as is shown of it; None before the takeover."""
        if self.state is State.WAITING:
            return None
        return self.batches.lock_waits(self.copying.lane)

    @property
    def _waiting(self) -> int:
        """Rows that were read and are not planned."""
        return self.pipeline.intake.buffer.rows + self.batches.coalescer.rows

    def snapshot(self) -> dict[str, int | str | list[int]]:
        """Returns figures for people: state, position, lanes, locks."""
        if isinstance(self._state, Waiting):
            return {"state": self.state.value}
        batches = self.batches
        return {
            "state": self.state.value,
            "position": str(self.watermark.position),
            "lanes": [lane.rows for lane in batches.lanes],
            **self.streaming.figures(),
            "locks": len(batches.locks),
            "lock_waits": batches.dispatcher.waits,
            "rows": batches.committed_rows,
            "batches": batches.committed_batches,
            "retries": batches.retries,
            "parked": len(batches.parked_rows),
            "inbox": self._waiting,
            "receipts": self.watermark.receipts,
            **self.copying.ledger.figures(),
        }


def _keep(event: LogArrived, intake: LogIntake) -> None:
    """Keep the batches that are next, in order: the intake tells which, by their positions."""
    intake.arrived(event.size, sum(len(batch.rows) for batch in event.batches))
    for batch in event.batches:
        if intake.admits(batch.prev, batch.last, event.reader, resent=batch.resent):
            intake.buffer.put(batch)
