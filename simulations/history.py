"""A source's history: random transactions on a small database, and the log that they leave.

Each transaction has a stream of chance of its own, so that a shrunk run may leave some out and the others stay what
they are as far as the data allows.
"""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from typing import TypeAlias

import msgspec

from tidelock.engine.model.records import Position, Row, RowChange, Shape, TableName, Value
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.simulations import catalogue
from tidelock.simulations.altering.reshape import Reshape
from tidelock.simulations.catalogue import CARD, ECHO, NAMES, POISON, POOL, TIER, scale_of
from tidelock.simulations.layout import DEFAULT, Layout
from tidelock.simulations.model import Database, Table, Token, Violation
from tidelock.simulations.plan import NUMBERS_A_CHANGE, Plan
from tidelock.simulations.selection import MAPPING, SECRET, at_source, narrow, selected, without_tier

Place: TypeAlias = tuple[str, int, int]
Marks: TypeAlias = tuple[tuple[int, Row], ...]
ADDED = TargetColumn("extra", "")
FAR = "far"  # the target's own node: what comes from there must not go back
ORIGINS = (FAR, FAR, f"third {FAR}", "third", f"a{FAR}")  # the nodes that a transaction came through, the first first
_SIZES = (1, 1, 2, 3, 6)


class Keys(msgspec.Struct, frozen=True):
    """Keys of a table as a statement leaves them."""

    key: tuple[str, ...]
    uniques: tuple[UniqueKey, ...]

    def of(self, spec: TargetTable) -> TargetTable:
        return msgspec.structs.replace(spec, key=self.key, uniques=self.uniques)


class Entry(msgspec.Struct):
    """One thing in the log, `end` the position after it: a row (`shape`), a row of a table not taken, a commit, a DDL.

    `change` is as the source logs it (`change.table` is not set: each reader numbers shapes its own way); `before`,
    `after` as the target should see it, both None where it does not concern the target.
    `origin`: the nodes that the transaction came through, the one that made it first; '' for the source itself.
    `keys`: what a statement makes of its table's keys, at both ends, by an operator's hand at the target.  `adds`: it
    adds a column that was not there.  `reshape`: what it makes of tables that are altered;
    `beside`: tables that it names and the feed does not take.
    `spec`: the target's table of a row as it was then, where tables are altered.
    `swept`: rows that go with this one by a cascade, and that the log tells later or not at all.
    `verdict`: the feed that left it; the row of its change stands, or none does.
    `marks`: rows of feeds' own tables that its transaction wrote, where sites have names.
    """

    source: str
    number: int
    end: Position
    change: RowChange | None = None
    shape: Shape | None = None
    before: Row | None = None
    after: Row | None = None
    commit: bool = False
    ddl: Ddl | None = None
    origin: str = ""
    keys: Keys | None = None
    adds: bool = False
    reshape: Reshape | None = None
    beside: tuple[TableName, ...] = ()
    spec: TargetTable | None = None
    swept: tuple[tuple[TableName, Row], ...] = ()
    marks: Marks = ()
    verdict: str = ""

    @property
    def place(self) -> Place:
        assert self.change is not None
        return (self.source, self.number, self.change.ordinal)

    @property
    def taken(self) -> bool:
        """Tells whether it is a row change that the feed has to apply."""
        return self.before is not None or self.after is not None


class History:
    """`entries`: the log.  `source`: the database after all of it.  `rows`: how many changes the feed takes.
    `tables`: the target's, by name; `at_first`: those that are there from the beginning.
    `deeds`: how often each kind of thing was done, for the coverage table.

    `held`: rows that the tables to be copied have before the log, as the target should see them; none for others that
    may have to be repaired.
    `told`: how many entries any reader has read, so that a receipt can hold no row behind them.
    `mapping`: what the feed takes of it.  `statements`: their share.  `altered`: names of tables that are altered.
    """

    mapping = MAPPING
    statements = 0.06
    altered: frozenset[TableName] = frozenset()

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        chance = Random(plan.seed)
        tables = [table for family in plan.families for table in catalogue.BY_NAME[family]]
        tables += self._more_tables(plan)
        self.tables = catalogue.linked(*tables)  # as the target has them
        self.late = self._late(chance, plan)
        self.at_first = [name for name in self.tables if name != self.late]
        self.source = Database({n: at_source(self.tables[n]) for n in self.at_first})
        self._first_file = chance.choice((1, 1, 999_995))
        self.start = Position(f"log.{self._first_file:06}", 0)
        self.entries: list[Entry] = []
        self.deeds: dict[str, int] = {}
        self.rows = 0
        self.told = 0
        self.number = 0
        self._end = self.start
        self.held: dict[TableName, tuple[Row, ...]] = {}
        if plan.copy is not None:
            self._fill(Random(f"held {plan.seed}"), plan.copy.families, plan.copy.rows)
        if plan.repairs:
            others = {*self.held, ECHO.name, POOL.name}
            self.held |= {name: () for name in self.at_first if name not in others}
        while self.rows < plan.changes and self.number < NUMBERS_A_CHANGE * plan.changes:
            self.number += 1
            if self.number not in plan.without:
                self._happen(Random((plan.seed << 12) + self.number))
        self._orders = [entry.end.order for entry in self.entries]

    def _more_tables(self, plan: Plan) -> list[TargetTable]:
        """Returns tables beside those of the families."""
        return [ECHO] if "two_way" in plan.features else []

    def _late(self, chance: Random, plan: Plan) -> TableName | None:
        """A table that is made only on the way."""
        if "ddl" not in plan.features or chance.random() < 0.5:
            return None
        families = [catalogue.BY_NAME[f] for f in plan.families if f != POOL.name.table]
        alone = [family[0].name for family in families if len(family) == 1]
        return chance.choice(alone) if alone and len(self.tables) > 1 else None

    def at_target(self, spec: TargetTable) -> TargetTable:
        """Returns a table of the source as the target has it at the beginning, or as statements leave it there."""
        return spec

    def index(self, position: Position) -> int:
        """Returns how many entries are at or before `position`."""
        return bisect_right(self._orders, position.order)

    def behind(self, position: Position, entries: int) -> Position:
        """The place so many entries behind this one."""
        if not entries:
            return position
        return self.entries[min(self.index(position) + entries, len(self.entries)) - 1].end

    def place(self, entries: int) -> Position:
        """The position after so many entries."""
        return self.entries[entries - 1].end if entries else self.start

    @property
    def last(self) -> Position:
        return self.entries[-1].end if self.entries else self.start

    @property
    def told_end(self) -> Position:
        return self.entries[self.told - 1].end if self.told else self.start

    def note(self, deed: str) -> None:
        self.deeds[deed] = self.deeds.get(deed, 0) + 1

    def close(self, file: str, offset: int, length: int) -> Position:
        """The end of a transaction or statement."""
        self._end = Position(file, offset + length)
        return self._end

    # ------------------------------------------------------------------ what happens at the source

    def _fill(self, chance: Random, families: tuple[str, ...], rows: int) -> None:
        """Rows that no log tells of, in the tables of these families."""
        names = [table.name for family in families for table in catalogue.BY_NAME[family]]
        names = [name for name in names if name in self.at_first]
        writing = Writing(self, chance, "", "", 0, "")
        for _ in range(rows):
            for name in names:
                writing.try_(writing.table(name), None, writing.row(name))
        self.entries.clear()
        self.rows = 0
        self.deeds.clear()
        writing.settle()
        for name in names:
            table = self.source.tables[name]
            held = (selected(name, table.layout.logged(row)) for row in table.rows.values())
            self.held[name] = tuple(row for row in held if row is not None)

    def _happen(self, chance: Random) -> None:
        file = f"log.{self._first_file + self.number // 8:06}"
        offset = 0 if file != self._end.file else self._end.offset
        source = chance.choice(("0-1", "0-2"))
        features = self.plan.features
        due = self.late is not None and self.rows > self.plan.changes // 3
        if due or ("ddl" in features and chance.random() < self.statements):
            self._statement(chance, source, file, offset, due=due)
            return
        far = "two_way" in features and chance.random() < 0.25
        origin = chance.choice(ORIGINS) if far else ""
        if far:
            self.note("from the target's side" if FAR in origin.split() else "from a third node")
        writing = Writing(self, chance, source, file, offset, origin)
        if FAR in origin.split():
            writing.echo()
        else:
            large = "large" in features and chance.random() < 0.08
            writing.some(chance.randint(20, 50) if large else chance.choice(_SIZES))
        writing.commit()

    def _statement(self, chance: Random, source: str, file: str, offset: int, *, due: bool) -> None:
        kind = chance.choice(
            (DdlKind.TRUNCATE, DdlKind.TRUNCATE, DdlKind.ADD_COLUMN, DdlKind.UNRELATED, DdlKind.OTHER, DdlKind.OTHER)
        )
        others = [name for name in self.source.tables if name != POOL.name and name not in self.altered]
        name = chance.choice(others or [*self.source.tables])
        keys, adds, emptied = None, False, list[TableName]()
        if due:
            assert self.late is not None
            kind, name, self.late = DdlKind.CREATE_TABLE, self.late, None
            self.source.create(at_source(self.tables[name]))
        elif kind is DdlKind.TRUNCATE:
            emptied = self.source.referring(name)
            for table in (*emptied, name):
                self.source.truncate(table)
            if emptied:
                self.note("tables emptied with the one that they refer to")
        elif kind is DdlKind.ADD_COLUMN:
            adds = ADDED.name not in self.source.tables[name].at
            self.source.add_column(name, ADDED)
        elif kind is DdlKind.OTHER and (keys := self._other_keys(chance, self.source.tables[name].spec)) is not None:
            self.note("keys changed")
            kind = DdlKind.ALTERED if self.number % 2 else kind  # which the target follows by itself
        self.note(f"ddl {kind}")
        statement = Ddl("shop", f"{kind} {name.table}", source, self.number, kind, (name, *emptied))
        end = self.close(file, offset, chance.randint(50, 200))
        self.entries.append(Entry(source, self.number, end, ddl=statement, keys=keys, adds=adds))

    def _other_keys(self, chance: Random, spec: TargetTable) -> Keys | None:
        """The table gets a unique index, loses one, or loses its primary key; None where it cannot.

        What frees a value of ECHO at the target's side is not in this world; nor are rows kept that lose their key."""
        kept = self.plan.copy.keep if self.plan.copy is not None else ()
        if spec.name == ECHO.name or spec.name.table in kept or spec.references or spec.foreign_keys or not spec.key:
            return None
        others = tuple(u for u in spec.uniques if u.columns != spec.key)
        primary = tuple(u for u in spec.uniques if u.columns == spec.key)
        wish = chance.choice(("drop", "drop", "add", "keyless"))
        if wish == "drop" and others:
            keys = Keys(spec.key, (*primary, *others[1:]))
        elif wish == "add" and all(u.name != "by_note" for u in others):
            keys = Keys(spec.key, (*spec.uniques, UniqueKey("by_note", ("note",))))
        elif wish == "keyless" and spec.name != CARD.name and spec.name.table not in self.plan.keyed:
            # which of two equal rows has the target's own value, or is the one of a key?
            keys = Keys((), others)
        else:
            return None
        try:
            self.source.alter(keys.of(spec))
        except Violation:
            return None
        return keys


class Writing:
    """A transaction being made; what succeeds goes to the log."""

    def __init__(self, history: History, chance: Random, source: str, file: str, offset: int, origin: str) -> None:
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
