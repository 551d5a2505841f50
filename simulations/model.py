"""A small database that keeps its constraints row by row, as InnoDB does: source and target of the simulated world.

Unique keys compare as the index does (`Equality`, prefix indexes), NULL conflicts with nothing, foreign keys refuse or
cascade.  A `Session` is one transaction on a copy of what it touched; two sessions that are open at the same time and
touch the same row, unique value or parent key are found by their `tokens`: real servers would block there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from engine.effects import DeleteRows, Step, UpdateRows, UpsertRows
from engine.records import Row, TableName, Value
from engine.schema import Binding, Equality, ForeignKey, TargetColumn, TargetTable, UniqueKey

Token = tuple[Value, ...]
Refusal = Callable[[TableName, Row], bool]


class Violation(Exception):
    """A constraint or the target's own rule refuses a row."""


def comparable(value: Value, equality: Equality) -> Value:
    """The value as the index compares it (an accent- and case-insensitive collation where it is folded)."""
    if not isinstance(value, str) or equality is Equality.EXACT:
        return value
    if equality in (Equality.PADDED, Equality.FOLDED_PADDED):
        value = value.rstrip(" ")
    if equality is Equality.PADDED:
        return value
    return "".join(c for c in unicodedata.normalize("NFKD", value) if not unicodedata.combining(c)).casefold()


class Table:
    """Rows by comparable key, or by number where the table has no key."""

    def __init__(self, spec: TargetTable) -> None:
        self.spec = spec
        self.rows: dict[Token, Row] = {}
        self.at = {column.name: i for i, column in enumerate(spec.columns)}
        self.equality = {column.name: column.equality for column in spec.columns}
        self._serial = 0

    def key(self, row: Row) -> Token:
        return self.values(row, self.spec.key) or ()

    def values(self, row: Row, columns: tuple[str, ...]) -> Token | None:
        """The comparable values, None where one is NULL."""
        out = tuple(comparable(row[self.at[c]], self.equality[c]) for c in columns)
        return None if None in out else out

    def unique(self, index: UniqueKey, row: Row) -> Token | None:
        values = self.values(row, index.columns)
        return tuple(v[:1] for v in values) if index.opaque and values else values

    def slot(self, row: Row) -> Token:
        """Where a new row goes."""
        if self.spec.key:
            return self.key(row)
        self._serial += 1
        return (self._serial,)

    def equal(self, row: Row) -> Token | None:
        """One row that is equal in all columns (tables without key)."""
        return next((slot for slot, other in self.rows.items() if other == row), None)

    def copy(self) -> Table:
        twin = Table(self.spec)
        twin.rows = dict(self.rows)
        twin._serial = self._serial
        return twin


class Database:
    """`refuses(table, row)`: a rule of the target that the source does not have (a type too narrow, a CHECK)."""

    def __init__(self, specs: dict[TableName, TargetTable], refuses: Refusal = lambda _table, _row: False) -> None:
        self.tables = {name: Table(spec) for name, spec in specs.items()}
        self.refuses = refuses

    @property
    def specs(self) -> dict[TableName, TargetTable]:
        return {name: table.spec for name, table in self.tables.items()}

    def begin(self) -> Session:
        return Session(self)

    def truncate(self, name: TableName) -> None:
        self.tables[name].rows.clear()

    def add_column(self, name: TableName, column: TargetColumn) -> None:
        """Doing it twice is doing it once."""
        old = self.tables[name]
        if column.name in old.at:
            return
        spec = old.spec
        grown = Table(
            TargetTable(spec.name, (*spec.columns, column), spec.key, spec.uniques, spec.foreign_keys, spec.references)
        )
        grown.rows = {slot: (*row, None) for slot, row in old.rows.items()}
        grown._serial = old._serial
        self.tables[name] = grown

    def copy(self) -> Database:
        twin = Database({}, self.refuses)
        twin.tables = {name: table.copy() for name, table in self.tables.items()}
        return twin

    def broken(self) -> str:
        """The first unique or foreign key that does not hold; '' if all do."""
        for name, table in self.tables.items():
            for index in table.spec.uniques:
                values = [v for row in table.rows.values() if (v := table.unique(index, row)) is not None]
                if len(values) != len(set(values)):
                    return f"{index.name} of {name} holds {sorted(values, key=repr)}"
            for fk in table.spec.foreign_keys:
                parent = self.tables[fk.parent]
                there = {parent.values(row, fk.parent_columns) for row in parent.rows.values()}
                if orphans := {table.values(row, fk.columns) for row in table.rows.values()} - there - {None}:
                    return f"{name} refers to {orphans}, which {fk.parent} does not hold"
        return ""

    def contents(self) -> dict[TableName, list[Row]]:
        return {name: sorted(table.rows.values(), key=repr) for name, table in self.tables.items()}


class Session:
    """One transaction.  `insert`, `update` and `delete` raise Violation, and then nothing has changed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tables: dict[TableName, Table] = {}
        self._written: dict[tuple[TableName, Token], None] = {}
        self.exclusive: set[Token] = set()
        self.shared: set[Token] = set()

    def table(self, name: TableName) -> Table:
        if name not in self._tables:
            self._tables[name] = self._database.tables[name].copy()
        return self._tables[name]

    def conflicts(self, other: Session) -> set[Token]:
        """What both touch: a real server would have made one wait."""
        return self.exclusive & (other.exclusive | other.shared) | self.shared & other.exclusive

    def commit(self) -> None:
        for name, slot in self._written:
            base, mine = self._database.tables[name], self._tables[name]
            base._serial = max(base._serial, mine._serial)
            if slot in mine.rows:
                base.rows[slot] = mine.rows[slot]
            else:
                base.rows.pop(slot, None)

    # ------------------------------------------------------------------ rows

    def insert(self, name: TableName, row: Row) -> None:
        table = self.table(name)
        self._put(table, None, table.slot(row), row)

    def update(self, name: TableName, slot: Token, row: Row) -> None:
        table = self.table(name)
        old = table.rows[slot]
        for fk in table.spec.references:
            if table.values(old, fk.parent_columns) != table.values(row, fk.parent_columns):
                self._refuse_children(fk, table, old)
        self._put(table, slot, table.key(row) if table.spec.key else slot, row)

    def delete(self, name: TableName, slot: Token) -> None:
        table = self.table(name)
        row = table.rows[slot]
        for fk in table.spec.references:
            if not fk.cascades:
                self._refuse_children(fk, table, row, slot)
        self._drop(table, slot)
        self._touch(table, row, None)
        for fk in table.spec.references:
            if fk.cascades:
                for child in self._children(fk, table, row):
                    self.delete(fk.child, child)

    def _put(self, table: Table, held: Token | None, slot: Token, row: Row) -> None:
        """Write `row` at `slot`, in the place of what stands at `held`.  Checks all, then changes."""
        name = table.spec.name
        old = table.rows[held] if held is not None else None
        if self._database.refuses(name, row):
            raise Violation(f"{name} refuses {row}")
        if slot != held and slot in table.rows:
            raise Violation(f"duplicate key {slot} in {name}")
        for index in table.spec.uniques:
            value = table.unique(index, row)
            if value is not None and any(
                other != held and table.unique(index, there) == value for other, there in table.rows.items()
            ):
                raise Violation(f"duplicate {value} in {index.name} of {name}")
        for fk in table.spec.foreign_keys:
            wanted = table.values(row, fk.columns)
            if wanted is None or (old is not None and wanted == table.values(old, fk.columns)):
                continue
            parent = self.table(fk.parent)
            parents = [other for there, other in parent.rows.items() if parent is not table or there != held]
            if parent is table:
                parents.append(row)
            if not any(parent.values(other, fk.parent_columns) == wanted for other in parents):
                raise Violation(f"{name} {row} has no parent {wanted} in {fk.parent}")
        if held is not None and held != slot:
            self._drop(table, held)
        table.rows[slot] = row
        self._written[name, slot] = None
        self._touch(table, old, row)

    def _drop(self, table: Table, slot: Token) -> None:
        del table.rows[slot]
        self._written[table.spec.name, slot] = None

    def _refuse_children(self, fk: ForeignKey, parent: Table, row: Row, but: Token | None = None) -> None:
        children = self._children(fk, parent, row)
        if children and not (fk.child == parent.spec.name and children == [but]):
            raise Violation(f"{fk.child} refers to {row} of {fk.parent}")

    def _children(self, fk: ForeignKey, parent: Table, row: Row) -> list[Token]:
        value = parent.values(row, fk.parent_columns)
        child = self.table(fk.child)
        return [s for s, other in child.rows.items() if value is not None and child.values(other, fk.columns) == value]

    def _touch(self, table: Table, old: Row | None, new: Row | None) -> None:
        """Note what a real server would lock."""
        spec, values = table.spec, table.values
        if not spec.key:
            self.exclusive.add((spec.name, "table"))
        moved = old is None or new is None or (bool(spec.key) and table.key(old) != table.key(new))
        for row in (old, new):
            if row is None:
                continue
            if spec.key:
                self.exclusive.add((spec.name, "row", table.key(row)))
            for index in spec.uniques:
                value = table.unique(index, row)
                if value and (moved or not old or not new or table.unique(index, old) != table.unique(index, new)):
                    self.exclusive.add((spec.name, index.name, value))
            for fk in spec.references:
                value = values(row, fk.parent_columns)
                if value and (not old or not new or values(old, fk.parent_columns) != values(new, fk.parent_columns)):
                    self.exclusive.add((spec.name, fk.parent_columns, value))
            for fk in spec.foreign_keys:
                value = values(row, fk.columns)
                if value and (not old or not new or values(old, fk.columns) != values(new, fk.columns)):
                    self.shared.add((fk.parent, fk.parent_columns, value))

    # ------------------------------------------------------------------ steps of a batch

    def run(self, steps: list[Step]) -> None:
        """As `engine.effects` documents them.  Raises Violation: then the session is to be thrown away."""
        for step in steps:
            match step:
                case DeleteRows():
                    for key in step.keys:
                        self._delete_row(step.table, key)
                case UpsertRows():
                    for row in step.rows:
                        self._upsert_row(step.table, row)
                case UpdateRows():
                    for key, row in zip(step.keys, step.rows, strict=True):
                        self._update_row(step.table, key, row, moves=step.moves)

    def _delete_row(self, binding: Binding, key: Row) -> None:
        table = self.table(binding.name)
        slot = self._find(table, binding, key)
        if slot is not None:
            self.delete(binding.name, slot)

    def _upsert_row(self, binding: Binding, row: Row) -> None:
        table = self.table(binding.name)
        slot = self._find(table, binding, binding.key_of(row)) if binding.key else None
        if slot is None:
            self.insert(binding.name, self._line_up(table, binding, row, None))
        else:
            self.update(binding.name, slot, self._unmoved(table, binding, row, table.rows[slot]))

    def _update_row(self, binding: Binding, key: Row, row: Row, *, moves: bool) -> None:
        table = self.table(binding.name)
        slot = self._find(table, binding, key)
        if slot is None:
            self.insert(binding.name, self._line_up(table, binding, row, None))
            return
        old = table.rows[slot]
        new = self._line_up(table, binding, row, old) if moves else self._unmoved(table, binding, row, old)
        self.update(binding.name, slot, new)

    def _find(self, table: Table, binding: Binding, key: Row) -> Token | None:
        if not binding.key:
            return table.equal(self._line_up(table, binding, key, None))
        names = table.spec.key
        slot = tuple(comparable(v, table.equality[c]) for v, c in zip(key, names, strict=True))
        return slot if slot in table.rows else None

    def _line_up(self, table: Table, binding: Binding, row: Row, old: Row | None) -> Row:
        out = list(old) if old is not None else [None] * len(table.spec.columns)
        for column, value in zip(binding.columns, row, strict=True):
            if column is not None:
                out[table.at[column.name]] = value
        return tuple(out)

    def _unmoved(self, table: Table, binding: Binding, row: Row, old: Row) -> Row:
        """`row` over `old`, except its unique columns: sinks leave those out of SET."""
        unique = {c for index in table.spec.uniques for c in index.columns}
        return tuple(
            kept if name in unique else new
            for name, kept, new in zip(table.at, old, self._line_up(table, binding, row, old), strict=True)
        )
