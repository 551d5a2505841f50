"""A source's history: random transactions on a small database, its log, and a reader that cuts the log anywhere."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

import msgspec

from engine.records import Ddl, DdlKind, LogBatch, Position, Row, RowChange, Shape, Transaction, Value
from engine.schema import TargetColumn
from simulations.catalogue import NAMES, POISON, shape
from simulations.model import Database, Table, Token, Violation

Place: TypeAlias = tuple[str, int, int]
ADDED = TargetColumn("extra", "")


class Entry(msgspec.Struct):
    """One thing in the log, `end` the position after it: a row (`shape`), a row of a table not taken, a commit, a DDL.

    `change.table` is not set here: each reader numbers shapes its own way.
    """

    source: str
    number: int
    end: Position
    change: RowChange | None = None
    shape: Shape | None = None
    commit: bool = False
    ddl: Ddl | None = None

    @property
    def place(self) -> Place:
        assert self.change is not None
        return (self.source, self.number, self.change.ordinal)


class History:
    """`entries`: the log.  `source`: the database after all of it.  `rows`: how many changes the feed takes.

    `told`: how many entries any reader has read, so that a receipt can hold no row behind them.
    """

    def __init__(self, chance: Random, source: Database, changes: int, *, ddl: bool, poison: bool) -> None:
        self.source = source
        self.entries: list[Entry] = []
        self.start = Position("log.000001", 0)
        self.rows = 0
        self.told = 0
        self._chance = chance
        self._poison = poison
        self._end = self.start
        self.number = 0
        while self.rows < changes:
            self.number += 1
            if ddl and chance.random() < 0.06:
                self._statement()
            else:
                self._transaction()

    def index(self, position: Position) -> int:
        """How many entries are at or before `position`."""
        order = position.order
        return sum(entry.end.order <= order for entry in self.entries)

    @property
    def last(self) -> Position:
        return self.entries[-1].end

    @property
    def told_end(self) -> Position:
        return self.entries[self.told - 1].end if self.told else self.start

    def _begin(self) -> tuple[str, str, int]:
        file = f"log.{1 + self.number // 8:06}"
        return self._chance.choice(("0-1", "0-2")), file, 0 if file != self._end.file else self._end.offset

    def _close(self, file: str, offset: int) -> Position:
        self._end = Position(file, offset + self._chance.randint(50, 200))
        return self._end

    def _statement(self) -> None:
        chance = self._chance
        source, file, offset = self._begin()
        kind = chance.choice((DdlKind.TRUNCATE, DdlKind.ADD_COLUMN, DdlKind.UNRELATED, DdlKind.OTHER))
        name = chance.choice(list(self.source.tables))
        if self.source.tables[name].spec.references and kind is DdlKind.TRUNCATE:
            kind = DdlKind.OTHER
        if kind is DdlKind.TRUNCATE:
            self.source.truncate(name)
        elif kind is DdlKind.ADD_COLUMN:
            self.source.add_column(name, ADDED)
        statement = Ddl("shop", f"{kind} {name.table}", source, self.number, kind, (name,))
        self.entries.append(Entry(source, self.number, self._close(file, offset), ddl=statement))

    def _transaction(self) -> None:
        chance = self._chance
        writing = _Writing(self, *self._begin())
        for _ in range(chance.choice((1, 1, 2, 3, 6))):
            if chance.random() < 0.1:
                writing.skip()
            name = chance.choice(list(self.source.tables))
            if chance.random() < 0.15:
                self._swap(writing, writing.session.table(name))
            else:
                self._change(writing, writing.session.table(name))
        writing.session.commit()
        self.rows += writing.rows
        end = self._close(writing.file, writing.offset)
        self.entries.append(Entry(writing.source, self.number, end, commit=True))

    def _change(self, writing: _Writing, table: Table) -> None:
        chance = self._chance
        slot = chance.choice(list(table.rows)) if table.rows else None
        wish = chance.random()
        if slot is None or wish < 0.35:
            writing.try_(table, None, self._row(table))
        elif wish < 0.5:
            writing.try_(table, slot, None)
        elif wish < 0.6:  # handed over: another row takes the unique values
            old = table.rows[slot]
            if writing.try_(table, slot, None):
                fresh = self._row(table)
                writing.try_(table, None, (fresh[0], *old[1:]))
        else:
            old = table.rows[slot]
            other = self._row(table)
            columns = {chance.randrange(len(old)) for _ in range(chance.choice((1, 1, 1, 2, 3)))}
            writing.try_(
                table, slot, tuple(n if i in columns else o for i, (o, n) in enumerate(zip(old, other, strict=True)))
            )

    def _swap(self, writing: _Writing, table: Table) -> None:
        """Two rows trade everything but their key, through NULLs; or a chain of keys moves up."""
        chance = self._chance
        if len(table.rows) < 2 or not table.spec.key:
            return
        one, two = chance.sample(list(table.rows), 2)
        first, second = table.rows[one], table.rows[two]
        if chance.random() < 0.5 and isinstance(first[0], int):
            away = 90 + chance.randrange(9)
            if writing.try_(table, one, (away, *first[1:])) and writing.try_(table, two, (first[0], *second[1:])):
                writing.try_(table, table.key((away, *first[1:])), (second[0], *first[1:]))
            return
        empty = (first[0], *(None for _ in first[1:]))
        if writing.try_(table, one, empty) and writing.try_(table, two, (second[0], *first[1:])):
            writing.try_(table, one, (first[0], *second[1:]))

    def _row(self, table: Table) -> Row:
        return tuple(self._value(table, column) for column in table.at)

    def _value(self, table: Table, column: str) -> Value:
        chance = self._chance
        if column in ("id", "rank", "hall", "chip"):
            return chance.randrange(6)
        if column in ("up", "order", "owner"):
            return chance.choice((None, *range(6)))
        if column == "note":
            if self._poison and chance.random() < 0.06:
                return POISON
            return f"n{chance.randrange(1000)}"
        return chance.choice(NAMES if column == "text" else (None, *NAMES))


class _Writing:
    """A transaction being made; what succeeds goes to the log."""

    def __init__(self, history: History, source: str, file: str, offset: int) -> None:
        self.history = history
        self.source, self.file, self.offset = source, file, offset
        self.number = history.number
        self.session = history.source.begin()
        self.rows = 0
        self._ordinal = 0

    def skip(self) -> None:
        """A row of a table that the feed does not take."""
        self._ordinal += 1
        self.history.entries.append(Entry(self.source, self.number, Position(self.file, self.offset, self._ordinal)))

    def try_(self, table: Table, slot: Token | None, after: Row | None) -> bool:
        before = table.rows[slot] if slot is not None else None
        name = table.spec.name
        try:
            if slot is None:
                assert after is not None
                self.session.insert(name, after)
            elif after is None:
                self.session.delete(name, slot)
            else:
                self.session.update(name, slot, after)
        except Violation:
            return False
        self._ordinal += 1
        self.rows += 1
        change = RowChange(-1, before, after, self._ordinal - 1)
        end = Position(self.file, self.offset, self._ordinal)
        self.history.entries.append(Entry(self.source, self.number, end, change, shape(table.spec)))
        return True


class Reader:
    """Reads the log from an index of `entries` on, cut anywhere; it numbers shapes in its own way."""

    def __init__(self, history: History, index: int, chance: Random, longest: int) -> None:
        self._history = history
        self._index = index
        self._chance = chance
        self._longest = longest
        self._resent = True
        self._numbers: dict[Shape, int] = {}
        self._first = chance.randrange(3)

    def next(self) -> LogBatch:
        """The next batch; at the end of the log a heartbeat, which is an empty one."""
        entries = self._history.entries
        if self._index == len(entries):
            heartbeat = LogBatch(self._history.last, self._history.last, resent=self._resent)
            self._resent = False
            return heartbeat
        start = self._index
        stop = start + 1 if entries[start].ddl else min(len(entries), start + self._chance.randint(1, self._longest))
        taken = entries[start:stop]
        if not taken[0].ddl:
            taken = taken[: next((i for i, entry in enumerate(taken) if entry.ddl), len(taken))]
        self._index += len(taken)
        self._history.told = max(self._history.told, self._index)
        batch = self._batch(taken, entries[start - 1].end if start else self._history.start)
        self._resent = False
        return batch

    def _batch(self, taken: list[Entry], prev: Position) -> LogBatch:
        shapes: dict[int, Shape] = {}
        transactions: list[Transaction] = []
        rows: list[RowChange] = []
        begun = 0  # rows of transactions before the open one
        for i, entry in enumerate(taken):
            if entry.change is not None and entry.shape is not None:
                if entry.shape not in self._numbers:
                    self._numbers[entry.shape] = self._first + len(self._numbers)
                    shapes[self._numbers[entry.shape]] = entry.shape
                change = entry.change
                rows.append(RowChange(self._numbers[entry.shape], change.before, change.after, change.ordinal))
            part = i == len(taken) - 1 and not entry.ddl
            if entry.commit or part:
                whole = entry.commit and taken[0].number != entry.number
                if len(rows) > begun or not whole:
                    transactions.append(Transaction(entry.source, entry.number, begun, entry.commit))
                begun = len(rows)
        return LogBatch(
            prev, taken[-1].end, tuple(transactions), tuple(rows), shapes, taken[0].ddl, resent=self._resent
        )
