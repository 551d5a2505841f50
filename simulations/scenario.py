"""Scenarios: readable transcripts of one apply machine, events given, effects expected.

    python -m simulations.scenario tests/scenarios/*.txt      writes the effects anew; look at the diff

A line is a comment (`#`), a setting, an event, or an effect of the event before it (`→`, as `engine.replay` spells it).
Each event is one step, 1 ms after the one before.

    options lanes=2 atomic=true
    tables account seat                      of `simulations.catalogue`
    take over          [epoch 2] [at 300] [having 1.1=0-1:5:0,0-1:5:1] [parked] [ddl passed 7]
    log 5: insert account 1 a x; update account 1 a x to 2 a x; delete account 2 a x
    log 6 part: …                            a transaction whose commit is not in this batch; then `log 6: …`
    log 7 resent: …                          the first batch after a resend;  `log 9 after 7: …`: a gap
    ddl 8 [resent] truncate account          a kind of `DdlKind` and a table
    ready 1.1 · committed 1.1 · rolled back 1.1 · failed 1.1 row MESSAGE · saved 1.2 · save failed 1.2 transient MESSAGE
    ddl applied 1.3 · ddl failed 1.3 target MESSAGE · source failed · source ended · pause · resume · goal 500
    wish retry 0-1:5:0 · wait 30             (milliseconds)

Transaction N is of source 0-1 and ends at log.000001:N00; NULL is written `-`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from engine import receipts
from engine.apply import ApplyMachine, Options
from engine.effects import ApplyBatch, ApplyEffect, EffectId
from engine.errors import Alarm, Failure, Trouble
from engine.events import (
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
from engine.records import Ddl, DdlKind, LogBatch, Position, Row, RowChange, TableName, Transaction
from engine.replay import spell_effect
from engine.schema import Binding, TargetTable
from engine.segments import Change
from simulations import catalogue

SOURCE = "0-1"
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
SPECS = {t.name.table: t for family in (*catalogue.FAMILIES, catalogue.CASCADING) for t in family}


def run(text: str) -> str:
    """The scenario with the effects that it has."""
    scenario = Scenario()
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("  →"):
            lines.append(line)
            if line and not line.startswith("#"):
                lines += scenario.take(line)
    return "\n".join(lines) + "\n"


class Scenario:
    def __init__(self) -> None:
        self.machine = ApplyMachine(FIRST)
        self._tables: dict[TableName, TargetTable] = {}
        self._now = 0
        self._ordinal = 0
        self._last = position(0)
        self._parked: dict[str, ParkedKey] = {}

    def restarted(self) -> Scenario:
        """A new machine at the same target."""
        twin = Scenario()
        twin._tables, twin._parked = self._tables, self._parked
        return twin

    def take(self, line: str) -> Iterator[str]:
        """Carry a line out; yields its effects.  Raises ValueError for a line that is none of the known."""
        word, _, rest = line.partition(" ")
        if word == "options":
            given = dict(pair.split("=") for pair in rest.split())
            settings = {k: v for k, v in msgspec.structs.asdict(FIRST).items() if k != "weights"}
            self.machine = ApplyMachine(msgspec.convert(settings | given, Options, strict=False))
        elif word == "tables":
            self._tables = catalogue.linked(*(SPECS[name] for name in rest.split()))
        else:
            self._now += int(rest) * 1000 if word == "wait" else 1000
            for effect in self.machine.step(self._now, [self._event(line)]):
                self._note(effect)
                yield f"  → {spell_effect(effect)}"

    def _note(self, effect: ApplyEffect) -> None:
        for row in effect.parked if isinstance(effect, ApplyBatch) else ():
            key = ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change)
            self._parked[f"{row.source}:{row.number}:{row.ordinal}"] = key

    def _event(self, line: str) -> ApplyEvent:
        for words, answer in ANSWERS.items():
            if found := re.fullmatch(rf"{words} (\d+\.\d+)", line):
                return answer(effect_id(found[1]))
        for words, failed in FAILURES.items():
            if found := re.fullmatch(rf"{words} (\d+\.\d+) (\w+) (.*)", line):
                return failed(effect_id(found[1]), Failure(Trouble(found[2]), found[3]))
        word, _, rest = line.partition(" ")
        match word, rest:
            case "log", _:
                return LogArrived([self._log(rest)])
            case "ddl", _ if rest.startswith("applied "):
                return DdlApplied(effect_id(rest.removeprefix("applied ")), self._tables)
            case "ddl", _:
                return LogArrived([self._ddl(rest)])
            case "take", _:
                return self._taken_over(rest)
            case "wish", _:
                wish, places = rest.split(" ", 1)
                return ParkedWished(tuple(msgspec.structs.replace(self._parked[p], wish=wish) for p in places.split()))
            case "source", _:
                return SourceFailed(Alarm("source", f"the source {rest}", "Wait"), retryable=rest == "failed")
            case "goal", _:
                return GoalSet(Position("log.000001", int(rest)))
            case (("pause" | "resume"), ""):
                return Paused(word == "pause")
            case "wait", _:
                return Tick()
            case _:
                raise ValueError(f"not understood: {line}")

    def _taken_over(self, rest: str) -> TakenOver:
        epoch = re.search(r"epoch (\d+)", rest)
        at = re.search(r"at (\d+)", rest)
        passed = re.search(r"ddl passed (\d+)", rest)
        held = [
            Receipt(effect_id(id_), receipts.encode(_covered(places)))
            for id_, places in re.findall(r"(\d+\.\d+)=(\S+)", rest)
        ]
        self._last = Position("log.000001", int(at[1])) if at else position(0)
        return TakenOver(
            epoch=int(epoch[1]) if epoch else 1,
            checkpoint=self._last,
            receipts=tuple(held),
            parked=tuple(self._parked.values()) if "parked" in rest else (),
            tables=self._tables,
            ddl_passed=(SOURCE, int(passed[1])) if passed else None,
        )

    def _log(self, rest: str) -> LogBatch:
        head, _, body = rest.partition(":")
        number, *flags = head.split()
        shapes = {n: catalogue.shape(spec) for n, spec in enumerate(self._tables.values())}
        rows = [self._change(text.split()) for text in body.split(";") if text.strip()]
        if "after" in flags:
            self._last = position(int(flags[flags.index("after") + 1]))
        prev, self._last = self._last, position(int(number))
        if "part" in flags:
            self._last = Position("log.000001", prev.offset, self._ordinal)
        else:
            self._ordinal = 0
        transaction = Transaction(SOURCE, int(number), 0, complete="part" not in flags)
        return LogBatch(prev, self._last, (transaction,), tuple(rows), shapes, resent="resent" in flags)

    def _change(self, words: list[str]) -> RowChange:
        """`insert TABLE row`, `delete TABLE row`, `update TABLE row to row`."""
        what, table, *values = words
        number = next(n for n, name in enumerate(self._tables) if name.table == table)
        cut = values.index("to") if what == "update" else len(values)
        before = None if what == "insert" else _row(values[:cut])
        after = None if what == "delete" else _row(values if what == "insert" else values[cut + 1 :])
        self._ordinal += 1
        return RowChange(number, before, after, self._ordinal - 1)

    def _ddl(self, rest: str) -> LogBatch:
        number, *kinds, table = rest.split()
        resent = kinds[0] == "resent"
        kind = " ".join(kinds[resent:])
        prev, self._last = self._last, position(int(number))
        statement = Ddl("shop", f"{kind} {table}", SOURCE, int(number), DdlKind(kind), (TableName("shop", table),))
        return LogBatch(prev, self._last, ddl=statement, resent=resent)


def position(number: int) -> Position:
    """Behind transaction `number`."""
    return Position("log.000001", number * 100)


def effect_id(text: str) -> EffectId:
    epoch, counter = text.split(".")
    return EffectId(int(epoch), int(counter))


def _row(values: list[str]) -> Row:
    return tuple(None if v == "-" else int(v) if v.isdigit() else v for v in values)


def _covered(places: str) -> list[Change]:
    """Changes that stand for these places; a receipt tells nothing else of them."""
    binding = Binding(0, catalogue.shape(catalogue.ACCOUNT), catalogue.ACCOUNT)
    out = []
    for place in places.split(","):
        source, number, ordinal = place.split(":")
        out.append(Change(binding, RowChange(0, None, None, int(ordinal)), Transaction(source, int(number), 0)))
    return out


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(run(Path(name).read_text()))
