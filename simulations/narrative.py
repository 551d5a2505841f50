"""Story of what happened to the owners of a simulated feed, one chapter each.

The machines' steps are taken again, so the narrator sees their effects and their lock tables themselves.  What goes as
it should is summed up; what is out of the ordinary is told one by one, in order.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from tidelock.engine.apply.machine import ApplyMachine
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.parallel.segments import Segment
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyEffect,
    ApplyPiece,
    CommitBatch,
    EffectId,
    RequestResend,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointSaved,
    GoalSet,
    LogArrived,
    TakenOver,
    Tick,
)
from tidelock.engine.replay import spell_effect, spell_event
from tidelock.simulations.plan import FAULTS
from tidelock.simulations.trial import Trial, Turn

SHOWN_WAITS = 5


class Chapter(msgspec.Struct):
    """`lines`: (seconds since its owner took over by the owner's clock, or ''; what happened)."""

    title: str
    lines: list[tuple[str, str]] = []


def many(n: int, one: str, more: str = "") -> str:
    return f"{n:,} {one if n == 1 else more or one + 's'}"


class _Quiet(msgspec.Struct):
    """Account of what one owner did since the last line about it."""

    batches: int = 0
    rows: int = 0
    sent: int = 0
    pieces: int = 0
    committed: int = 0
    failed: Counter[str] = msgspec.field(default_factory=Counter)
    waits: int = 0
    checkpoint: str = ""

    def spell(self) -> str:
        parts = [
            f"reads {many(self.rows, 'row')} in {self.batches} of the log's batches" if self.rows else "",
            f"sends {many(self.sent, 'batch', 'batches')}" if self.sent else "",
            f"sends {many(self.pieces, 'piece')} of a large transaction" if self.pieces else "",
            f"{many(self.waits, 'wait')} at the lock table" if self.waits else "",
            f"{many(self.committed, 'commit')}" if self.committed else "",
            *(f"{many(n, 'failure')} ({message})" for message, n in self.failed.items()),
            f"the checkpoint moves to {self.checkpoint}" if self.checkpoint else "",
        ]
        return ", ".join(part for part in parts if part)


class Narrator:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._machines: dict[int, ApplyMachine] = {}
        self._quiet: dict[int, _Quiet] = {}
        self._saving: dict[EffectId, str] = {}
        self._chapters: list[Chapter] = []
        self._told = 0
        self._shown_waits = 0
        self._begun: dict[int, int] = {}
        self._clock = 0
        self._newest = 0

    def chapters(self) -> list[Chapter]:
        for turn in self._trial.turns:
            self._world_until(turn.told)
            self._turn(turn)
        self._world_until(len(self._trial.transcript))
        self._flush()
        return self._chapters

    def _turn(self, turn: Turn) -> None:
        machine = self._machines.setdefault(turn.owner, ApplyMachine(self._trial.options[turn.owner]))
        self._begun.setdefault(turn.owner, turn.now)
        self._clock = turn.now - self._begun[turn.owner]
        waits = _waits(machine)
        try:
            effects = machine.step(turn.now, turn.events)
        except Exception as error:
            self._say(turn.owner, f"breaks down: {type(error).__name__} {error}")
            return
        for event in turn.events:
            self._event(turn.owner, event)
        for effect in effects:
            self._effect(turn.owner, effect)
        self._waited(turn.owner, machine, _waits(machine) - waits)

    def _world_until(self, told: int) -> None:
        """Lines of the transcript that are the world's own."""
        for line in self._trial.transcript[self._told : told]:
            if line.startswith("-- "):
                self._flush()
                self._world(line.removeprefix("-- "))
        self._told = max(self._told, told)

    def _world(self, what: str) -> None:
        if found := re.fullmatch(r"owner (\d+) takes over", what):
            self._newest = int(found[1])
            self._chapters.append(Chapter(f"Owner {self._newest}"))
        elif what == "no more faults":
            self._chapters.append(Chapter("No more faults: everything has to arrive"))
        else:
            self._line(f"fault: {FAULTS[what]}" if what in FAULTS else what)

    # ------------------------------------------------------------------ what happened to it

    def _event(self, owner: int, event: ApplyEvent) -> None:
        quiet = self._quiet.setdefault(owner, _Quiet())
        match event:
            case TakenOver():
                self._say(owner, _taken_over(event))
            case LogArrived():
                for batch in event.batches:
                    self._log(owner, batch)
            case BatchCommitted():
                quiet.committed += 1
            case BatchFailed(failure=Failure(kind=ErrorKind.TRANSIENT)):
                quiet.failed[event.failure.message] += 1
            case CheckpointSaved():
                quiet.checkpoint = self._saving.get(event.id, "")
            case GoalSet():
                self._say(owner, f"is to end once all up to {event.position} is done")
            case BatchReady() | BatchRolledBack() | Tick():
                pass
            case _:
                for line in spell_event(event):
                    self._say(owner, line)

    def _log(self, owner: int, batch: LogBatch) -> None:
        if batch.ddl is not None:
            self._say(owner, f"reads {batch.ddl.statement}")
        quiet = self._quiet[owner]  # a line begins it anew
        quiet.batches += 1
        quiet.rows += len(batch.rows)

    # ------------------------------------------------------------------ what it did

    def _effect(self, owner: int, effect: ApplyEffect) -> None:
        match effect:
            case ApplyBatch():
                self._quiet[owner].sent += 1
                for row in effect.parked:
                    place = f"{row.source}:{row.number}:{row.ordinal}"
                    self._say(owner, f"sets {place} of {row.schema}.{row.table} ({row.key}) aside: {row.error}")
                if effect.unparked:
                    places = ", ".join(f"{s}:{n}:{o}" for s, n, o in effect.unparked)
                    self._say(owner, f"takes up what was set aside: {places}")
            case ApplyPiece():
                self._quiet[owner].pieces += 1
                for row in effect.parked:
                    place = f"{row.source}:{row.number}:{row.ordinal}"
                    self._say(owner, f"sets {place} of {row.schema}.{row.table} ({row.key}) aside: {row.error}")
            case SaveCheckpoint():
                self._saving[effect.id] = str(effect.position)
            case RequestResend():
                self._say(owner, f"asks for the log again, from {effect.position} on")
            case CommitBatch():
                pass
            case _:
                self._say(owner, spell_effect(effect))

    def _waited(self, owner: int, machine: ApplyMachine, waits: int) -> None:
        if not waits:
            return
        self._quiet[owner].waits += waits
        for successor, holder in _waiting(machine)[: min(waits, SHOWN_WAITS - self._shown_waits)]:
            self._shown_waits += 1
            self._say(owner, f"{_spell(successor)} waits for {_spell(holder)} to be committed")

    # ------------------------------------------------------------------ lines

    def _say(self, owner: int, text: str) -> None:
        self._flush()
        self._line(text, owner)

    def _line(self, text: str, owner: int | None = None) -> None:
        who = f"owner {owner}, still there: " if owner not in (None, self._newest) else ""
        if not self._chapters:
            self._chapters.append(Chapter("The beginning"))
        self._chapters[-1].lines.append((f"{self._clock / 1_000_000:.3f}", who + text))

    def _flush(self) -> None:
        for owner, quiet in self._quiet.items():
            if text := quiet.spell():
                self._line(text, owner)
            self._quiet[owner] = _Quiet()


def _taken_over(event: TakenOver) -> str:
    parts = [
        f"takes over as epoch {event.epoch}; all up to {event.checkpoint} is done",
        f"{many(len(event.receipts), 'receipt')} of later batches" if event.receipts else "",
        f"{many(len(event.parked), 'row')} set aside" if event.parked else "",
    ]
    return ", ".join(part for part in parts if part)


def _waits(machine: ApplyMachine) -> int:
    seen = machine.status()
    return seen.lock_waits if seen is not None else 0


def _waiting(machine: ApplyMachine) -> list[tuple[Segment, Segment]]:
    """Tell who waits for whom in the lanes, newest first."""
    lanes = [*machine.batches.lanes, machine.copying.lane]
    there = [segment for lane in lanes for segment in (*lane.running, *lane.queue)]
    by_holder = {segment.holder: segment for segment in there}
    pairs = [(by_holder[successor], held) for held in there for successor in held.holder.successors]
    return sorted(pairs, key=lambda pair: -pair[0].order)


def _spell(segment: Segment) -> str:
    if not segment.changes:
        return "the merge of a chunk"
    first = segment.changes[0]
    more = f" and {len(segment.changes) - 1} more" if len(segment.changes) > 1 else ""
    return f"{first.source}:{first.number}:{first.ordinal} of {first.binding.name}{more} on lane {segment.lane}"
