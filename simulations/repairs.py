"""Rows of the target that somebody changed behind the feed's back, and an operator who has them repaired.

Changed are rows of tables that no foreign key joins to others, and never so that a value is held that the source may
give to another row: then a feed without bad rows must go on as if nothing had happened, and the repair must mend every
row.  Repaired are these and
others, of which nothing may change.
"""

from __future__ import annotations

from random import Random

from tidelock.adapters.app.take_source import FailedChange, chosen
from tidelock.engine.batch.parked_rows import decode_change
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Equality, TargetTable
from tidelock.engine.protocol.events import ChunksPlanned
from tidelock.simulations.catalogue import WORD
from tidelock.simulations.checkers.looks import Looks
from tidelock.simulations.history import History
from tidelock.simulations.owner import Owner
from tidelock.simulations.target import Target


class Repairs:
    def __init__(self, history: History, target: Target) -> None:
        self._target = target
        self._keyed = history.plan.keyed  # no later change of theirs mends what is missing or other at the target
        rekeyed = {name for e in history.entries if e.keys is not None and e.ddl is not None for name in e.ddl.tables}
        self._tables = [name for name in history.held if history.tables[name].key and name not in rekeyed]
        self._image = history.plan.image
        self._serial = 0

    @property
    def wanted(self) -> dict[TableName, dict[Row, None]]:
        """Keys that are not being repaired yet."""
        return {name: keys for name, keys in self._target.stored.wanted.items() if keys}

    def go_on(self, owner: Owner, chance: Random) -> None:
        """Somebody does something, perhaps."""
        what = chance.random()
        if not self._tables or what > 0.18:
            return
        folds = WORD.name in self._tables and chance.random() < 0.5
        name = WORD.name if folds else chance.choice(self._tables)
        if what < 0.04:
            self._tamper(name, chance)
        elif what < 0.1:
            self._want(name, tuple(self._value(chance, c) for c in self._spec(name).key))
        else:
            self.ask(owner)

    def ask(self, owner: Owner, *, again: bool = False) -> None:
        """The shell tells the machine what is wanted; `again`: and what was wanted before and refused."""
        if self._image:
            self._take_source()
        for name, key in self._foreign if again else ():
            self._want(name, key)
        if self.wanted:
            owner.post(
                ChunksPlanned(
                    tuple(
                        ChunkSplit(n, By.KEYS, self._spec(n).key, keys=tuple(keys)) for n, keys in self.wanted.items()
                    )
                )
            )

    def _take_source(self) -> None:
        """Rows that are not as their before-images, and those that wait for a value of theirs, are repaired with all
        that failed of them."""
        failed = [
            FailedChange(":".join(map(str, place)), TableName(row.schema, row.table), decode_change(row.change))
            for place, (row, _) in self._target.parked.items()
        ]
        mine = [row for row in failed if row.table in self._target.tampered]
        for part in chosen(mine, (), {name: self._spec(name).key for name in self._tables}).parts:
            for key in part.keys:
                self._want(part.table, key)

    @property
    def left(self) -> bool:
        """Tells whether rows are locked yet that a repair ends."""
        return self._image and bool(self._target.parked or self._foreign)

    @property
    def _foreign(self) -> list[tuple[TableName, Row]]:
        """Keys of rows that somebody else has written and that no repair has reached yet."""
        return [row for checker in self._target.checkers if isinstance(checker, Looks) for row in checker.foreign]

    def _spec(self, name: TableName) -> TargetTable:
        return self._target.database.tables[name].spec

    def _want(self, name: TableName, key: Row) -> None:
        self._target.stored.wanted.setdefault(name, {})[key] = None

    def _tamper(self, name: TableName, chance: Random) -> None:
        """Another note, a row less, or one more that holds no unique value."""
        table, copy = self._target.database.tables[name], self._target.ledger.copies.get(name)
        spec = table.spec
        if spec.foreign_keys or spec.references or self._target.writes_to(name) or (copy is not None and not copy.done):
            return
        if self._image and any(table.layout.equality[c] is not Equality.EXACT for c in spec.key):
            return  # a locked row might be any other, which no repair can end
        self._serial += 1
        slot = chance.choice(list(table.rows)) if table.rows else None
        if slot is None or chance.random() < 0.3 or name.table in self._keyed:
            key = (f"z{self._serial}" if spec.key == ("text",) else 200 + self._serial,)
            row: Row = table.layout.complete((*key, *table.layout.defaults[len(key) :]))
            self._target.tamper(name, table.key(row), row)
        else:
            row = table.rows[slot]
            note = table.at["note"]
            other = (*row[:note], f"strange {self._serial}", *row[note + 1 :])
            self._target.tamper(name, slot, other if chance.random() < 0.5 else None)
        self._want(name, row[: len(spec.key)])

    def _value(self, chance: Random, column: str) -> object:
        return chance.choice(("a", "A", "b", "e", "e", "e", "é")) if column == "text" else chance.randrange(7)
