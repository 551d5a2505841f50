"""A transaction of the simulated source while it is made: rows that change, and what of them goes to the log."""

from __future__ import annotations

from random import Random
from typing import Protocol

from tidelock.engine.model.records import Position, Row, RowChange, TableName, Value
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.simulations.catalogue import ECHO, NAMES, POISON, TIER, scale_of
from tidelock.simulations.layout import DEFAULT, Layout
from tidelock.simulations.log_entry import Entry
from tidelock.simulations.model import Database, Table, Token, Violation
from tidelock.simulations.plan import Plan
from tidelock.simulations.selection import SECRET, narrow, selected, without_tier

FAR = "far"  # the target's own node: what comes from there must not go back


class Source(Protocol):
    """A history, as its transactions see it."""

    plan: Plan
    source: Database
    entries: list[Entry]
    rows: int
    number: int
    altered: frozenset[TableName]

    def note(self, deed: str) -> None:
        """Counts a deed."""

    def close(self, file: str, offset: int, length: int) -> Position:
        """Returns the end of a transaction."""

    def at_target(self, spec: TargetTable) -> TargetTable:
        """Returns a table of the source as the target has it."""


class Writing:
    """A transaction being made; what succeeds goes to the log."""

    def __init__(self, history: Source, chance: Random, source: str, file: str, offset: int, origin: str) -> None:
        self._history = history
        self._chance = chance
        self._source, self._file, self._offset, self._origin = source, file, offset, origin
        self._number = history.number
        self._session = history.source.begin()
        self._ordinal = 0
        self._poison = _poisoned(history.plan)
        self._logs_cascades = history.plan.cascades

    def table(self, name: TableName) -> Table:
        return self._session.table(name)

    def row(self, name: TableName) -> Row:
        return self._row(self.table(name))

    def settle(self) -> None:
        """Commit, and log nothing."""
        self._session.commit()

    def commit(self) -> None:
        history = self._history
        self._session.commit()
        end = history.close(self._file, self._offset, self._chance.randint(50, 200))
        history.entries.append(Entry(self._source, self._number, end, commit=True, origin=self._origin))

    def some(self, changes: int) -> None:
        """Makes so many things happen to tables of the feed."""
        chance = self._chance
        tables = self._history.source.tables
        names = [name for name in tables if name != ECHO.name] or [*tables]
        if not names:
            return
        for _ in range(changes):
            if chance.random() < 0.1:
                self._skip()
            table = self._session.table(chance.choice(names))
            if chance.random() < 0.15:
                self._trade(table)
            else:
                self._change(table)
        if ECHO.name in self._history.source.tables and chance.random() < 0.3:
            self._touch_echo(2 * chance.randrange(4))

    def echo(self) -> None:
        """Write what the target's own users did: rows that this side never writes."""
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            self._touch_echo(1 + 2 * self._chance.randrange(4))

    def _touch_echo(self, number: int) -> None:
        table = self._session.table(ECHO.name)
        there = (number,) in table.rows
        after = None if there and self._chance.random() < 0.3 else self._row(table, number)
        self.try_(table, (number,) if there else None, after)

    def _skip(self) -> None:
        """A row of a table that the feed does not take."""
        self._ordinal += 1
        self._history.entries.append(self._entry())

    def _entry(self) -> Entry:
        end = Position(self._file, self._offset, self._ordinal)
        return Entry(self._source, self._number, end, origin=self._origin)

    def _change(self, table: Table) -> None:
        chance = self._chance
        slot = chance.choice(list(table.rows)) if table.rows else None
        wish = chance.random()
        if slot is None or wish < 0.35:
            self.try_(table, None, self._row(table))
        elif wish < 0.5:
            self.try_(table, slot, None)
        elif wish < 0.6:  # handed over: another row takes the unique values
            old = table.rows[slot]
            if self.try_(table, slot, None):
                fresh = self._row(table)
                if self.try_(table, None, (fresh[0], *old[1:])):
                    self._history.note("unique values handed over")
        else:
            old = table.rows[slot]
            columns = [chance.randrange(len(old)) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
            new = list(old)
            for place in columns:
                new[place] = self._value(table.spec.columns[place])
            self.try_(table, slot, tuple(new))

    def _trade(self, table: Table) -> None:
        """Two rows trade everything but their key, through NULLs; or a chain of keys moves up."""
        chance = self._chance
        if len(table.rows) < 2 or not table.spec.key:
            return
        one, two = chance.sample(list(table.rows), 2)
        first, second = table.rows[one], table.rows[two]
        if chance.random() < 0.5 and isinstance(first[0], int):
            away = (90 + chance.randrange(9), *first[1:])
            steps = ((one, away), (two, (first[0], *second[1:])), (table.key(away), (second[0], *first[1:])))
            what = "keys of two rows traded"
        else:
            empty = (first[0], *(None for _ in first[1:]))
            steps = ((one, empty), (two, (second[0], *first[1:])), (one, (first[0], *second[1:])))
            what = "unique values of two rows swapped"
        if all(self.try_(table, slot, row) for slot, row in steps):
            self._history.note(what)

    def _row(self, table: Table, first: Value = None) -> Row:
        row = [self._value(column) for column in table.spec.columns]
        if first is not None:
            row[0] = first
        return tuple(row)

    def _value(self, of: TargetColumn) -> Value:
        chance, column = self._chance, of.name
        if of.type:
            return f"{int(chance.random() * 5)}.{'0' * scale_of(of)}"
        if column in ("id", "rank", "hall", "chip"):
            return int(chance.random() * 6)
        if column in ("up", "order", "owner", "pet"):
            return chance.choice((None, 0, 1, 2, 3, 4, 5))
        if column == "note":
            if self._poison and chance.random() < self._poison:
                return POISON
            return f"n{int(chance.random() * 1000)}"
        if column == TIER:
            return chance.choice((DEFAULT, DEFAULT, DEFAULT, "a", None))
        if column == "region":
            return chance.choice(("eu", "eu", "us", None))
        if column == SECRET:
            return f"s{int(chance.random() * 1000)}"
        return chance.choice(NAMES if column == "text" else (None, *NAMES))

    def try_(self, table: Table, slot: Token | None, after: Row | None) -> bool:
        """Insert (`slot` None), delete (`after` None) or update; False if a constraint refuses."""
        if after is not None and any(after[place] is None for place in table.layout.filled):
            return False
        before = table.rows[slot] if slot is not None else None
        name = table.spec.name
        cascaded = self._session.cascaded
        cascaded.clear()
        try:
            if slot is None:
                assert after is not None
                self._session.insert(name, after)
            elif after is None:
                self._session.delete(name, slot)
            else:
                self._session.update(name, slot, after)
        except Violation:
            return False
        swept = tuple(cascaded) if self._logs_cascades != "child first" else ()
        children = list(cascaded) if self._logs_cascades != "hidden" else []
        if len(cascaded) > len(children):
            self._history.note("cascade not logged")
        if self._logs_cascades == "child first":
            self._log_all(children)
        self._log(table.layout, before, after, swept)
        if self._logs_cascades == "parent first":
            self._log_all(children[::-1])
        return True

    def _log_all(self, deleted: list[tuple[TableName, Row]]) -> None:
        for name, row in deleted:
            self._history.note("cascade logged")
            self._log(self._session.table(name).layout, row, None)

    def _log(
        self, laid: Layout, before: Row | None, after: Row | None, swept: tuple[tuple[TableName, Row], ...] = ()
    ) -> None:
        """A row that goes from one of two tables to the other, which are one at the target, leaves and comes."""
        name = laid.spec.name
        if None not in (before, after) and narrow(name, before, DEFAULT) != narrow(name, after, DEFAULT):
            self._history.note("row goes from one of two tables to the other")
            self._log(laid, before, None, swept)
            self._log(laid, None, after)
            return
        self._ordinal += 1
        entry = self._entry()
        entry.swept = swept
        entry.shape = laid.shape
        entry.spec = self._history.at_target(laid.spec) if name in self._history.altered else None
        before, after = laid.logged(before), laid.logged(after)
        if narrow(name, before or after, DEFAULT):
            self._history.note("row without a column of a unique index")
            entry.shape = without_tier(laid.shape)
            before, after = ((row[0], *row[2:]) if row is not None else None for row in (before, after))
        entry.change = RowChange(-1, before, after, self._ordinal - 1)
        if FAR not in self._origin.split():
            entry.before, entry.after = selected(laid.spec.name, before), selected(laid.spec.name, after)
            self._history.rows += entry.taken
            if before is not None and after is not None and (entry.before is None) != (entry.after is None):
                self._history.note("row enters the filter" if entry.before is None else "row leaves the filter")
        self._history.entries.append(entry)


def _poisoned(plan: Plan) -> float:
    """The share of notes that the target refuses: more where tables are copied, as a chunk is open for a short time,
    and where they are altered, as a row fails for a short time."""
    if "poison" not in plan.features:
        return 0.0
    return 0.06 if plan.copy is None and not plan.altered else 0.15
