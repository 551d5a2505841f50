"""The apply machine: one partition's ordered log → batches at the target, in parallel and exact.

order check → fence (receipts) → barrier (DDL) → lock table → lanes → merge → batch → watermark → checkpoint.

The machine composes the leaf machines and decides everything; the shell only carries effects out and events in.  Time
is `now`, microseconds of a monotonic clock.  See `engine.protocol.effects` for what must be durable before what.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

import msgspec

from tidelock.engine.apply import ddl_barrier as barriers
from tidelock.engine.apply.streaming import Streaming
from tidelock.engine.batch.scheduler import Batches
from tidelock.engine.copy.machine import Copying
from tidelock.engine.log import receipts
from tidelock.engine.log.bound_batch import Lined
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.log.log_buffer import Inbox
from tidelock.engine.log.relation_cache import Lineup
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import RESYNC, Alarm, Failure, Hindrance, Policy, Trouble, policy
from tidelock.engine.model.options import Options as Options  # callers know it by this module
from tidelock.engine.model.records import DdlKind, LogBatch, Position, TableName
from tidelock.engine.model.schema import SchemaMismatch, TargetTable
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import (
    ApplyDdl,
    ApplyEffect,
    CaughtUp,
    EffectId,
    Halt,
    RequestResend,
    SaveCheckpoint,
    StandDown,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    ChunkFailed,
    ChunksPlanned,
    ChunkStaged,
    CopyBegun,
    CopyFailed,
    DdlApplied,
    DdlFailed,
    GoalSet,
    LogArrived,
    ParkedWished,
    Paused,
    SourceFailed,
    TakenOver,
    Tick,
)

_RETRY_US = 200_000
_BEHIND_US = 50_000
_NEVER = -1


class State(enum.Enum):
    """WAITING for the takeover; FLOWING; HALTED by an alarm; OUSTED by a newer owner."""

    WAITING = "starting"
    FLOWING = "running"
    HALTED = "halted"
    OUSTED = "ousted"


class ApplyMachine:
    """`hurried`: the last step sent what could be sent and left the planning to the next one, which should follow as
    soon as that is on its way: a target does not wait while we plan."""

    batches: Batches
    copying: Copying
    streaming: Streaming
    watermark: Watermark
    _barrier: barriers.Barrier
    _chain: Chain
    _fence: receipts.Fence
    _lineup: Lineup
    _log_end: Position | None
    _tables: dict[TableName, TargetTable]
    _ddl_passed: tuple[str, int] | None
    _epoch: int
    _counter: int

    def __init__(self, options: Options) -> None:
        self.options = options
        self.state = State.WAITING
        self.alarm: Alarm | None = None
        self.paused = False
        self.hurried = False
        self._effects: list[ApplyEffect] = []
        self._now = 0
        self._inbox = Inbox(atomic=options.atomic)
        self._goal: Position | None = None
        self._saving: SaveCheckpoint | None = None
        self._saved_at = 0
        self._saved_here = False
        self._behind_until = 0  # told by an inbox with half a window, or no room for more
        self._save_after = 0  # a refused checkpoint or statement is tried again, but not at once
        self._apply_after = 0
        self._gap_at: Position | None = None  # where a resend was asked for because of a gap
        self._halting: Halt | None = None
        self._unsaved: Hindrance | None = None
        self._unapplied: Hindrance | None = None
        self._unread: Hindrance | None = None

    # ------------------------------------------------------------------ the interface

    def step(self, now: int, events: Sequence[ApplyEvent]) -> list[ApplyEffect]:
        """Take events in order; return what to do.  `now`: microseconds, never less than before."""
        self._now = max(now, self._now)
        if self.state is State.FLOWING:
            self.batches.now = self.copying.now = self.streaming.now = self._now
        for event in events:
            self._take(event)
        if self.state is State.FLOWING:
            self._advance()
        effects, self._effects = self._effects, []
        return effects

    @property
    def tables(self) -> Mapping[TableName, TargetTable]:
        """Of the target, as they are known to be."""
        return self._tables

    @property
    def hindrances(self) -> dict[Literal["source", "target"], Hindrance]:
        """What keeps us from going on at the `target` and the `source`, as far as it is tried again."""
        if self.state is not State.FLOWING:
            return {}
        trying = (self.batches.hindrance, self.copying.hindrance, self.streaming.hindrance)
        at_target = (*trying, self._unapplied, self._unsaved)
        found = [one for one in at_target if one is not None]
        ends: dict[Literal["source", "target"], Hindrance] = {}
        if found:
            ends["target"] = min(found, key=lambda one: one.since)
        if self._unread is not None:
            ends["source"] = self._unread
        return ends

    @property
    def full(self) -> bool:
        """The log should wait: enough rows are taken and not committed, or few large ones."""
        if self.state is not State.FLOWING:
            return True
        rows = self._inbox.rows + self.batches.rows + self.streaming.rows
        heavy = rows * self._inbox.row_bytes + self.batches.gathering.size > self.options.room_bytes
        return heavy or rows >= self.options.room_rows

    def snapshot(self) -> dict[str, int | str | list[int]]:
        """Figures for people: state, position, lanes, locks."""
        if self.state is State.WAITING:
            return {"state": self.state.value}
        return {
            "state": self.state.value,
            "position": str(self.watermark.position),
            "lanes": [lane.rows for lane in self.batches.lanes],
            **self.streaming.figures(),
            "locks": len(self.batches.locks),
            "lock_waits": self.batches.dispatcher.waits,
            "rows": self.batches.committed_rows,
            "batches": self.batches.committed_batches,
            "retries": self.batches.retries,
            "parked": len(self.batches.lot),
            "inbox": self._inbox.rows + self.batches.gathering.rows,
            "receipts": self.watermark.receipts,
            **self.copying.figures(),
        }

    # ------------------------------------------------------------------ events

    def _take(self, event: ApplyEvent) -> None:
        if self.state in (State.HALTED, State.OUSTED) or (
            self.state is State.WAITING and not isinstance(event, TakenOver)
        ):
            if isinstance(event, GoalSet):
                self._goal = event.position
            return
        match event:
            case TakenOver():
                self._take_over(event)
            case LogArrived():
                self._unread = None
                self._inbox.weigh(event.size, sum(len(batch.rows) for batch in event.batches))
                for batch in event.batches:
                    self._arrive(batch, self._chain.reader if event.reader is None else event.reader)
            case BatchCommitted() | CopyBegun():
                if self.copying.answers(event.id):
                    self._copied()
                elif self.streaming.answers(event.id):
                    self.streaming.committed()
                else:
                    self.batches.committed(event.id)
            case BatchReady():
                if self.streaming.answers(event.id):
                    self._stand_down(self.streaming.ready())
                else:
                    self.batches.ready(event.id)
            case BatchRolledBack():
                if self.streaming.answers(event.id):
                    self.streaming.rolled_back()
                else:
                    self.batches.rolled_back(event.id)
            case BatchFailed() | CopyFailed() if self.copying.answers(event.id):
                if (failure := self.copying.failed(event.failure)) is not None:
                    self._give_up(failure)
            case CopyFailed():
                pass
            case BatchFailed() if self.streaming.answers(event.id):
                if (failure := self.streaming.failed(event.failure)) is not None:
                    self._give_up(failure)
            case BatchFailed():
                if policy(event.failure) in (Policy.RETRY, Policy.SPLIT):
                    self.batches.failed(event.id, event.failure)
                else:
                    self._give_up(event.failure)
            case CheckpointSaved():
                self._saved(event)
            case CheckpointFailed():
                if self._saving is not None and event.id == self._saving.id:
                    self._saving = None
                    self._unsaved = Hindrance.after(self._unsaved, self._now, event.failure.message)
                    self._save_after = self._now + _RETRY_US
                    if policy(event.failure) is not Policy.RETRY:
                        self._give_up(event.failure)
            case DdlApplied():
                if self._barrier.answers(event.id):
                    self._unapplied = None
                    self._tables = dict(event.tables)
                    self._rebind()
                    self.copying.retable(self._tables)
                    self.batches.emptied(event.emptied)
                    self.watermark.open(self._barrier.applied(), 0)
            case DdlFailed():
                if self._barrier.answers(event.id):
                    self._ddl_failed(event.failure)
            case ChunksPlanned():
                self.copying.wish(event)
            case ChunkStaged():
                self.copying.staged(event)
            case ChunkFailed():
                self.copying.unread(event.id)
            case ParkedWished():
                self.batches.wish(event.rows)
            case GoalSet():
                self._goal = event.position
            case Paused():
                self.paused = event.paused
            case SourceFailed():
                if event.retryable:
                    self._unread = Hindrance.after(self._unread, self._now, event.alarm.message)
                    self._resend()
                else:
                    self._halt(Halt(event.alarm))
            case Tick():
                pass
            case _:
                assert_never(event)

    def _take_over(self, event: TakenOver) -> None:
        assert self.state is State.WAITING, "taken over twice"
        self.state = State.FLOWING
        self._epoch = event.epoch
        self._counter = 0
        self._tables = dict(event.tables)
        self._ddl_passed = event.ddl_passed
        self._barrier = barriers.Barrier()
        self._chain = Chain(event.checkpoint)
        self._fence = receipts.Fence(event.receipts)
        self._log_end = event.log_end
        self.watermark = Watermark(event.checkpoint)
        self.batches = Batches(self.options, self._tables, self.watermark, self._next_id, self._effects_append)
        self.copying = Copying(
            self.options, self._tables, self.batches, self.watermark, self._next_id, self._effects_append
        )
        self.streaming = Streaming(self.options, self.batches, self.watermark, self._next_id, self._effects_append)
        self._lineup = Lineup(self._tables, self.batches.bind)
        self.batches.now = self.copying.now = self.streaming.now = self._now
        self.batches.adopt(event.parked)
        self.copying.adopt(event.chunks)
        for receipt in self._fence.empty:
            self.watermark.receipt(-1, receipt)

    def _next_id(self) -> EffectId:
        self._counter += 1
        return EffectId(self._epoch, self._counter)

    def _effects_append(self, effect: ApplyEffect) -> None:
        self._effects.append(effect)

    def _arrive(self, batch: LogBatch, reader: int) -> None:
        match self._chain.judge(batch, reader):
            case Verdict.NEXT:
                self._inbox.put(batch)
                self.streaming.heard()
            case Verdict.DUPLICATE | Verdict.LATE:
                pass
            case Verdict.GAP if self._gap_at == self._chain.last:
                self._halt(Halt(_gap(self._chain.last, batch.prev)))
            case Verdict.GAP:
                self._gap_at = self._chain.last
                self._resend()

    def _resend(self) -> None:
        """Ask for everything behind what was taken; what is in flight goes on."""
        behind = self._chain.last
        self._effects.append(RequestResend(*self._chain.expect_resend(), self._fence.furthest(behind)))
        self.copying.interrupted()

    # ------------------------------------------------------------------ going on

    def _advance(self) -> None:
        self.batches.tick()
        self.hurried = not self.hurried and bool(self._inbox) and self.batches.sendable
        if not self.paused and not self.hurried:
            self._plan()
        if self.streaming:
            self._stream()
        if self.state is not State.FLOWING:
            return
        self.batches.send(wishes=self._barrier.ddl is None and not self.copying.writing)
        self.copying.send(saving=self._saving is not None)
        if self._barrier.draining and not self.batches.busy:
            self._drained()
        self._checkpoint()
        self._reach_goal()
        if self.copying.alarm is not None:
            self._halt(Halt(self.copying.alarm))

    def _copied(self) -> None:
        """A copy has begun or a chunk is merged, and the checkpoint saved with it."""
        watched = self.batches.copied
        effect = self.copying.committed()
        self._stored(effect.position, effect.drop)
        if self.batches.copied != watched:
            self._rebind()

    def _plan(self) -> None:
        """Plan windows while there is room; a DDL statement stops planning until all before it is committed."""
        if self.full or 2 * self._inbox.rows >= self.options.window_rows:
            self._behind_until = self._now + _BEHIND_US
        while self._barrier.ddl is None and not self.batches.wishing and not self.streaming:
            if self.batches.gathering.since(latest := self._latest):
                if self._crowded:
                    return
                self.batches.plan_gathered(latest)
                continue
            if self.copying and self.copying.plan():
                return
            if not self._inbox:
                return
            if self._crowded:
                return
            ddl = self._inbox.ddl
            if ddl is not None:
                batch = self._inbox.statement()
                self._lineup.learn(batch)
                self.copying.seen(batch.last, resent=batch.resent)
                if ddl.kind is not DdlKind.UNRELATED:
                    self.copying.statement(ddl.tables)
                if barriers.judge(ddl, self._ddl_passed) is barriers.Passage.PASS:
                    self.watermark.open(batch.last, 0)
                else:
                    self._barrier.raise_for(ddl, batch.last)
                continue
            if self.options.atomic and not self._inbox.whole:
                if self.full and not self.batches.busy:
                    self.streaming.begin()
                return
            if not self._plan_window():
                return

    def _stream(self) -> None:
        """A transaction that does not fit goes to the target as it comes.  It is under way, so a pause lets it end."""
        while self.streaming.hungry and self._inbox:
            window = self._inbox.piece(self.streaming.piece_rows(self._inbox.row_bytes))
            if window:
                if (lined := self._line_up(window)) is None or (changes := self._effective(window, lined)) is None:
                    return
                self.streaming.take(changes, window[-1].last, window[-1].end_us)
            if not self._inbox.open:
                self.streaming.end()
        self.streaming.go_on()
        self.hurried = self.hurried or (self.streaming.hungry and bool(self._inbox))

    @property
    def _crowded(self) -> bool:
        """Is so much under way that nothing more is planned?"""
        return self.batches.rows > self.options.room_rows // 2

    def _plan_window(self) -> bool:
        """Take batches of the log for one window and hand their changes over; False if the feed had to halt."""
        may_wait = self._may_wait
        window = self._inbox.window(self.options.batch_rows if self.options.atomic else self.options.window_rows)
        if (lined := self._line_up(window)) is None:
            return False
        end, end_us = window[-1].last, next((batch.end_us for batch in reversed(window) if batch.end_us), 0)
        if may_wait and self.batches.gathering.concerns([table for one in lined for table in one.bindings.values()]):
            self.copying.seen(end, resent=any(batch.resent for batch in window))
            self.batches.gather(lined, end, end_us)
            return True
        if (changes := self._effective(window, lined)) is None:
            return False
        self.batches.plan(changes, end, end_us)
        return True

    def _line_up(self, window: Sequence[LogBatch]) -> list[Lined] | None:
        """With the target's tables; None if the feed had to halt."""
        lined: list[Lined] = []
        for batch in window:
            try:
                self._lineup.learn(batch)
                lined.append(self._lineup.line_up(batch))
            except SchemaMismatch as error:
                self._halt(Halt(_mismatch(error, batch.prev)))
                return None
        return lined

    def _effective(self, window: Sequence[LogBatch], lined: Sequence[Lined]) -> list[Change] | None:
        """Returns what the batches change at the target: less what comes with a chunk and what receipts cover.  None if
        the feed had to halt."""
        end = window[-1].last
        changes = [change for one in lined for change in one.changes()]
        altered: dict[Change, Change | None] = {}
        if self.copying:
            try:
                altered = self.copying.sift(changes)
            except SchemaMismatch as error:
                self._halt(Halt(_mismatch(error, end)))
                return None
        self.copying.seen(end, resent=any(batch.resent for batch in window))
        if self._fence:
            changes, spent = self._fence.admit(changes)
            if self._log_end is not None and end.order >= self._log_end.order:
                spent += self._fence.close()
            for receipt in spent:
                self.watermark.receipt(self.watermark.upcoming(), receipt)
        if altered:
            changes = [part for change in changes if (part := altered.get(change, change)) is not None]
        return changes

    @property
    def _may_wait(self) -> bool:
        """May changes of the next window wait for more of their tables?  Not while they are looked at one by one."""
        if self.copying or self._fence:
            return False
        return self._behind and self.options.gather_rows > 0 and not self.options.atomic

    @property
    def _behind(self) -> bool:
        """More waits in the log than is taken from it, or did a moment ago."""
        return self._now < self._behind_until

    @property
    def _latest(self) -> int:
        """What waits since then, or longer, for more of its table is to be planned next: all of it, where the log is
        not behind any more, and before a statement or a copy; as long as too much waits, what has waited longest.
        What has waited long enough leaves with the next window of the log, if there is one."""
        if not self._behind or self.copying or self._inbox.ddl is not None or self.batches.gathering.crowded:
            return self._now
        return _NEVER if self._inbox else self._now - self.options.gather_us

    def _rebind(self) -> None:
        self._lineup.retable(self._tables)
        self.batches.retable(self._tables)

    # ------------------------------------------------------------------ barrier, checkpoint, goal, halt

    def _drained(self) -> None:
        ddl, end = self._barrier.ddl, self._barrier.end
        assert ddl is not None and end is not None
        if barriers.judge(ddl, self._ddl_passed) is barriers.Passage.APPLY:
            if self._now < self._apply_after:
                return
            id_ = self._next_id()
            self._barrier.apply(id_)
            self._effects.append(ApplyDdl(id_, ddl, end))
        elif self._halting is None:
            self._halting = Halt(barriers.alarm(ddl, str(self.watermark.position)), ddl)

    def _ddl_failed(self, failure: Failure) -> None:
        ddl = self._barrier.ddl
        assert ddl is not None
        match policy(failure):
            case Policy.STAND_DOWN:
                self._give_up(failure)
                return
            case Policy.RETRY:
                self._barrier.again()
                self._unapplied = Hindrance.after(self._unapplied, self._now, failure.message)
                self._apply_after = self._now + _RETRY_US
                return
            case _:
                pass
        halted = barriers.alarm(ddl, str(self.watermark.position))
        message = f"the target refused a schema change: {failure.message}"
        self._halt(Halt(msgspec.structs.replace(halted, message=message), ddl))

    def _checkpoint(self) -> None:
        """Save when there is something to say: soon while rows flow, at once at the end, rarely while idle.

        What an operator wished moves no position, yet a checkpoint must follow it: until then the target may forget it.
        """
        mark = self.watermark
        news = mark.position != mark.saved or self.batches.granted is not None
        if self._saving is None and news and self._now >= self._save_after:
            wait = self.options.checkpoint_us if mark.receipts else self.options.idle_checkpoint_us
            ending = self._halting is not None or (self._goal is not None and mark.position.order >= self._goal.order)
            ending = ending or self._barrier.sealing
            if ending or self._now - self._saved_at >= wait:
                self._saving = SaveCheckpoint(self._next_id(), mark.position, mark.droppable())
                self._effects.append(self._saving)
        if self._halting is not None and self._saving is None and mark.position == mark.saved:
            self._halt(self._halting)

    def _saved(self, event: CheckpointSaved) -> None:
        saving = self._saving
        if saving is None or event.id != saving.id:
            return
        self._saving = self._unsaved = None
        self._stored(saving.position, saving.drop)
        self._barrier.saved(saving.position)

    def _stored(self, position: Position, drop: tuple[EffectId, ...]) -> None:
        """A checkpoint is stored, and these receipts are gone with it."""
        self._saved_at = self._now
        self.watermark.saved = position
        self._saved_here = True
        self.watermark.dropped(drop)
        if self.batches.granted in drop:
            self.batches.granted = None

    def _reach_goal(self) -> None:
        """Only places of the log that is read now can be compared with the goal: the checkpoint that was found may be
        of another server, until this owner has stored one, or has read that there is nothing behind it."""
        if self._goal is None or self.state is not State.FLOWING or self.batches.wishing or self.batches.granted:
            return
        if self.copying:
            return
        mark = self.watermark
        comparable = self._saved_here or (mark.window >= 0 and mark.position == mark.saved)
        if comparable and mark.saved.order >= self._goal.order:
            self._goal = None
            self._effects.append(CaughtUp())

    def _stand_down(self, effect: StandDown | None) -> None:
        if effect is not None:
            self.state = State.OUSTED
            self._effects.append(effect)

    def _give_up(self, failure: Failure) -> None:
        if policy(failure) is Policy.STAND_DOWN:
            self.state = State.OUSTED
            self._effects.append(StandDown(failure.message, failure.trouble is Trouble.REWOUND))
            return
        self._halt(
            Halt(
                Alarm(
                    "target",
                    f"the target refused a batch: {failure.message}",
                    "Mend the target (`tidelock check FEED` says more), then `tidelock run FEED`; nothing is lost",
                    str(self.watermark.position),
                )
            )
        )

    def _halt(self, halt: Halt) -> None:
        self.state = State.HALTED
        self.alarm = halt.alarm
        self._effects.append(halt)


def _gap(last: Position, prev: Position) -> Alarm:
    return Alarm(
        "gap",
        f"the log has a gap: {last} was followed by a record after {prev}",
        f"A resend did not close it: `tidelock run FEED` tries once more; if it stops here again, {RESYNC}",
        str(last),
    )


def _mismatch(error: SchemaMismatch, at: Position) -> Alarm:
    hint = (
        "Mend the target's table or the feed (`tidelock check FEED` tells what differs), then `tidelock run FEED`; "
        "what the target's rows had lost comes back with `tidelock copy FEED --table DB.TABLE`"
    )
    return Alarm("schema", str(error), hint, str(at))
