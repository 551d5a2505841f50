"""Copying beside the stream: the chunk ledger composed with lanes, locks and watermark (design 8).

Three things are asked for, each in its own turn:

- *A copy begins* (`BeginCopy`) as a statement does: nothing more is planned, what is under way commits, then it runs
  alone.  So whatever the tables held is gone, and the log has been seen up to one place by all of them.
- *A chunk is read* (`ReadChunk`) beside everything else; the ledger remembers what touches it from then on.  Its `high`
  is compared with places of the log, so both must be of one server: when the log goes on with another reader, whose
  server may be another, open chunks begin anew, and none is asked for before that reader has been heard.
- *A chunk is merged* (`MergeChunk`) at the end M of a window at or past its `high`.  In the lock table it is a segment
  of a lane of its own: it follows everything planned before, in all tables, and every later change of its table
  follows it; changes of other tables go on beside it.  With `consistency: transaction`, where open batches wait for
  their turn to commit and no server could see that one in turn waits for the merge, planning waits instead.

A *repair* (a split by KEYS) is a copy of some rows over those that are there.  One that cannot be made is given up:
the operator is told, and a repair of no rows begins in its place, so that no restart tries it again.  Its rows are as
the stream left them, as if it had never been asked for.

Staged rows that only the merge shows to be refused are asked for (`FindRefused`) and left out (`ChunkMerge`).

The first and the last save a checkpoint, the place up to which everything is committed then; none is sent while
another checkpoint is on its way, which might be stored after it and go back.  A feed that copies nothing has no ledger,
and pays one look at that for a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.copy.chunk import Chunk
from tidelock.engine.copy.chunk_ledger import ChunkLedger
from tidelock.engine.copy.chunk_merge import ChunkMerge
from tidelock.engine.copy.copy_alarms import chunk_refused, copy_refused, repair_refused, split_lost
from tidelock.engine.copy.copy_validation import fault
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm, Failure, Hindrance, Policy, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import SchemaMismatch, TargetTable
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import (
    ApplyEffect,
    BeginCopy,
    DropStaged,
    EffectId,
    FindRefused,
    MergeChunk,
    ReadChunk,
    RefuseCopy,
)
from tidelock.engine.protocol.events import ChunksPlanned, ChunkStaged, Copied, RefusedFound

_RETRY_US = 200_000
_READ_AGAIN_US = 1_000_000


class CopyMachine:
    """Plans and sends what copies need, and tells what of the log takes effect meanwhile.

    `position`: up to where the `ledger` has seen the log.  `lane`: that of merges.  `alarm`: why the feed must halt,
    once it must.  `hindrance`: why what was sent is sent again.  `now`: of this step, in microseconds; it is set before
    the step's events are taken.
    """

    def __init__(
        self,
        options: Options,
        tables: Mapping[TableName, TargetTable],
        batches: BatchScheduler,
        watermark: Watermark,
        next_id: Callable[[], EffectId],
        emit: Callable[[ApplyEffect], None],
    ) -> None:
        self.position = watermark.position
        self.alarm: Alarm | None = None
        self._options = options
        self._tables = tables
        self._batches = batches
        self._watermark = watermark
        self._next_id = next_id
        self._emit = emit
        self.ledger = ChunkLedger((), tables)
        self._requested: tuple[ChunkSplit, ...] = ()
        self.lane = Lane(options.lanes)
        self._merge: ChunkMerge | None = None  # that is planned
        # planned; the same until it is committed, or found what is refused
        self._effect: BeginCopy | MergeChunk | FindRefused | None = None
        self._at_target = False
        self._sent = False  # once: from then on the effect stays as it is
        self._not_before = 0  # for what was refused
        self.hindrance: Hindrance | None = None
        self._read_after = 0
        self._heard = False  # the present reader of the log
        self.now = 0

    # ------------------------------------------------------------------ what the machine asks

    def __bool__(self) -> bool:
        """True while a copy is under way or requested."""
        return bool(self.ledger) or bool(self._requested)

    @property
    def writing(self) -> bool:
        """True while something is at the target that wants it for itself."""
        return self._at_target

    def adopt(self, copied: Sequence[Copied]) -> None:
        """Takes on the copies that the takeover found: chunks that are not merged are to be read anew."""
        self.ledger.add(copied)
        self._watch()

    def retable(self, tables: Mapping[TableName, TargetTable], copied: Sequence[Copied] | None = None) -> None:
        """The target's tables are these from now on.  `copied`: the copies, as a statement has left them."""
        self._tables = tables
        self.ledger.retable(tables)
        if copied is not None:
            self.ledger.follow(copied)
            self._watch()
        if self._requested and (why := fault(self._requested, self.ledger.splits, tables)):
            self._refuse(self._requested, why)
            self._requested = ()

    # ------------------------------------------------------------------ the log

    def sift(self, changes: Sequence[Change], end: Position) -> dict[Change, Change | None]:
        """Sees the changes of a window, which ends there.  Returns those that do not take effect as they are, with what
        remains."""
        altered = self.ledger.take(changes, self.position, end)
        self.ledger.evict(self._options.copy_touched)
        if self.ledger.abandoned:
            self._read_after = self.now + _READ_AGAIN_US
        return altered

    def seen(self, position: Position, *, resent: bool) -> None:
        """Notes that the ledger has seen the log up to here; `resent`: from the present reader's first batch on."""
        self.position = position
        self._heard = self._heard or resent

    def interrupted(self) -> None:
        """Gives up what is being read: the log goes on with another reader."""
        self._heard = False
        self.ledger.statement(())

    def statement(self, tables: Sequence[TableName]) -> None:
        """Gives up what is being read of the target tables that a statement concerns; of all if none is named."""
        self.ledger.statement(tables)

    # ------------------------------------------------------------------ planning

    def plan(self) -> bool:
        """Plans what is due, between two windows.  True: nothing else may be planned now."""
        if self._requested:
            if self._effect is None:
                self._effect = BeginCopy(self._next_id(), self._requested, self.position)
            return True
        if not self.ledger:
            return False
        if self._heard and (split := self.ledger.unsplittable) is not None:  # what is requested has come by then
            self.alarm = split_lost(split, self.position)
        elif self._effect is None and (chunk := self.ledger.due(self.position)) is not None:
            self._plan_merge(chunk)
        if self.alarm is not None:
            return True
        self._ask_for_chunks()
        return self._options.atomic and self._effect is not None

    def _plan_merge(self, chunk: Chunk) -> None:
        if (difference := chunk.changes.since(chunk.view)) is None:
            self.ledger.restart(chunk)
            self._read_after = self.now + _READ_AGAIN_US
            return
        try:
            self._merge = ChunkMerge(chunk, difference, self._tables[chunk.split.table], self._next_id(), self.position)
        except SchemaMismatch as error:
            self.alarm = chunk_refused(chunk.split, chunk.number, str(error), self.position)
            return
        self._effect = self._merge.effect
        self.ledger.merged(chunk)
        self._batches.plan_alone(self.lane, chunk.split.table, self.position)

    def _ask_for_chunks(self) -> None:
        """Asks for chunks, only where no transaction is cut: what is visible at the source are whole ones."""
        if self.position.rows or self.now < self._read_after or not self._heard:
            return
        while (chunk := self.ledger.next(self._options.copy_reads)) is not None:
            id_ = self._next_id()
            self.ledger.read(chunk, id_)
            self._emit(ReadChunk(id_, chunk.split, chunk.number, self.position))

    # ------------------------------------------------------------------ sending, answers

    def send(self, *, saving: bool) -> None:
        """Sends what is planned once all before it is committed; `saving`: a checkpoint is on its way."""
        abandoned, self.ledger.abandoned = self.ledger.abandoned, []
        for attempt in abandoned:
            self._emit(DropStaged(attempt))
        effect = self._effect
        if effect is None or self._at_target or saving or self.now < self._not_before:
            return
        if isinstance(effect, BeginCopy):
            if self._batches.busy:
                return
        elif self.lane.ready:
            self.lane.cut(1)
        elif not self.lane.running:
            return
        position = effect.merge.position if isinstance(effect, FindRefused) else effect.position
        assert self._watermark.position == position, "everything before it is committed"
        if not self._sent and not isinstance(effect, FindRefused):
            effect = self._finished(effect)
            if effect is None:
                return
            self._effect = effect
        self._sent = self._at_target = True
        self._emit(effect)

    def _finished(self, effect: BeginCopy | MergeChunk) -> BeginCopy | MergeChunk | None:
        """The effect with what is known only now that all before it is committed; None: it is given up."""
        drop = self._watermark.droppable()
        if isinstance(effect, BeginCopy):
            return replace(effect, drop=drop)
        assert self._merge is not None
        if why := self._merge.overtake(self._batches.parked_rows):
            self._give_up(effect, why)
            return None
        return replace(self._merge.effect, drop=drop)

    def answers(self, id_: EffectId) -> bool:
        """True if this is the id of what is at the target."""
        return self._at_target and self._effect is not None and self._effect.id == id_

    def committed(self) -> BeginCopy | MergeChunk:
        """Returns what was sent last, which has taken effect: a checkpoint is saved with it."""
        effect, self._effect, self._at_target, self._sent = self._effect, None, False, False
        self.hindrance = None
        assert effect is not None and not isinstance(effect, FindRefused)
        if isinstance(effect, BeginCopy):
            self._requested = ()
            self.ledger.add(Copied(split) for split in effect.splits)
            self._batches.parked_retry.emptied([split.table for split in effect.splits if not split.keeps_target_rows])
        else:
            assert self._merge is not None
            self._batches.parked_retry.release(effect.unparked)
            self._batches.parked_retry.request(self._merge.done(self._batches.parked_rows))
            self._batches.parked_retry.wait_for_parents(self._merge.orphans())
            self._batches.finish_alone(self.lane, effect.id)
            self._end_merge(effect)
        self._watch()
        return effect

    def failed(self, failure: Failure) -> Failure | None:
        """Sends the effect again as it was, so that its receipt can answer, or gives the copy up; returns what the
        machine must give up for."""
        effect, self._at_target = self._effect, False
        self._not_before = self.now + _RETRY_US
        match policy(failure):
            case Policy.RETRY:
                self.hindrance = Hindrance.after(self.hindrance, self.now, failure.message)
                return None
            case Policy.STEP_DOWN:
                return failure
            case _ if isinstance(effect, BeginCopy):
                self._refuse(effect.splits, failure.message)
                self._requested, self._effect, self._sent = (), None, False
                return None
            case Policy.SPLIT if isinstance(effect, FindRefused):
                self._refused_for_good(effect.merge, failure.message)
                return None
            case Policy.SPLIT:
                assert isinstance(effect, MergeChunk)
                self._merge_refused(effect, failure.message)
                return None
            case _:
                return failure

    def _merge_refused(self, effect: MergeChunk, why: str) -> None:
        assert self._merge is not None
        self._sent = False
        if self._merge.set_aside(self._next_id(), why):
            self._effect = self._merge.effect
        elif self._merge.shape is not None:
            self._effect = FindRefused(self._next_id(), effect, self._merge.shape)
        else:
            self._refused_for_good(effect, why)

    def found(self, event: RefusedFound) -> None:
        """Takes the report which staged rows are refused: the merge is sent without them."""
        assert self._merge is not None
        self._at_target, self._sent, self.hindrance = False, False, None
        if self._merge.leave_out(self._next_id(), event.rows):
            self._effect = self._merge.effect
        else:
            self._refused_for_good(self._merge.effect, "some rows, and now none")

    def _refused_for_good(self, effect: MergeChunk, why: str) -> None:
        assert self._merge is not None
        self._sent = False
        if self._merge.repairs:
            self._give_up(effect, why)
        else:
            self.alarm = chunk_refused(effect.split, effect.chunk, why, self.position)

    def _give_up(self, effect: MergeChunk, why: str) -> None:
        """Gives a repair up: its rows stay as they are."""
        split = effect.split
        self._emit(RefuseCopy(repair_refused(split, why, effect.position), (split.table,)))
        if all(other.table != split.table for other in self._requested):
            self._requested += (replace(split, keys=()),)
        self._effect = None
        self._batches.finish_alone(self.lane, None)
        self._end_merge(effect)

    def _end_merge(self, effect: MergeChunk) -> None:
        self._merge = None
        self._emit(DropStaged(effect.staged))
        self.ledger.drop_finished()

    # ------------------------------------------------------------------ the copier

    def request(self, event: ChunksPlanned) -> None:
        """Takes a request to copy or to repair tables, or refuses it; one at a time."""
        why = fault(event.splits, self.ledger.splits, self._tables)
        if self._requested:
            why = "another copy is about to begin"
        if why:
            self._refuse(event.splits, why)
        else:
            self._requested = tuple(self.ledger.with_others(split) for split in event.splits)

    def staged(self, event: ChunkStaged) -> None:
        """Takes the report that a chunk is read and staged."""
        self.ledger.staged(event)

    def unread(self, attempt: EffectId) -> None:
        """Takes the report that a chunk could not be read; it is asked for again after a while."""
        self.ledger.failed(attempt)
        self._read_after = self.now + _READ_AGAIN_US

    def _watch(self) -> None:
        self._batches.binding_locks.copied = self.ledger.tables

    def _refuse(self, splits: Sequence[ChunkSplit], why: str) -> None:
        tables = tuple(split.table for split in splits)
        self._emit(RefuseCopy(copy_refused(splits, why, self.position), tables))
