"""A small database that keeps its constraints row by row, as InnoDB does: source and target of the simulated world.

Foreign keys refuse or cascade.  A `Session` (`simulations.session`) is one transaction on a copy of what it touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.simulations.layout import Layout, Token, comparable, layout

if TYPE_CHECKING:
    from tidelock.simulations.session import Session

__all__ = ["Database", "Refusal", "Table", "Token", "Violation", "comparable"]

Refusal = Callable[[TableName, Row], bool]


LACKS_PARENT = "23503"
"""SQLSTATE of a row that refers to one that is not there."""


class Violation(Exception):
    """A constraint or the target's own rule refuses a row.  `lacks_parent`: it refers to one that is not there.
    `has_children`: others refer to it."""

    lacks_parent = False
    has_children = False

    @property
    def code(self) -> str:
        """SQLSTATE, where anybody asks for it."""
        return LACKS_PARENT if self.lacks_parent else ""


class Table:
    """Rows by comparable key, or by number where the table has no key; `indexes`: slot by value, one a unique index."""

    __slots__ = ("indexes", "layout", "rows", "serial", "spec")

    def __init__(self, spec: TargetTable) -> None:
        self.spec = spec
        self.layout: Layout = layout(spec)
        self.rows: dict[Token, Row] = {}
        self.indexes: list[dict[Token, Token]] = [{} for _ in self.layout.uniques]
        self.serial = 0

    @property
    def at(self) -> dict[str, int]:
        return self.layout.at

    def key(self, row: Row) -> Token:
        return self.layout.key(row)

    def slot(self, row: Row) -> Token:
        """Choose the place of a new row."""
        if self.spec.key:
            return self.layout.key(row)
        self.serial += 1
        return (self.serial,)

    def equal(self, row: Row) -> Token | None:
        """One row that is equal in all columns (tables without key)."""
        return next((slot for slot, other in self.rows.items() if other == row), None)

    def holder(self, columns: tuple[str, ...], value: Token) -> Token | None:
        """The slot of the row that holds this comparable value of its key or of a unique index."""
        number = self.layout.lookup[columns]
        if number < 0:
            return value if value in self.rows else None
        return self.indexes[number].get(value)

    def put(self, slot: Token, row: Row) -> None:
        """Write without a check; what stood there is gone."""
        if slot in self.rows:
            self.drop(slot)
        self.rows[slot] = row
        for index, (_, read) in zip(self.indexes, self.layout.uniques, strict=True):
            if (value := read(row)) is not None:
                index[value] = slot

    def drop(self, slot: Token) -> Row | None:
        row = self.rows.pop(slot, None)
        if row is not None:
            for index, (_, read) in zip(self.indexes, self.layout.uniques, strict=True):
                if (value := read(row)) is not None and index.get(value) == slot:
                    del index[value]
        return row

    def clear(self) -> None:
        self.rows.clear()
        for index in self.indexes:
            index.clear()

    def copy(self) -> Table:
        twin = Table.__new__(Table)
        twin.spec, twin.layout, twin.serial = self.spec, self.layout, self.serial
        twin.rows = self.rows.copy()
        twin.indexes = [index.copy() for index in self.indexes]
        return twin


class Database:
    """`refuses(table, row)`: a rule of the target that the source does not have (a type too narrow, a CHECK)."""

    def __init__(self, specs: dict[TableName, TargetTable], refuses: Refusal = lambda _table, _row: False) -> None:
        self.tables = {name: Table(spec) for name, spec in specs.items()}
        self.refuses = refuses

    @property
    def specs(self) -> dict[TableName, TargetTable]:
        return {name: table.spec for name, table in self.tables.items()}

    def begin(self, *, watched: bool = False) -> Session:
        """`watched`: the session notes what it locks."""
        from tidelock.simulations.session import Session

        return Session(self, watched=watched)

    def create(self, spec: TargetTable) -> None:
        """Doing it twice is doing it once."""
        if spec.name not in self.tables:
            self.tables[spec.name] = Table(spec)

    def truncate(self, name: TableName) -> None:
        self.tables[name].clear()

    def delete_all(self, name: TableName) -> None:
        """Raises Violation where rows of another table refer to those, and its foreign key refuses."""
        for fk in self.tables[name].spec.references:
            child = self.tables.get(fk.child)
            if child is None or fk.cascades or fk.child == name:
                continue
            (refers,) = (read for other, read in child.layout.parents if other == fk)
            if any(refers(row) is not None for row in child.rows.values()):
                raise Violation(f"{fk.child} refers to rows of {name}")
        self.truncate(name)

    def referring(self, name: TableName) -> list[TableName]:
        """The other tables whose rows refer to this one's, or to theirs in turn: children before their parents."""
        found = dict.fromkeys(fk.child for fk in self.tables[name].spec.references if fk.child != name)
        further = [(child, self.referring(child)) for child in found if child in self.tables]
        return list(dict.fromkeys(table for child, below in further for table in (*below, child)))

    def add_column(self, name: TableName, column: TargetColumn) -> None:
        """Doing it twice is doing it once."""
        old = self.tables[name]
        if column.name not in old.at:
            spec = msgspec.structs.replace(old.spec, columns=(*old.spec.columns, column))
            self._rebuild(spec, ((slot, (*row, None)) for slot, row in old.rows.items()), old.serial)

    def alter(self, spec: TargetTable) -> None:
        """Other keys over the same columns.  Raises Violation, and then nothing has changed."""
        old = self.tables[spec.name]
        rows = list(old.rows.values())
        self._rebuild(spec, (), old.serial)
        table = self.tables[spec.name]
        for row in rows:
            table.put(table.slot(row), row)
        if len(table.rows) < len(rows) or self.broken((spec.name,)):
            self.tables[spec.name] = old
            raise Violation(f"{spec.name} holds rows that its new keys do not allow")

    def _rebuild(self, spec: TargetTable, rows: Iterable[tuple[Token, Row]], serial: int) -> None:
        table = self.tables[spec.name] = Table(spec)
        table.serial = serial
        for slot, row in rows:
            table.put(slot, row)

    def copy(self) -> Database:
        twin = Database({}, self.refuses)
        twin.tables = {name: table.copy() for name, table in self.tables.items()}
        return twin

    def broken(self, names: Iterable[TableName] = ()) -> str:
        """The first unique or foreign key of these tables (default: all) that does not hold, counted anew from the
        rows; '' if all do."""
        for name in names or self.tables:
            table = self.tables[name]
            for index, read in table.layout.uniques:
                values = [v for row in table.rows.values() if (v := read(row)) is not None]
                if len(values) != len(set(values)):
                    return f"{index} of {name} holds {sorted(values, key=repr)}"
            for fk, read in table.layout.parents:
                parent = self.tables[fk.parent]
                wanted = dict.fromkeys(v for row in table.rows.values() if (v := read(row)) is not None)
                if orphans := [v for v in wanted if parent.holder(fk.parent_columns, v) is None]:
                    return f"{name} refers to {orphans}, which {fk.parent} does not hold"
        return ""

    def contents(self) -> dict[TableName, list[Row]]:
        return {name: sorted(table.rows.values(), key=repr) for name, table in self.tables.items()}
