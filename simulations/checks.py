"""What must hold at every commit, and at the end: each check knows the source's log and the target, not the engine.

Nothing is applied twice, nothing lost; versions of a row only go forward; constraints hold at each commit; a row is
parked only for a reason; the checkpoint never goes back and never passes what is committed; a receipt goes no earlier
than the checkpoint that makes it needless; `atomic`: commits are whole source transactions in source order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import receipts
from engine.effects import ApplyBatch, EffectId
from engine.merge import in_log_order
from engine.records import Ddl, DdlKind, Position, Row, TableName, Transaction
from engine.schema import Binding
from engine.segments import Change
from simulations.catalogue import POISON, WORD
from simulations.history import Entry, History, Place
from simulations.model import Database, Token, Violation

if TYPE_CHECKING:
    from simulations.target import Target


class Mistake(AssertionError):
    """The engine did what it must never do."""


class Checks:
    def __init__(self, history: History, *, atomic: bool) -> None:
        self.applied: dict[Place, None] = {}
        self.skipped: dict[Place, None] = {}
        self.covered: dict[Place, EffectId] = {}
        self._history = history
        self._atomic = atomic
        self._index = {e.place: i for i, e in enumerate(history.entries) if e.change is not None}
        self._order = list(self._index)
        self._sent: dict[EffectId, ApplyBatch] = {}
        self._newest: dict[tuple[TableName, Token], int] = {}

    def sent(self, effect: ApplyBatch) -> None:
        if self._sent.setdefault(effect.id, effect) is not effect:
            raise Mistake(f"{effect.id} was sent with another content")

    def committed(self, effect: ApplyBatch, wishes: dict[Place, str], target: Target, before: Database) -> None:
        places = receipts.decode(effect.covered)
        self._cover(effect.id, places)
        if self._atomic and places:
            self._in_order(effect.id, places)
        parked = {(row.source, row.number, row.ordinal) for row in effect.parked}
        self._forward(target.database, sorted((p for p in places if p not in parked), key=self._index.__getitem__))
        retried = [place for place, wish in wishes.items() if wish == "retry"]
        self._forward(target.database, sorted(retried, key=self._index.__getitem__))
        self.skipped.update(dict.fromkeys(place for place, wish in wishes.items() if wish == "skip"))
        for place in parked.intersection(places):
            self._justify(place, target, before)
        if broken := target.database.broken():
            raise Mistake(f"after {effect.id}: {broken}")

    def _cover(self, id_: EffectId, places: list[Place]) -> None:
        for place in places:
            if place not in self._index:
                raise Mistake(f"{id_} covers {place}, which is not in the log")
            if place in self.covered:
                raise Mistake(f"{id_} covers {place}, which {self.covered[place]} covered")
            self.covered[place] = id_

    def _in_order(self, id_: EffectId, places: list[Place]) -> None:
        done = len(self.covered)
        if any(place not in self.covered for place in self._order[:done]):
            raise Mistake(f"{id_} is no prefix of the log")
        if done < len(self._order) and self._order[done][1] == self._order[done - 1][1]:
            raise Mistake(f"{id_} ends inside a transaction")

    def _forward(self, database: Database, places: list[Place]) -> None:
        """These are applied now: no row may have a newer version already."""
        self.applied.update(dict.fromkeys(places))
        newest: dict[tuple[TableName, Token], int] = {}
        for place in places:
            index = self._index[place]
            for key in self._keys(database, place):
                if self._newest.get(key, -1) > index:
                    raise Mistake(f"{place} is applied to {key} after a newer version")
                newest[key] = index
        self._newest |= newest

    def _entry(self, place: Place) -> Entry:
        return self._history.entries[self._index[place]]

    def _keys(self, database: Database, place: Place) -> list[tuple[TableName, Token]]:
        entry = self._entry(place)
        assert entry.shape is not None and entry.change is not None
        table = database.tables[entry.shape.name]
        rows = [row for row in (entry.change.before, entry.change.after) if row is not None]
        if not table.spec.key:
            return [(entry.shape.name, row) for row in rows]
        return [(entry.shape.name, table.key(row)) for row in rows]

    def _justify(self, place: Place, target: Target, before: Database) -> None:
        entry = self._entry(place)
        assert entry.change is not None
        if POISON in (entry.change.after or ()):
            return
        for other in target.parked:
            if self._index[other] < self._index[place] and self._may_share(target.database, place, other):
                return
        if not (self._fits(before, entry) and self._fits(target.database, entry)):
            return
        raise Mistake(f"{place} is parked without a reason: {entry.change}")

    def _may_share(self, database: Database, one: Place, other: Place) -> bool:
        """Do they share a row, or may they for all that the engine can know?  It folds printable ASCII only."""
        if set(self._keys(database, one)) & set(self._keys(database, other)):
            return True
        tables = [entry.shape.name for place in (one, other) if (entry := self._entry(place)).shape is not None]
        if tables != [WORD.name, WORD.name]:
            return False
        changes = [entry.change for place in (one, other) if (entry := self._entry(place)).change is not None]
        return not all(row[0].isascii() for change in changes for row in (change.before, change.after) if row)

    def _fits(self, database: Database, entry: Entry) -> bool:
        assert entry.change is not None and entry.shape is not None
        binding = Binding(0, entry.shape, database.tables[entry.shape.name].spec)
        change = Change(binding, entry.change, Transaction(entry.source, entry.number, 0))
        try:
            database.begin().run(in_log_order([change]))
        except Violation:
            return False
        return True

    # ------------------------------------------------------------------ checkpoint, schema, end

    def saved(self, old: Position, new: Position, dropped: list[bytes]) -> None:
        if new.order < old.order:
            raise Mistake(f"the checkpoint goes back from {old} to {new}")
        passed = self._history.index(new)
        missing = [
            e.place for e in self._history.entries[:passed] if e.change is not None and e.place not in self.covered
        ]
        if missing:
            raise Mistake(f"the checkpoint {new} passes {missing[0]}, which is not committed")
        early = [place for covered in dropped for place in receipts.decode(covered) if self._index[place] >= passed]
        if early:
            raise Mistake(f"a receipt of {early[0]} is dropped with the checkpoint {new}")

    def changing_schema(self, ddl: Ddl) -> None:
        at = next(i for i, e in enumerate(self._history.entries) if e.ddl is not None and e.number == ddl.number)
        for place, index in self._index.items():
            if (index < at) != (place in self.covered):
                raise Mistake(f"{ddl.statement} runs {'after' if index > at else 'before'} {place}")

    def finished(self, target: Target, *, whole: bool) -> None:
        """`whole`: nothing can have been parked, so the target must equal the source."""
        found = target.database.contents()
        if whole:
            if target.parked or self.skipped:
                raise Mistake(f"rows are parked without cause: {list(target.parked.values())}")
            _compare(self._history.source.contents(), found)
            return
        lost = [p for p in self._order if p not in self.applied and p not in self.skipped and p not in target.parked]
        if lost or len(self.covered) != len(self._order):
            raise Mistake(f"{lost or 'something'} is neither applied nor parked")
        expected = self._replayed(target.database).contents()
        for name, table in target.database.tables.items():
            given_up = {key for place in self.skipped for key in self._keys(target.database, place) if key[0] == name}
            if given_up and not table.spec.key:
                continue
            rows = [
                [row for row in rows if (name, table.key(row)) not in given_up]
                for rows in (expected[name], found[name])
            ]
            _compare({name: rows[0]}, {name: rows[1]})

    def _replayed(self, like: Database) -> Database:
        """What the applied changes come to, one after another, without any constraint."""
        out = Database(like.specs)
        for entry in self._history.entries:
            if entry.ddl is not None and entry.ddl.kind is DdlKind.TRUNCATE:
                out.truncate(entry.ddl.tables[0])
            if entry.change is None or entry.shape is None or entry.place not in self.applied:
                continue
            table = out.tables[entry.shape.name]
            width = len(table.spec.columns)
            before, after = (_padded(row, width) for row in (entry.change.before, entry.change.after))
            slot = table.equal(before) if before and not table.spec.key else table.key(before) if before else None
            if slot is not None:
                table.rows.pop(slot, None)
            if after is not None:
                table.rows[table.slot(after)] = after
        return out


def _padded(row: Row | None, width: int) -> Row | None:
    return row if row is None else (*row, *(None for _ in range(width - len(row))))


def _compare(expected: dict[TableName, list[Row]], found: dict[TableName, list[Row]]) -> None:
    for name, rows in expected.items():
        if rows != found[name]:
            only = [row for row in rows if row not in found[name]]
            extra = [row for row in found[name] if row not in rows]
            raise Mistake(f"{name}: missing {only}, too much {extra}")
