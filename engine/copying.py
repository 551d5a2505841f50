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

The first and the last save a checkpoint, the place up to which everything is committed then; none is sent while
another checkpoint is on its way, which might be stored after it and go back.  A feed that copies nothing has no ledger,
and pays one look at that for a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from engine.batches import Batches
from engine.chunks import Chunk, Ledger, State, fault
from engine.effects import (
    ApplyEffect,
    BeginCopy,
    DropStaged,
    EffectId,
    MergeChunk,
    ReadChunk,
    RefuseCopy,
    Step,
    UpsertRows,
)
from engine.errors import Alarm, Failure, Policy, policy
from engine.events import ChunksPlanned, ChunkStaged, Copied
from engine.lanes import Lane
from engine.options import Options
from engine.records import Position, TableName
from engine.schema import TargetTable
from engine.segments import Change
from engine.spans import Split
from engine.watermark import Watermark

_RETRY_US = 200_000
_READ_AGAIN_US = 1_000_000


class Copying:
    """`position`: up to where the `ledger` has seen the log.  `lane`: that of merges.  `alarm`: why the feed must halt,
    once it must."""

    def __init__(
        self,
        options: Options,
        tables: Mapping[TableName, TargetTable],
        batches: Batches,
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
        self.ledger = Ledger((), tables)
        self._wished: tuple[Split, ...] = ()
        self.lane = Lane(options.lanes)
        self._chunk: Chunk | None = None  # the one whose merge is planned
        self._effect: BeginCopy | MergeChunk | None = None  # planned; the same until it is committed
        self._at_target = False
        self._sent = False  # once: from then on the effect stays as it is
        self._not_before = 0  # for what was refused
        self._read_after = 0
        self._heard = False  # the present reader of the log
        self.now = 0

    # ------------------------------------------------------------------ what the machine asks

    def __bool__(self) -> bool:
        """Is a copy under way, or wished for?"""
        return bool(self.ledger) or bool(self._wished)

    @property
    def writing(self) -> bool:
        """Something is at the target that wants it for itself."""
        return self._at_target

    def adopt(self, copied: Sequence[Copied]) -> None:
        """What the takeover found: chunks that are not merged are to be read anew."""
        self.ledger.add(copied)
        self._watch()

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        self._tables = tables
        self.ledger.retable(tables)

    def figures(self) -> dict[str, int | str | list[int]]:
        """For people: chunks merged, open, rows remembered, reads that the stream made worthless."""
        chunks = list(self.ledger.chunks)
        if not chunks:
            return {}
        merged = sum(chunk.state is State.MERGED for chunk in chunks)
        return {
            "copying": f"{merged} of {len(chunks)} chunks",
            "open": sum(chunk.open for chunk in chunks),
            "touched": self.ledger.remembered,
            "again": sum(chunk.again for chunk in chunks),
        }

    # ------------------------------------------------------------------ the log

    def sift(self, changes: Sequence[Change]) -> dict[Change, Change | None]:
        """Changes of a window that do not take effect as they are, with what remains of each."""
        altered = self.ledger.take(changes)
        self.ledger.relieve(self._options.copy_touched)
        if self.ledger.abandoned:
            self._read_after = self.now + _READ_AGAIN_US
        return altered

    def seen(self, position: Position, *, resent: bool) -> None:
        """The ledger has seen the log up to here; `resent`: since the first batch of the present reader, at least."""
        self.position = position
        self._heard = self._heard or resent

    def interrupted(self) -> None:
        """The log goes on with another reader."""
        self._heard = False
        self.ledger.statement(())

    def statement(self, tables: Sequence[TableName]) -> None:
        self.ledger.statement(tables)

    # ------------------------------------------------------------------ planning

    def plan(self) -> bool:
        """Between two windows: plan what is due.  True: nothing else may be planned now."""
        if self._wished:
            if self._effect is None:
                self._effect = BeginCopy(self._next_id(), self._wished, self.position)
            return True
        if not self.ledger:
            return False
        if self._effect is None and (chunk := self.ledger.due(self.position)) is not None:
            self._plan_merge(chunk)
        self._ask_for_chunks()
        return self._options.atomic and self._effect is not None

    def _plan_merge(self, chunk: Chunk) -> None:
        assert chunk.attempt is not None
        table, binding = self._tables[chunk.split.table], chunk.binding
        images = [image for image in chunk.touched.values() if image is not None]
        steps: list[Step] = [UpsertRows(binding, images, fresh=True)] if binding is not None and images else []
        self._chunk = chunk
        self._effect = MergeChunk(
            id=self._next_id(),
            staged=chunk.attempt,
            split=chunk.split,
            chunk=chunk.number,
            rows=chunk.rows,
            key=table.key,
            without=list(chunk.touched),
            steps=steps,
            position=self.position,
        )
        self.ledger.merged(chunk)
        self._batches.plan_alone(self.lane, chunk.split.table, self.position)

    def _ask_for_chunks(self) -> None:
        """Only where no transaction is cut: what is visible at the source are whole ones."""
        if self.position.rows or self.now < self._read_after or not self._heard:
            return
        while (chunk := self.ledger.next(self._options.copy_reads)) is not None:
            id_ = self._next_id()
            self.ledger.read(chunk, id_)
            self._emit(ReadChunk(id_, chunk.split, chunk.number, self.position))

    # ------------------------------------------------------------------ sending, answers

    def send(self, *, saving: bool) -> None:
        """Send what is planned once all before it is committed; `saving`: a checkpoint is on its way."""
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
        assert self._watermark.position == effect.position, "everything before it is committed"
        if not self._sent:
            effect = self._effect = replace(effect, drop=self._watermark.droppable())
        self._sent = self._at_target = True
        self._emit(effect)

    def answers(self, id_: EffectId) -> bool:
        return self._at_target and self._effect is not None and self._effect.id == id_

    def committed(self) -> BeginCopy | MergeChunk:
        """What was sent last has taken effect; returns it: a checkpoint is saved with it."""
        effect, self._effect, self._at_target, self._sent = self._effect, None, False, False
        assert effect is not None
        if isinstance(effect, BeginCopy):
            self._wished = ()
            self.ledger.add(Copied(split) for split in effect.splits)
            self._batches.emptied([split.table for split in effect.splits])
        else:
            self._chunk = None
            self._batches.finish_alone(self.lane, effect.id)
            self._emit(DropStaged(effect.staged))
            self.ledger.settle()
        self._watch()
        return effect

    def failed(self, failure: Failure) -> Failure | None:
        """Sent again as it was, so that its receipt can answer; returns what the machine must give up for."""
        effect, self._at_target = self._effect, False
        self._not_before = self.now + _RETRY_US
        match policy(failure):
            case Policy.RETRY:
                return None
            case Policy.STAND_DOWN:
                return failure
            case _ if isinstance(effect, BeginCopy):
                self._refuse(effect.splits, failure.message)
                self._wished, self._effect, self._sent = (), None, False
                return None
            case Policy.SPLIT:
                assert self._chunk is not None
                self.alarm = _refused(self._chunk, failure.message, self.position)
                return None
            case _:
                return failure

    # ------------------------------------------------------------------ the copier

    def wish(self, event: ChunksPlanned) -> None:
        why = fault(event.splits, self.ledger.tables, self._tables)
        if self._wished:
            why = "another copy is about to begin"
        if why:
            self._refuse(event.splits, why)
        else:
            self._wished = event.splits

    def staged(self, event: ChunkStaged) -> None:
        self.ledger.staged(event.id, event.high, event.rows)

    def unread(self, attempt: EffectId) -> None:
        self.ledger.failed(attempt)
        self._read_after = self.now + _READ_AGAIN_US

    def _watch(self) -> None:
        self._batches.copied = self.ledger.tables

    def _refuse(self, splits: Sequence[Split], why: str) -> None:
        tables = tuple(split.table for split in splits)
        names = ", ".join(map(str, tables))
        hint = "Mend that, then copy them again; the feed goes on as before"
        self._emit(RefuseCopy(Alarm("copy", f"tables are not copied: {why}", hint, str(self.position), names), tables))


def _refused(chunk: Chunk, message: str, position: Position) -> Alarm:
    return Alarm(
        "copy",
        f"the target refused rows of chunk {chunk.number} of {chunk.split.table}: {message}",
        "Mend the target (a type too narrow, a constraint that the source does not have, rows that are parked or that "
        "others wrote), then run the feed again; what is merged stays",
        str(position),
        str(chunk.split.table),
    )
