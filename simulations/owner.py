"""A process that owns the feed: its machine, its mailbox, its clock, and the reader that feeds it.

It carries out what the machine wants done as the shell does.  A dead one hears nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec.structs import replace

from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.log.receipts import furthest
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyEffect,
    ApplyPiece,
    BeginCopy,
    CaughtUp,
    CommitBatch,
    DropStaged,
    FindRefused,
    Halt,
    MergeChunk,
    ReadChunk,
    RefuseCopy,
    RequestResend,
    RollbackBatch,
    SaveCheckpoint,
    StepDown,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchReady,
    BatchRolledBack,
    CheckpointSaved,
    ChunkStaged,
    CopyBegun,
    DdlApplied,
    LogArrived,
    Paused,
    SourceFailed,
    TakenOver,
    Tick,
)
from tidelock.simulations.copier import Copier
from tidelock.simulations.faults import Faults
from tidelock.simulations.history import History
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log import Reader
from tidelock.simulations.plan import ROW_BYTES, Plan
from tidelock.simulations.source_log import OTHER, Log, Source

if TYPE_CHECKING:
    from tidelock.simulations.target import Target

REFUSALS = {
    "another copy is about to begin": "another is about to begin",
    "is being copied": "the table is being copied",
}
ANSWERS = (BatchCommitted, BatchReady, BatchRolledBack, CheckpointSaved, DdlApplied, CopyBegun, ChunkStaged)


class Owner:
    """`dies_at`: how many more effects it carries out before it dies; below zero: no end is near.
    `refused_its_own`: its reader took the log of the feed for another one.
    `stream_idle_us`: as the owner before told.  `options`: settings of the machine beside the plan's."""

    def __init__(
        self,
        number: int,
        plan: Plan,
        history: History,
        faults: Faults,
        copier: Copier,
        source: Source,
        stream_idle_us: int | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.number = number
        self.copier = copier
        made = Options(
            atomic=plan.atomic,
            locking=plan.locking,
            verify="image" if plan.image else "off",
            **msgspec.structs.asdict(plan.engine),
        )
        if plan.copy is not None:
            made = replace(made, copy_reads=plan.copy.reads, copy_touched=plan.copy.touched)
        if stream_idle_us is not None:
            made = replace(made, stream_idle_us=stream_idle_us)
        self.machine = ApplyMachine(replace(made, **options))
        self.mailbox: list[ApplyEvent] = []
        self.reader: Reader | None = None
        self.alive = True
        self.caught_up = False
        self.halt: Halt | None = None
        self.stepped_down: StepDown | None = None
        self.asked_from: set[str] = set()  # places that the log was asked for once more
        self.hangs = 0
        self.dies_at = -1
        self.skew = 0
        self._now = 0
        self._history = history
        self._source = source
        self.refused_its_own = False
        self._bad_rows = "poison" in plan.features or (plan.image and plan.repairs)
        self._faults = faults
        self._reader = 0  # the present reader's number
        self._sent: list[LogBatch] = []  # by the present reader

    def begin(self, taken: TakenOver, chance: Random) -> None:
        self.post(msgspec.structs.replace(taken, log_end=self._history.told_end))
        further = furthest(taken.receipts, taken.checkpoint)
        self._read_behind(taken.checkpoint, taken.checkpoint, further, chance)

    def _read_behind(
        self, confirmed: Position, place: Position, further: Sequence[Position], chance: Random
    ) -> None:
        """A new reader, unless the source's log is not the one that `confirmed` and `further` are places of."""
        self.reader = None
        log = self._source.open(confirmed, further)
        if log is not None:
            self.reader = self._opened(log, place if place != confirmed else confirmed, chance)
            return
        self.refused_its_own = self._source.is_right
        self.post(SourceFailed(Alarm(OTHER, "the log is not the one that was read", "resync"), retryable=False))

    def _opened(self, log: Log, place: Position, chance: Random) -> Reader:
        return Reader(self._history, log, place, chance)

    def clock(self, now: int) -> int:
        return now + self.skew

    def post(self, event: ApplyEvent) -> None:
        """Its answers may arrive twice."""
        if self.alive:
            self.mailbox.append(event)
            if isinstance(event, ANSWERS) and self._faults.strikes("echo"):
                self.mailbox.append(event)

    def take(self, chance: Random, *, everything: bool) -> list[ApplyEvent]:
        """The events of the next step: some or all of the mailbox, else a tick."""
        taken = len(self.mailbox) if everything else int(chance.random() * (len(self.mailbox) + 1))
        events, self.mailbox = self.mailbox[:taken], self.mailbox[taken:]
        return events or [Tick()]

    def windows(self) -> int | None:
        """Number of windows planned by its machine; None unless it is paused, and no transaction is half applied."""
        machine = self.machine
        if machine.state is not State.FLOWING or not machine.paused or machine.streaming:
            return None
        return machine.watermark.upcoming()

    def obeys(self, events: list[ApplyEvent], windows: int | None) -> None:
        """After a step: what is paused plans nothing, and what has lost its log for good does not go on."""
        if self.machine.state is not State.FLOWING:
            return
        for event in events:
            if isinstance(event, SourceFailed) and not event.retryable:
                raise Mistake(f"owner {self.number} goes on without its log")
        if windows is None or any(isinstance(event, (Paused, DdlApplied)) for event in events):
            return
        if self.machine.watermark.upcoming() > windows:
            raise Mistake(f"owner {self.number} is paused and plans")

    # ------------------------------------------------------------------ the log arrives, or does not

    def read(self) -> None:
        assert self.reader is not None
        batch = self.reader.next()
        if batch is not None:
            self._sent.append(batch)
            self.post(LogArrived([batch], self._reader, _size(batch)))

    def lose(self) -> bool:
        return self.reader is not None and self.reader.next() is not None

    def repeat(self, chance: Random) -> bool:
        if not self._sent:
            return False
        self.post(LogArrived([msgspec.structs.replace(chance.choice(self._sent), resent=False)], self._reader))
        return True

    def reorder(self) -> bool:
        if self.reader is None or not self._sent:
            return False
        one, two = self.reader.next(), self.reader.next()
        if one is None or two is None:
            return False
        self._sent += (two, one)
        self.post(LogArrived([two, one], self._reader))
        return True

    def rewind(self, chance: Random) -> bool:
        """Take the log's carrier back, which delivers again what it had delivered from there on."""
        if not self._sent:
            return False
        again = self._sent[chance.randrange(len(self._sent)) :]
        self.post(LogArrived([msgspec.structs.replace(batch, resent=False) for batch in again], self._reader))
        return True

    # ------------------------------------------------------------------ what the machine wants done

    def carry_out(self, effect: ApplyEffect, target: Target, chance: Random) -> None:
        match effect:
            case ApplyBatch():
                target.apply(self.number, effect, self.post)
            case ApplyPiece():
                target.piece(self.number, effect, self.post)
            case CommitBatch():
                target.commit(self.number, effect, self.post)
            case RollbackBatch():
                target.roll_back(self.number, effect, self.post)
            case SaveCheckpoint() | ApplyDdl() | BeginCopy():
                target.order(self.number, effect, self.post)
            case MergeChunk():
                target.merge(self.number, effect, self.post)
            case ReadChunk():
                target.asked(effect)
                self.copier.read(effect)
            case FindRefused():
                target.order(self.number, effect, self.post)
            case DropStaged():
                self.copier.drop(effect.staged)
            case RefuseCopy():
                self._refused(effect.alarm)
            case RequestResend():
                self.asked_from.add(str(effect.position))
                skipped = chance.randrange(1, 9) if self._faults.strikes("hole") else 0
                behind = self._history.behind(effect.position, skipped)
                self._read_behind(effect.position, behind, effect.further, chance)
                self._reader = effect.reader
                self._sent.clear()
            case Halt():
                self.halt, self.alive = effect, False
            case StepDown():
                self.stepped_down, self.alive = effect, False
            case CaughtUp():
                self.caught_up = True
            case _:
                assert_never(effect)

    def _refused(self, alarm: Alarm) -> None:
        reason = next((reason for words, reason in REFUSALS.items() if words in alarm.message), "")
        if reason:
            self._faults.seen(f"copy: refused, since {reason}")
        elif not (self._bad_rows and alarm.kind == "repair"):
            raise Mistake(f"a copy is refused: {alarm}")


def _size(batch: LogBatch) -> int:
    """Size of the message that it came in: the rows of one message in five are large."""
    return ROW_BYTES * len(batch.rows) * (20 if sum(batch.last.order) % 5 == 0 else 1)
