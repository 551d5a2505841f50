"""A source's history: random transactions on a small database, and the log that they leave.

Each transaction has a stream of chance of its own, so that a shrunk run may leave some out and the others stay what
they are as far as the data allows.
"""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.simulations import catalogue
from tidelock.simulations.catalogue import CARD, ECHO, POOL
from tidelock.simulations.log_entry import Entry, Keys
from tidelock.simulations.model import Database, Violation
from tidelock.simulations.plan import NUMBERS_A_CHANGE, Plan
from tidelock.simulations.selection import MAPPING, at_source, selected
from tidelock.simulations.writing import FAR, Writing

ADDED = TargetColumn("extra", "")
ORIGINS = (FAR, FAR, f"third {FAR}", "third", f"a{FAR}")  # the nodes that a transaction came through, the first first
_SIZES = (1, 1, 2, 3, 6)


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
