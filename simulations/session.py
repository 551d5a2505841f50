"""One transaction of the modelled database, on a copy of the tables it touched.

Two target sessions that are open at the same time and touch the same row, unique value or parent key are found by what
each locked (`exclusive`, `shared`): real servers would block there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelock.engine.model.records import UNKNOWN, Row, TableName
from tidelock.engine.model.schema import Binding, ForeignKey
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows
from tidelock.simulations.layout import Token, comparable
from tidelock.simulations.looking import look_and_write
from tidelock.simulations.model import Table, Violation

if TYPE_CHECKING:
    from tidelock.simulations.model import Database

Lock = tuple[TableName, object, Token]
Savepoint = tuple[dict[TableName, Table], dict[tuple[TableName, Token], None], int]
Wrote = tuple[TableName, Row | None, Row | None]


class Session:
    """`insert`, `update` and `delete` raise Violation, and then nothing has changed.  `watched`: note what is locked.

    `wrote`: (table, row before, row after) of each row that it wrote, in order, as a log has them.
    `displaced`: (table, row) of what made room for others' unique values.
    `cascaded`: (table, row) of what foreign keys deleted by themselves.  `trusting`: a table's foreign keys to itself
    hold in the end only."""

    def __init__(self, database: Database, *, watched: bool) -> None:
        self._database = database
        self._watched = watched
        self._tables: dict[TableName, Table] = {}
        self._written: dict[tuple[TableName, Token], None] = {}
        self.exclusive: set[Lock] = set()
        self.shared: set[Lock] = set()
        self.wrote: list[Wrote] = []
        self.displaced: list[tuple[TableName, Row]] = []
        self.cascaded: list[tuple[TableName, Row]] = []
        self.trusting = False

    def table(self, name: TableName) -> Table:
        found = self._tables.get(name)
        if found is None:
            found = self._tables[name] = self._database.tables[name].copy()
        return found

    @property
    def touched(self) -> tuple[TableName, ...]:
        """Tables that it wrote to."""
        return tuple(dict.fromkeys(name for name, _ in self._written))

    def apart(self) -> Session:
        """Another one of the same database, to note locks in."""
        return Session(self._database, watched=True)

    def savepoint(self) -> Savepoint:
        return {name: table.copy() for name, table in self._tables.items()}, self._written.copy(), len(self.wrote)

    def back_to(self, savepoint: Savepoint) -> None:
        """Undoes what ran since; its locks stay."""
        self._tables, self._written, wrote = savepoint
        del self.wrote[wrote:]

    def conflicts(self, other: Session) -> set[Lock]:
        """Returns the rows that both touch: a real server would have made one wait."""
        return self.exclusive & (other.exclusive | other.shared) | self.shared & other.exclusive

    def commit(self) -> None:
        """Commit what it wrote, row by row: others may have committed since it began."""
        tables = self._database.tables
        for name, slot in self._written:
            tables[name].drop(slot)
        for name, slot in self._written:
            base, mine = tables[name], self._tables[name]
            base.serial = max(base.serial, mine.serial)
            if slot in mine.rows:
                base.put(slot, mine.rows[slot])

    # ------------------------------------------------------------------ rows

    def insert(self, name: TableName, row: Row) -> None:
        table = self.table(name)
        self._put(table, None, table.slot(row), row)

    def update(self, name: TableName, slot: Token, row: Row) -> None:
        table = self.table(name)
        old = table.rows[slot]
        for fk, read in table.layout.children:
            value = read(old)
            if value is not None and value != read(row):
                self._refuse_children(fk, value, old)
        self._put(table, slot, table.key(row) if table.spec.key else slot, row)

    def delete(self, name: TableName, slot: Token) -> None:
        self._refuse_delete(name, slot)
        self._delete(name, slot)

    def _refuse_delete(self, name: TableName, slot: Token) -> None:
        """Raises Violation where a child refuses, of this row or of one that would go with it."""
        table = self.table(name)
        row = table.rows[slot]
        for fk, read in table.layout.children:
            value = read(row)
            if value is None:
                continue
            if not fk.cascades:
                self._refuse_children(fk, value, row, slot)
                continue
            for child in self._children(fk, value):
                self._refuse_delete(fk.child, child)

    def _delete(self, name: TableName, slot: Token) -> None:
        table = self.table(name)
        row = table.rows[slot]
        self._drop(table, slot)
        self.wrote.append((name, row, None))
        if self._watched:
            self.note_locks(table, row, None)
        for fk, read in table.layout.children:
            if fk.cascades and (value := read(row)) is not None:
                for child in self._children(fk, value):
                    gone = self.table(fk.child).rows[child]
                    self._delete(fk.child, child)
                    self.cascaded.append((fk.child, gone))

    def _put(self, table: Table, held: Token | None, slot: Token, row: Row) -> None:
        """Write `row` at `slot`, in the place of what stands at `held`.  Checks all, then changes."""
        row = table.layout.complete(row)
        name = table.spec.name
        old = table.rows[held] if held is not None else None
        if self._database.refuses(name, row):
            raise Violation(f"{name} refuses {row}")
        if slot != held and slot in table.rows:
            raise Violation(f"duplicate key {slot} in {name}")
        for index, (unique, read) in zip(table.indexes, table.layout.uniques, strict=True):
            value = read(row)
            if value is not None and index.get(value, held) != held:
                raise Violation(f"duplicate {value} in {unique} of {name}")
        for fk, read in table.layout.parents:
            wanted = read(row)
            if wanted is not None and (old is None or wanted != read(old)):
                self._need_parent(table, fk, wanted, row, held)
        if held is not None and held != slot:
            self._drop(table, held)
        table.put(slot, row)
        self._written[name, slot] = None
        self.wrote.append((name, old, row))
        if self._watched:
            self.note_locks(table, old, row)

    def _need_parent(self, table: Table, fk: ForeignKey, wanted: Token, row: Row, held: Token | None) -> None:
        parent = self.table(fk.parent)
        if parent is table and self.trusting:
            return
        if parent is table:  # a row may refer to itself, as it is once written
            (read,) = (read for other, read in table.layout.children if other == fk)
            if read(row) == wanted:
                return
            if parent.holder(fk.parent_columns, wanted) not in (None, held):
                return
        elif parent.holder(fk.parent_columns, wanted) is not None:
            return
        orphan = Violation(f"{table.spec.name} {row} has no parent {wanted} in {fk.parent}")
        orphan.lacks_parent = True
        raise orphan

    def _drop(self, table: Table, slot: Token) -> None:
        table.drop(slot)
        self._written[table.spec.name, slot] = None

    def _refuse_children(self, fk: ForeignKey, value: Token, row: Row, but: Token | None = None) -> None:
        children = self._children(fk, value)
        if children and not (fk.child == fk.parent and children == [but]):
            refused = Violation(f"{fk.child} refers to {row} of {fk.parent}")
            refused.has_children = True
            raise refused

    def _children(self, fk: ForeignKey, value: Token) -> list[Token]:
        child = self.table(fk.child)
        (read,) = (read for other, read in child.layout.parents if other == fk)
        return [slot for slot, other in child.rows.items() if read(other) == value]

    def note_locks(self, table: Table, old: Row | None, new: Row | None) -> None:
        """Note what a real server would lock for this change."""
        name, layout, exclusive = table.spec.name, table.layout, self.exclusive
        if not table.spec.key:
            exclusive.add((name, "table", ()))
        rows = [row for row in (old, new) if row is not None]
        moved = len(rows) < 2
        if table.spec.key:
            keys = [layout.key(row) for row in rows]
            moved = moved or keys[0] != keys[1]
            exclusive.update((name, "row", key) for key in keys)
        for unique, read in layout.uniques:
            values = [read(row) for row in rows]
            if moved or values[0] != values[1]:
                exclusive.update((name, unique, value) for value in values if value is not None)
        for fk, read in layout.children:
            values = [read(row) for row in rows]
            if len(values) < 2 or values[0] != values[1]:
                exclusive.update((name, fk.parent_columns, value) for value in values if value is not None)
        for fk, read in layout.parents:
            values = [read(row) for row in rows]
            if len(values) < 2 or values[0] != values[1]:
                self.shared.update((fk.parent, fk.parent_columns, value) for value in values if value is not None)

    # ------------------------------------------------------------------ steps of a batch

    def run(self, steps: list[Step]) -> None:
        """Runs the steps, as `engine.protocol.effects` documents them.  Raises Violation: the session is lost then."""
        for step in steps:
            if step.checks:
                look_and_write(self, step)
                continue
            match step:
                case DeleteRows():
                    for key in reversed(step.keys):  # a server goes through them as it likes
                        self._delete_row(step.table, key)
                case UpsertRows():
                    for row in step.rows:
                        self.upsert_row(step.table, row)
                case UpdateRows():
                    for key, row in zip(step.keys, step.rows, strict=True):
                        self.update_row(step.table, key, row, moves=step.moves)

    def _delete_row(self, binding: Binding, key: Row) -> None:
        table = self.table(binding.name)
        slot = self.find(table, binding, key)
        if slot is not None:
            self.delete(binding.name, slot)

    def upsert_row(self, binding: Binding, row: Row) -> None:
        assert UNKNOWN not in row, f"{row} of {binding.name} would be written with a placeholder"
        table = self.table(binding.name)
        slot = self.find(table, binding, binding.key_of(row)) if binding.key else None
        if slot is None:
            self.insert(binding.name, self.bind(table, binding, row, None))
        else:
            self.update(binding.name, slot, self._unmoved(table, binding, row, table.rows[slot]))

    def update_row(self, binding: Binding, key: Row, row: Row, *, moves: bool) -> None:
        table = self.table(binding.name)
        slot = self.find(table, binding, key)
        if slot is None:
            if UNKNOWN in row:
                raise Violation(f"{binding.name} has no row {key}, and {row} cannot be inserted")
            self.insert(binding.name, self.bind(table, binding, row, None))
            return
        old = table.rows[slot]
        new = self.bind(table, binding, row, old) if moves else self._unmoved(table, binding, row, old)
        self.update(binding.name, slot, new)

    def find(self, table: Table, binding: Binding, key: Row) -> Token | None:
        if not binding.key:
            return table.equal(self.bind(table, binding, key, None))
        equality = table.layout.equality
        slot = tuple(comparable(v, equality[c]) for v, c in zip(key, table.spec.key, strict=True))
        return slot if slot in table.rows else None

    def bind(self, table: Table, binding: Binding, row: Row, old: Row | None) -> Row:
        """`row` as the target writes it; its own columns keep what `old` has, else their default."""
        out = list(old) if old is not None else list(table.layout.defaults)
        at = table.layout.at
        for column, value in zip(binding.columns, row, strict=True):
            if column is not None and (value is not UNKNOWN or old is None):
                out[at[column.name]] = value
        return table.layout.complete(tuple(out))

    def _unmoved(self, table: Table, binding: Binding, row: Row, old: Row) -> Row:
        """`row` over `old`, except its unique columns: sinks leave those out of SET."""
        unique = table.layout.unique_places
        new = self.bind(table, binding, row, old)
        return tuple(
            kept if place in unique else fresh for place, (kept, fresh) in enumerate(zip(old, new, strict=True))
        )
