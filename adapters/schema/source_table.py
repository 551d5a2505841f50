"""A table of a MySQL or MariaDB source as its catalogue has it: for `check` and `init`, never for reading rows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelock.adapters.config.feed import Columns
from tidelock.engine.model.records import Column, Shape, TableName
from tidelock.engine.model.schema import ForeignKey, UniqueKey


class SourceColumn(msgspec.Struct, frozen=True):
    """A column.  `type`: COLUMN_TYPE as the server spells it.  `default`: SQL text of a literal default, '' for none.
    """

    column: Column
    type: str
    nullable: bool
    default: str = ""
    generated: bool = False
    collation: str = ""

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name


class SourceTable(msgspec.Struct, frozen=True):
    """A table.  `uniques`: the primary key, where there is one, is first and named PRIMARY."""

    name: TableName
    columns: tuple[SourceColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; empty: it has none."""
        return self.uniques[0].columns if self.uniques and self.uniques[0].name == "PRIMARY" else ()

    @property
    def shape(self) -> Shape:
        """The table's columns as rows of the log have them."""
        return Shape(self.name, tuple(c.column for c in self.columns), self.primary_key)


def projected(
    table: SourceTable, columns: Columns, parent_renames: Callable[[TableName], dict[str, str]]
) -> SourceTable:
    """Returns the part of a table that is replicated, under the target's column names; keys that lose a column are left
    out.
    """
    kept = {
        c.name: columns.rename.get(c.name, c.name)
        for c in table.columns
        if c.name not in columns.exclude and (not columns.include or c.name in columns.include)
    }

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(kept[n] for n in names)

    replace = msgspec.structs.replace
    return SourceTable(
        name=table.name,
        columns=tuple(replace(c, column=replace(c.column, name=kept[c.name])) for c in table.columns if c.name in kept),
        uniques=tuple(replace(u, columns=renamed(u.columns)) for u in table.uniques if kept.keys() >= set(u.columns)),
        foreign_keys=tuple(
            replace(
                k,
                columns=renamed(k.columns),
                parent_columns=tuple(parent_renames(k.parent).get(c, c) for c in k.parent_columns),
            )
            for k in table.foreign_keys
            if kept.keys() >= set(k.columns)
        ),
    )
