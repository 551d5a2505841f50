"""A model to test the engine against: small tables, a database that checks every constraint, and histories of it.

Written apart from the engine and on purpose naive: rows in a list, every check a loop over all rows.
"""

from __future__ import annotations

import enum
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tidelock.engine.model.records import UNKNOWN, Column, Kind, Row, RowChange, Shape, TableName, Transaction, Value
from tidelock.engine.model.schema import Binding, Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows


class Dialect(enum.Enum):
    """MySQL checks everything after every row; PostgreSQL checks foreign keys after every statement."""

    MYSQL = "mysql"
    POSTGRES = "postgres"


class Violation(Exception):
    pass


@dataclass(frozen=True)
class Action:
    """Action of a foreign key on children when their parent goes or changes; the log shows nothing of it."""

    delete: str = "refuse"  # refuse | cascade | null
    update: str = "refuse"

    @property
    def cascades(self) -> bool:
        return self != Action()


def table(
    name: str,
    columns: Sequence[str],
    key: Sequence[str],
    uniques: Sequence[Sequence[str]] = (),
    foreign_keys: Sequence[ForeignKey] = (),
    equality: dict[str, Equality] | None = None,
    opaque: str = "",
) -> TargetTable:
    of = equality or {}
    return TargetTable(
        TableName("shop", name),
        tuple(TargetColumn(c, "text", c not in key, equality=of.get(c, Equality.EXACT)) for c in columns),
        tuple(key),
        (
            *([UniqueKey("primary", tuple(key))] if key else []),
            *(UniqueKey("_".join(u), tuple(u), opaque) for u in uniques),
        ),
        tuple(foreign_keys),
    )


def refers(
    child: str, columns: Sequence[str], parent: str, parent_columns: Sequence[str], cascades: bool = False
) -> ForeignKey:
    return ForeignKey(
        f"{child}_{parent}", TableName("shop", child), tuple(columns), TableName("shop", parent),
        tuple(parent_columns), cascades,
    )  # fmt: skip


def linked(*tables: TargetTable) -> dict[TableName, TargetTable]:
    """With `references` filled in from all foreign keys."""
    keys = [fk for t in tables for fk in t.foreign_keys]
    return {
        t.name: TargetTable(
            t.name, t.columns, t.key, t.uniques, t.foreign_keys, tuple(fk for fk in keys if fk.parent == t.name)
        )
        for t in tables
    }


def shape_of(target: TargetTable, own: Sequence[str] = ()) -> Shape:
    """The log's shape of the table; `own`: columns that only the target has."""
    columns = tuple(Column(c.name, Kind.TEXT) for c in target.columns if c.name not in own)
    return Shape(target.name, columns, target.key)


def bind(target: TargetTable, own: Sequence[str] = (), number: int = 0) -> Binding:
    return Binding(number, shape_of(target, own), target)


def change(
    binding: Binding, before: Row | None, after: Row | None, ordinal: int = 0, number: int = 1, source: str = "0-1"
) -> Change:
    return Change.of(binding, RowChange(binding.number, before, after, ordinal), Transaction(source, number, 0))


def comparable(value: Value, equality: Equality) -> Value:
    """As an accent- and case-insensitive index compares where it folds, byte for byte where not."""
    if not isinstance(value, str):
        return value
    if equality in (Equality.PADDED, Equality.FOLDED_PADDED):
        value = value.rstrip(" ")
    if equality in (Equality.FOLDED, Equality.FOLDED_PADDED):
        value = "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c)).casefold()
    return value


@dataclass(frozen=True)
class World:
    """`own`: columns that only the target has, by table name.  `actions`: by foreign key name.
    `values`: what a column may hold, by its name."""

    name: str
    tables: dict[TableName, TargetTable]
    values: dict[str, Sequence[Value]]
    own: dict[str, Sequence[str]] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    dialects: tuple[Dialect, ...] = (Dialect.MYSQL, Dialect.POSTGRES)

    def bindings(self) -> list[Binding]:
        return [bind(t, self.own.get(t.name.table, ()), number) for number, t in enumerate(self.tables.values())]

    def __repr__(self) -> str:
        return self.name


class Database:
    """Rows of all the target's columns, by table."""

    def __init__(self, world: World, dialect: Dialect = Dialect.MYSQL) -> None:
        self.world = world
        self.dialect = dialect
        self.rows: dict[TableName, list[Row]] = {name: [] for name in world.tables}

    def copy(self, dialect: Dialect | None = None) -> Database:
        twin = Database(self.world, dialect or self.dialect)
        twin.rows = {name: list(rows) for name, rows in self.rows.items()}
        return twin

    def content(self) -> dict[TableName, list[Row]]:
        return {name: sorted(rows, key=repr) for name, rows in self.rows.items()}

    # -------------------------------------------------- constraints

    def tuple_of(self, name: TableName, columns: Sequence[str], row: Row, like: Sequence[Equality] | None = None):
        """Comparable values of the columns; None where one is NULL."""
        target = self.world.tables[name]
        at = {c.name: i for i, c in enumerate(target.columns)}
        equalities = like or [target.columns[at[c]].equality for c in columns]
        out = tuple(comparable(row[at[c]], e) for c, e in zip(columns, equalities, strict=True))
        return None if None in out else out

    def check_unique(self, name: TableName) -> None:
        for unique in self.world.tables[name].uniques:
            seen = [v for row in self.rows[name] if (v := self.tuple_of(name, unique.columns, row)) is not None]
            if len(seen) != len(set(seen)):
                raise Violation(f"{name} {unique.name}: {seen}")

    def check_foreign(self) -> None:
        for name, target in self.world.tables.items():
            for fk in target.foreign_keys:
                like = self.equalities(fk.parent, fk.parent_columns)
                there = {self.tuple_of(fk.parent, fk.parent_columns, row) for row in self.rows[fk.parent]}
                for row in self.rows[name]:
                    wanted = self.tuple_of(name, fk.columns, row, like)
                    if wanted is not None and wanted not in there:
                        raise Violation(f"{fk.name}: {name} {row} has no parent")

    def equalities(self, name: TableName, columns: Sequence[str]) -> list[Equality]:
        of = {c.name: c.equality for c in self.world.tables[name].columns}
        return [of[c] for c in columns]

    def after_row(self, name: TableName) -> None:
        self.check_unique(name)
        if self.dialect is Dialect.MYSQL:
            self.check_foreign()

    # -------------------------------------------------- single rows

    def insert(self, name: TableName, row: Row) -> None:
        self.rows[name].append(row)
        self.after_row(name)

    def delete(self, name: TableName, row: Row) -> None:
        self.rows[name].remove(row)
        self.cascade(name, row, None)
        self.after_row(name)

    def update(self, name: TableName, old: Row, new: Row) -> None:
        self.rows[name][self.rows[name].index(old)] = new
        self.cascade(name, old, new)
        self.after_row(name)

    def cascade(self, name: TableName, old: Row, new: Row | None) -> None:
        for fk in self.world.tables[name].references:
            was = self.tuple_of(name, fk.parent_columns, old)
            now = self.tuple_of(name, fk.parent_columns, new) if new is not None else None
            action = self.world.actions.get(fk.name, Action())
            what = action.delete if new is None else action.update
            if was is None or was == now or what == "refuse":
                continue
            like = self.equalities(name, fk.parent_columns)
            child = self.world.tables[fk.child]
            at = {c.name: i for i, c in enumerate(child.columns)}
            for row in [r for r in self.rows[fk.child] if self.tuple_of(fk.child, fk.columns, r, like) == was]:
                if what == "cascade" and new is None:
                    self.rows[fk.child].remove(row)
                    self.cascade(fk.child, row, None)
                    continue
                moved = list(row)
                for column, parent_column in zip(fk.columns, fk.parent_columns, strict=True):
                    parent_at = [c.name for c in self.world.tables[name].columns].index(parent_column)
                    moved[at[column]] = new[parent_at] if what == "cascade" and new is not None else None
                self.rows[fk.child][self.rows[fk.child].index(row)] = tuple(moved)
                self.cascade(fk.child, row, tuple(moved))
                self.check_unique(fk.child)

    # -------------------------------------------------- the log and the engine's steps

    def whole(self, binding: Binding, row: Row, old: Row | None = None) -> Row:
        """The target's row for a row of the log; its own columns keep what `old` has, else their default.  So do values
        that the log does not tell, where there is an `old`."""
        given = dict(zip((c.name for c in binding.shape.columns), row, strict=True))
        assert old is not None or UNKNOWN not in row, "nothing is written in the place of a value"
        given = {name: value for name, value in given.items() if value is not UNKNOWN}
        kept = dict(zip((c.name for c in binding.target.columns), old, strict=True)) if old is not None else {}
        return tuple(given.get(c.name, kept.get(c.name, "default")) for c in binding.target.columns)

    def find(self, binding: Binding, key: Row) -> Row | None:
        """`key`: the key's values, or the whole row (of the log) where there is none."""
        logged = [c.name for c in binding.shape.columns]
        for row in self.rows[binding.name]:
            if binding.key:
                columns = binding.target.key
                like = self.equalities(binding.name, columns)
                wanted = tuple(comparable(v, e) for v, e in zip(key, like, strict=True))
                if self.tuple_of(binding.name, columns, row) == wanted:
                    return row
            else:
                given = dict(zip((c.name for c in binding.target.columns), row, strict=True))
                if tuple(given[c] for c in logged) == key:
                    return row
        return None

    def replay(self, one: Change) -> None:
        """A change of the log, as a single statement."""
        binding = one.binding
        if one.before is None:
            self.insert(binding.name, self.whole(binding, one.after))
        else:
            old = self.find(binding, binding.key_of(one.before))
            if old is None:
                raise Violation(f"{binding.name} {one.before} is not there")
            if one.after is None:
                self.delete(binding.name, old)
            else:
                self.update(binding.name, old, self.whole(binding, one.after, old))
        self.check_foreign()

    def run(self, steps: Sequence[Step]) -> None:
        """The steps as `engine.protocol.effects` documents them, stricter where it leaves a sink a choice."""
        for step in steps:
            match step:
                case DeleteRows(binding, keys):
                    # A server goes through the rows in an order of its own.
                    for key in sorted(keys, key=repr):
                        row = self.find(binding, key)
                        assert row is not None or binding.key, "an equal row to delete"
                        if row is not None:
                            self.delete(binding.name, row)
                    assert not binding.key or len(set(keys)) == len(keys), "no key twice"
                case UpsertRows(binding, rows, fresh):
                    self.upsert(binding, rows, fresh)
                case UpdateRows(binding, keys, rows, moves):
                    assert moves is False or len(rows) == 1 or moves
                    for key, row in zip(keys, rows, strict=True):
                        self.move(binding, key, row, moves)
            self.check_foreign()

    def upsert(self, binding: Binding, rows: list[Row], fresh: bool) -> None:
        keys = [binding.key_of(row) for row in rows]
        assert not binding.key or len(set(keys)) == len(keys), "no key twice"
        for row in rows:
            old = self.find(binding, binding.key_of(row)) if binding.key else None
            if old is None:
                self.insert(binding.name, self.whole(binding, row))
                continue
            assert not fresh, f"{row} is there"
            new = self.whole(binding, row, old)
            untouched = {c for u in binding.target.uniques for c in u.columns}
            names = [c.name for c in binding.target.columns]
            merged = tuple(o if n in untouched else v for n, o, v in zip(names, old, new, strict=True))
            self.update(binding.name, old, merged)

    def move(self, binding: Binding, key: Row, row: Row, moves: bool) -> None:
        old = self.find(binding, key)
        if old is None and UNKNOWN in row:
            raise Violation(f"{binding.name} {key} is not there")
        if old is None:
            self.insert(binding.name, self.whole(binding, row))
            return
        new = self.whole(binding, row, old)
        if not moves:
            for unique in binding.target.uniques:
                assert self.tuple_of(binding.name, unique.columns, old) == self.tuple_of(
                    binding.name, unique.columns, new
                ), "an update that moves nothing"
        self.update(binding.name, old, new)


# ------------------------------------------------------------------ histories

Draft = tuple[int, int, int, tuple[int, ...]]  # table, action, row or mask, values


def drafts(max_size: int = 12, min_size: int = 0) -> st.SearchStrategy[list[Draft]]:
    """Drafts from which a history is made; a draft that the database would refuse is left out of it."""
    small = st.integers(0, 11)
    one = st.tuples(small, st.integers(0, 5), small, st.tuples(small, small, small, small, small))
    return st.lists(one, min_size=min_size, max_size=max_size)


class History:
    """A source database and the log of what was done to it."""

    def __init__(self, world: World) -> None:
        self.database = Database(world)
        self.bindings = world.bindings()
        self.log: list[Change] = []

    def take(self, draft: Draft) -> Change | None:
        """Carry it out and log it; None if a constraint refuses it."""
        one = self._change(draft)
        if one is None:
            return None
        trial = self.database.copy()
        try:
            trial.replay(one)
        except Violation:
            return None
        self.database = trial
        self.log.append(one)
        return one

    def _change(self, draft: Draft) -> Change | None:
        which, action, pick, picks = draft
        binding = self.bindings[which % len(self.bindings)]
        fresh = self._row(binding, picks)
        rows = self.database.rows[binding.name]
        if action == 0 or not rows:
            before, after = None, fresh
        else:
            names = [c.name for c in binding.target.columns]
            there = dict(zip(names, rows[pick % len(rows)], strict=True))
            before = tuple(there[c.name] for c in binding.shape.columns)
            if action == 1:
                after = None
            elif action == 2:
                after = fresh
            else:  # one column changes
                at = (action + pick) % len(before)
                after = (*before[:at], fresh[at], *before[at + 1 :])
        if before == after:
            return None
        number = len(self.log)
        return change(binding, before, after, ordinal=0, number=number)

    def _row(self, binding: Binding, picks: tuple[int, ...]) -> Row:
        values = self.database.world.values
        columns = [c.name for c in binding.shape.columns]
        return tuple(values[c][picks[i % len(picks)] % len(values[c])] for i, c in enumerate(columns))


# ------------------------------------------------------------------ worlds

_IDS = (1, 2, 3, 4)
_PAIR = {"id": _IDS, "u": ("a", "b", "c", None), "v": ("x", "y", None), "w": (1, 2), "note": (0, 1, 2)}

ACCOUNT = World("account", linked(table("account", ["id", "u", "note"], ["id"], [["u"]])), _PAIR)
TWO_UNIQUES = World("two uniques", linked(table("seat", ["id", "u", "v", "note"], ["id"], [["u"], ["v"]])), _PAIR)
COMPOSITE = World(
    "composite keys",
    linked(table("place", ["id", "w", "u", "v"], ["id", "w"], [["u", "v"]])),
    {**_PAIR, "id": (1, 2)},
)
_FK = {**_PAIR, "parent": (1, 2, 3, None), "code": ("a", "b", "c"), "tag": ("s", "t", None)}
FAMILY = World(
    "parent and child",
    linked(
        table("mother", ["id", "u", "note"], ["id"], [["u"]]),
        table("child", ["id", "parent", "tag"], ["id"], [["tag"]], [refers("child", ["parent"], "mother", ["id"])]),
    ),
    _FK,
)
THREE = World(
    "three levels",
    linked(
        table("a", ["id", "note"], ["id"]),
        table("b", ["id", "parent", "note"], ["id"], [], [refers("b", ["parent"], "a", ["id"])]),
        table("c", ["id", "parent", "u"], ["id"], [["u"]], [refers("c", ["parent"], "b", ["id"])]),
    ),
    {**_FK, "id": (1, 2, 3)},
)
BY_CODE = World(
    "a foreign key to a unique index that is not the key",
    linked(
        table("country", ["id", "code", "note"], ["id"], [["code"]]),
        table("town", ["id", "code", "note"], ["id"], [], [refers("town", ["code"], "country", ["code"])]),
    ),
    {**_FK, "id": (1, 2, 3)},
)
SELF = World(
    "self reference",
    linked(table("node", ["id", "parent", "note"], ["id"], [], [refers("node", ["parent"], "node", ["id"])])),
    _FK,
)
CYCLE = World(
    "cycle of foreign keys",
    linked(
        table("p", ["id", "parent"], ["id"], [], [refers("p", ["parent"], "q", ["id"])]),
        table("q", ["id", "parent"], ["id"], [], [refers("q", ["parent"], "p", ["id"])]),
    ),
    _FK,
)
KEYLESS = World(
    "no key",
    linked(table("visit", ["id", "note"], []), table("account", ["id", "u", "note"], ["id"], [["u"]])),
    {**_PAIR, "id": (1, 2)},
)
FOLDED = World(
    "case-insensitive keys",
    linked(
        table(
            "word", ["name", "u", "note"], ["name"], [["u"]],
            equality={"name": Equality.FOLDED_PADDED, "u": Equality.FOLDED},
        ),
        table("use", ["id", "name"], ["id"], [], [refers("use", ["name"], "word", ["name"])]),
    ),
    {**_PAIR, "name": ("a", "A", "a ", "á", "b"), "u": ("x", "X", "é", "e", None)},
    dialects=(Dialect.MYSQL,),
)  # fmt: skip
CASCADE = World(
    "cascades that are not logged",
    linked(
        table("mother", ["id", "u"], ["id"], [["u"]]),
        table(
            "child", ["id", "parent", "tag"], ["id"], [["tag"]],
            [refers("child", ["parent"], "mother", ["id"], cascades=True)],
        ),
        table("toy", ["id", "parent"], ["id"], [], [refers("toy", ["parent"], "child", ["id"])]),
    ),
    _FK,
    actions={"child_mother": Action("cascade", "cascade")},
)  # fmt: skip
SET_NULL = World(
    "set null that is not logged",
    linked(
        table("mother", ["id", "u"], ["id"], [["u"]]),
        table(
            "child", ["id", "parent", "tag"], ["id"], [["tag", "parent"]],
            [refers("child", ["parent"], "mother", ["id"], cascades=True)],
        ),
    ),
    _FK,
    actions={"child_mother": Action("null", "null")},
)  # fmt: skip
OWN_COLUMNS = World(
    "columns of the target's own",
    linked(table("account", ["id", "u", "own"], ["id"], [["u"]])),
    {**_PAIR},
    own={"account": ["own"]},
)
OPAQUE = World(
    "an index whose equality cannot be computed",
    linked(table("account", ["id", "u", "note"], ["id"], [["u"]], opaque="over a prefix of a column")),
    _PAIR,
)
WORLDS = (
    ACCOUNT, TWO_UNIQUES, COMPOSITE, FAMILY, THREE, BY_CODE, SELF, CYCLE, KEYLESS, FOLDED, CASCADE, SET_NULL,
    OWN_COLUMNS, OPAQUE,
)  # fmt: skip


# ------------------------------------------------------------------ what must be in order, by the book


def locks(world: World, one: Change) -> list[tuple[object, bool]]:
    """(key, exclusive) of a change, straight from design 5."""
    target, logged = one.binding.target, [c.name for c in one.binding.shape.columns]
    database = Database(world)
    images = [image for image in (one.before, one.after) if image is not None]
    both = len(images) == 2
    found: list[tuple[object, bool]] = []

    def values(columns: Sequence[str], image: Row, like: TableName, like_columns: Sequence[str]) -> object:
        given = dict(zip(logged, image, strict=True))
        out = tuple(
            comparable(given[c], e) for c, e in zip(columns, database.equalities(like, like_columns), strict=True)
        )
        return None if None in out else out

    def changed(columns: Sequence[str]) -> bool:
        return not both or any(images[0][logged.index(c)] != images[1][logged.index(c)] for c in columns)

    if not target.key or any(u.opaque for u in target.uniques):
        found.append((("table", target.name), True))

    def take(what: str, of: TableName, columns: Sequence[str], own: Sequence[str], *, exclusive: bool) -> None:
        found.extend(((what, of, tuple(columns), values(own, image, of, columns)), exclusive) for image in images)

    for unique in target.uniques:
        if unique.columns == target.key or changed(unique.columns):
            take("unique", target.name, unique.columns, unique.columns, exclusive=True)
    for fk in target.foreign_keys:
        if changed(fk.columns):
            take("reference", fk.parent, fk.parent_columns, fk.columns, exclusive=False)
    for fk in target.references:
        if changed(fk.parent_columns):
            take("reference", target.name, fk.parent_columns, fk.parent_columns, exclusive=True)
            if fk.cascades and one.before is not None:
                found.append((("table", fk.child), True))
    found.append((("table", target.name), False))
    return [(key, exclusive) for key, exclusive in found if key[-1] is not None]


def conflict(world: World, one: Change, other: Change) -> bool:
    theirs = locks(world, other)
    return any(key == k and (exclusive or x) for key, exclusive in locks(world, one) for k, x in theirs)
