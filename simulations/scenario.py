"""Scenarios: readable transcripts of one apply machine, events given, effects expected.

    python -m tidelock.simulations.scenario tests/scenarios/*.txt      writes the effects anew; look at the diff

A line is a comment (`#`), a setting, an event, or an effect of the event before it (`→`, as `engine.replay` spells it).
Each event is one step, 1 ms after the one before.  Tables: `simulations.scenario_tables`; lines of the source's log,
and a capture machine before the apply machine: `simulations.scenario_log`.

    options lanes=2 atomic=true
    take over          [epoch 2] [at PLACE] [having 1.1=0-1:5:0,0-1:5:1] [parked] [ddl passed 7] [log end PLACE]
    ready 1.1 · committed 1.1 · rolled back 1.1 · failed 1.1 row MESSAGE · saved 1.2 · save failed 1.2 transient MESSAGE
    ddl applied 1.3 · ddl failed 1.3 target MESSAGE · pause · resume · goal PLACE · wait 30 (milliseconds)
    source failed      its connection;  `source ended KIND: MESSAGE`: its log cannot be read on
    wish retry 0-1:5:0
    room?              may the log go on, or are enough rows taken
    restart            a new process at the same target and source, with the first options
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.log import receipts
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.effects import ApplyBatch, ApplyDdl, ApplyEffect, ApplyPiece, EffectId, RequestResend
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    DdlApplied,
    DdlFailed,
    GoalSet,
    LogArrived,
    ParkedKey,
    ParkedWished,
    Paused,
    Receipt,
    SourceFailed,
    TakenOver,
    Tick,
)
from tidelock.engine.replay import spell_effect
from tidelock.simulations import scenario_log, scenario_tables
from tidelock.simulations.scenario_log import SourceLog, place
from tidelock.simulations.scenario_log import position as position  # tests know it by this module
from tidelock.simulations.scenario_tables import Tables

FIRST = Options(lanes=2, batch_rows=10, checkpoint_us=1_000_000_000)  # checkpoints only where one must be
ANSWERS: dict[str, Callable[[EffectId], ApplyEvent]] = {
    "ready": BatchReady,
    "committed": BatchCommitted,
    "rolled back": BatchRolledBack,
    "saved": CheckpointSaved,
}
FAILURES: dict[str, Callable[[EffectId, Failure], ApplyEvent]] = {
    "ddl failed": DdlFailed,
    "save failed": CheckpointFailed,
    "failed": BatchFailed,
}


def run(text: str) -> str:
    """The scenario with the effects that it has."""
    scenario = Scenario()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  →"):
            continue
        lines.append(line)
        if line == "restart":
            scenario = scenario.restarted()
        elif line and not line.startswith("#"):
            lines += scenario.take(line)
    return "\n".join(lines) + "\n"


class Scenario:
    def __init__(self) -> None:
        self.machine = ApplyMachine(FIRST)
        self._tables = Tables()
        self._log = SourceLog(self._tables)
        self._now = 0
        self._parked: dict[str, ParkedKey] = {}
        self._emptied: tuple[TableName, ...] = ()
        self._reader = self._asked = 0  # a reader that is asked for takes over with its first batch, a resent one

    def restarted(self) -> Scenario:
        """A new machine at the same target and source."""
        twin = Scenario()
        twin._tables, twin._log, twin._parked = self._tables, self._log, self._parked
        return twin

    def take(self, line: str) -> Iterator[str]:
        """Carry a line out; yields its effects.  Raises ValueError for a line that is none of the known."""
        word, _, rest = line.partition(" ")
        if word == "options":
            self.machine = ApplyMachine(_options(dict(pair.split("=") for pair in rest.split())))
        elif word in scenario_tables.WORDS:
            self._tables.declare(word, rest)
        elif word == "capture":
            self._log.start_capture(rest)
        elif line == "room?":
            yield "  → no room" if self.machine.backpressured else "  → room"
        elif word in scenario_log.WORDS and not rest.startswith(("applied ", "failed ")):
            yield from self._arrive(word, rest)
        else:
            yield from self._step(self._event(line), int(rest) * 1000 if word == "wait" else 1000)

    def _arrive(self, word: str, rest: str) -> Iterator[str]:
        for batch in self._log.take(word, rest):
            if self._log.capture is not None:
                yield f"  → {self._log.spell(batch)}"
                if self.machine.state is State.WAITING:
                    continue
            if batch.resent:
                self._reader = self._asked
            yield from self._step(LogArrived([batch], self._reader))

    def _step(self, event: ApplyEvent, passed_us: int = 1000) -> Iterator[str]:
        self._now += passed_us
        for effect in self.machine.step(self._now, [event]):
            self._note(effect)
            yield f"  → {spell_effect(effect)}"

    def _note(self, effect: ApplyEffect) -> None:
        if isinstance(effect, RequestResend):
            self._asked = effect.reader
        if isinstance(effect, ApplyDdl):
            self._emptied = effect.ddl.tables if effect.ddl.kind is DdlKind.TRUNCATE else ()
        for row in effect.parked if isinstance(effect, ApplyBatch | ApplyPiece) else ():
            key = ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change)
            self._parked[f"{row.source}:{row.number}:{row.ordinal}"] = key

    def _event(self, line: str) -> ApplyEvent:
        for words, answer in ANSWERS.items():
            if found := re.fullmatch(rf"{words} (\d+\.\d+)", line):
                return answer(effect_id(found[1]))
        for words, failed in FAILURES.items():
            if found := re.fullmatch(rf"{words} (\d+\.\d+) (\w+) (.*)", line):
                return failed(effect_id(found[1]), Failure(ErrorKind(found[2]), found[3]))
        word, _, rest = line.partition(" ")
        match word, rest:
            case "ddl", _:
                return DdlApplied(effect_id(rest.removeprefix("applied ")), self._tables.target(), self._emptied)
            case "take", _:
                return self._taken_over(rest)
            case "wish", _:
                wish, places = rest.split(" ", 1)
                return ParkedWished(tuple(msgspec.structs.replace(self._parked[p], wish=wish) for p in places.split()))
            case "source", "failed":
                return SourceFailed(Alarm("source", "the source failed", "Wait"), retryable=True)
            case "source", _ if rest.startswith("ended "):
                kind, message = rest.removeprefix("ended ").split(": ", 1)
                return SourceFailed(Alarm(kind, message, "Mend it"), retryable=False)
            case "goal", _:
                return GoalSet(place(rest))
            case (("pause" | "resume"), ""):
                return Paused(word == "pause")
            case "wait", _:
                return Tick()
            case _:
                raise ValueError(f"not understood: {line}")

    def _taken_over(self, rest: str) -> TakenOver:
        def given(words: str) -> str | None:
            found = re.search(rf"\b{words} (\S+)", rest)
            return found[1] if found else None

        held = [
            Receipt(effect_id(id_), receipts.encode(_covered(places)))
            for id_, places in re.findall(r"(\d+\.\d+)=(\d+-\S+)", rest)
        ]
        passed, end = given("ddl passed"), given("log end")
        self._log.stand(place(given("at") or "0"))
        return TakenOver(
            epoch=int(given("epoch") or 1),
            checkpoint=self._log.last,
            receipts=tuple(held),
            parked=tuple(self._parked.values()) if "parked" in rest else (),
            tables=self._tables.target(),
            ddl_passed=(scenario_log.SOURCE, int(passed)) if passed else None,
            log_end=place(end) if end else None,
        )


def _options(given: dict[str, str]) -> Options:
    """Returns the first options with those that are given in their places.  Raises ValueError for one that is none."""
    stored = {field.name: field.encode_name for field in msgspec.structs.fields(Options)}
    if unknown := given.keys() - stored.keys():
        raise ValueError(f"the engine has no option {', '.join(sorted(unknown))}")
    settings = {stored[name]: value for name, value in (msgspec.structs.asdict(FIRST) | given).items()}
    return msgspec.convert(settings, Options, strict=False)


def effect_id(text: str) -> EffectId:
    epoch, counter = text.split(".")
    return EffectId(int(epoch), int(counter))


def _covered(places: str) -> list[tuple[str, int, int]]:
    out = []
    for covered in places.split(","):
        source, number, ordinal = covered.split(":")
        out.append((source, int(number), int(ordinal)))
    return out


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(run(Path(name).read_text()))
