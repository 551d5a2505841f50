"""Statements that alter tables, as data: the tables' forms before and behind it, and where each column comes from.

The source's history draws it, both databases and the checkers' serial replay carry it out, each in its own way.
"""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.simulations.model import Database, Table, Violation

NULL = -1
"""Place of a column that has no values of before."""


class Made(msgspec.Struct, frozen=True):
    """A table as a statement leaves it.  `of`: whose rows it has; None: it is empty.  `places`: where each of its
    columns stands in those rows, or `NULL`."""

    spec: TargetTable
    of: TableName | None
    places: tuple[int, ...] = ()

    def row(self, old: Row) -> Row:
        """Returns a row of before as this table has it."""
        return tuple(old[place] if place != NULL else None for place in self.places)


class Reshape(msgspec.Struct, frozen=True):
    """Change of some tables by one statement.  `before`: those that it takes; `made`: those that it leaves."""

    before: tuple[TargetTable, ...]
    made: tuple[Made, ...]

    @property
    def names(self) -> tuple[TableName, ...]:
        """Names of the tables, before and behind it."""
        return tuple(dict.fromkeys((*(t.name for t in self.before), *(m.spec.name for m in self.made))))

    @property
    def emptied(self) -> tuple[TableName, ...]:
        """Tables whose rows go."""
        kept = {made.of for made in self.made}
        return tuple(table.name for table in self.before if table.name not in kept)

    @property
    def blurred(self) -> bool:
        """Tells whether a name is given away and taken again, which the tables do not show behind it."""
        forms = {table.name: table for table in self.before}
        return any(self._takes(made, forms) for made in self.made)

    def _takes(self, made: Made, forms: dict[TableName, TargetTable]) -> bool:
        if made.of is None or made.spec.name not in forms:
            return made.spec.name in forms
        if made.of != made.spec.name:
            return True
        at = {column.name: i for i, column in enumerate(forms[made.of].columns)}
        return any(at.get(c.name, place) != place for c, place in zip(made.spec.columns, made.places, strict=True))

    def is_open(self, tables: dict[TableName, TargetTable]) -> bool:
        """Tells whether the tables are as they were before it."""
        return self._are(tables, self.before)

    def is_done(self, tables: dict[TableName, TargetTable]) -> bool:
        """Tells whether the tables are as it leaves them."""
        return self._are(tables, tuple(made.spec for made in self.made))

    def _are(self, tables: dict[TableName, TargetTable], forms: tuple[TargetTable, ...]) -> bool:
        wanted = {form.name: form for form in forms}
        return all(tables.get(name) == wanted.get(name) for name in self.names)


def at_target(spec: TargetTable) -> TargetTable:
    """Returns a table of the source as the target has it: with its columns in the order of their names."""
    return msgspec.structs.replace(spec, columns=tuple(sorted(spec.columns, key=lambda column: column.name)))


def reshape_at_target(change: Reshape) -> Reshape:
    """Returns a change of the source's tables as it is for the target's."""
    orders = {spec.name: [spec.columns.index(c) for c in at_target(spec).columns] for spec in change.before}
    return Reshape(tuple(map(at_target, change.before)), tuple(_made_at_target(made, orders) for made in change.made))


def _made_at_target(made: Made, orders: dict[TableName, list[int]]) -> Made:
    spec = at_target(made.spec)
    if made.of is None:
        return Made(spec, None)
    order, columns = orders[made.of], made.spec.columns
    old = [made.places[columns.index(column)] for column in spec.columns]
    return Made(spec, made.of, tuple(NULL if place == NULL else order.index(place) for place in old))


def carry_out(database: Database, reshape: Reshape) -> None:
    """Change the tables of a database.  Raises Violation where rows do not fit new keys; nothing has changed then."""
    tables = database.tables
    old = {name: tables[name] for name in reshape.names if name in tables}
    for name in old:
        del tables[name]
    try:
        for made in reshape.made:
            tables[made.spec.name] = _made(made, old[made.of] if made.of is not None else None)
        if wrong := database.broken([made.spec.name for made in reshape.made]):
            raise Violation(wrong)
    except Violation:
        for made in reshape.made:
            tables.pop(made.spec.name, None)
        tables.update(old)
        raise


def _made(made: Made, old: Table | None) -> Table:
    table = Table(made.spec)
    for row in map(made.row, old.rows.values() if old is not None else ()):
        slot = table.slot(row)
        if slot in table.rows:
            raise Violation(f"two rows of {made.spec.name} have the key {slot}")
        table.put(slot, row)
    return table
