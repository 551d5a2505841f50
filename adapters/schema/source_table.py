"""A table of a source as its catalogue has it: for `check`, `init` and bulk reads, never for reading the log."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelock.adapters.config.feed import Columns
from tidelock.engine.model.records import Column, ReplicaIdentity, Shape, TableName
from tidelock.engine.model.schema import ForeignKey, UniqueKey


class SourceColumn(msgspec.Struct, frozen=True):
    """A column.

    `type`: the type as the server spells it (MySQL's COLUMN_TYPE).  `default`: SQL text of a literal default, '' for
    none.  `generated`: the server computes it, from `expression` where that is known.  `logged`: rows of the log have
    it; PostgreSQL leaves generated columns out.
    """

    column: Column
    type: str
    nullable: bool
    default: str = ""
    generated: bool = False
    collation: str = ""
    expression: str = ""
    logged: bool = True

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name


class UserType(msgspec.Struct, frozen=True):
    """A type that a table's columns need and that users have made.  `statement`: makes it at a PostgreSQL target."""

    schema: str
    name: str
    statement: str


class SourceTable(msgspec.Struct, frozen=True):
    """A table.

    `uniques`: the primary key, where there is one, is first and named PRIMARY.  `identity`, `identity_columns`: what
    the log tells of a row before a change (`Shape.identity`), and of which columns under `key`.  `types`: types of a
    PostgreSQL source, each behind those that it is made of.  `partitions`: tables that hold its rows in its place.
    `deferrable`: names of foreign keys that may be broken until a transaction ends.  `leaves_out`: the server may keep
    long values beside its rows, and an update that leaves one as it was does not log it (PostgreSQL's TOAST).
    """

    name: TableName
    columns: tuple[SourceColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    identity: ReplicaIdentity = "full"
    identity_columns: tuple[str, ...] = ()
    types: tuple[UserType, ...] = ()
    partitions: tuple[TableName, ...] = ()
    deferrable: tuple[str, ...] = ()
    leaves_out: bool = False

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; empty: it has none."""
        return self.uniques[0].columns if self.uniques and self.uniques[0].name == "PRIMARY" else ()

    @property
    def shape(self) -> Shape:
        """The table's columns as rows of the log have them."""
        key = self.identity_columns if self.identity == "key" else self.primary_key
        return Shape(self.name, tuple(c.column for c in self.columns if c.logged), key, self.identity)


def kept_names(table: SourceTable, columns: Columns) -> dict[str, str]:
    """Returns the columns that are replicated, with their names at the target."""
    return {
        c.name: columns.rename.get(c.name, c.name)
        for c in table.columns
        if c.name not in columns.exclude and (not columns.include or c.name in columns.include)
    }


def projected(
    table: SourceTable, columns: Columns, parent_renames: Callable[[TableName], dict[str, str]]
) -> SourceTable:
    """Returns the part of a table that is replicated, under the target's column names; keys that lose a column are left
    out.
    """
    kept = kept_names(table, columns)

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
        identity=table.identity,
        identity_columns=tuple(kept.get(c, c) for c in table.identity_columns),
        types=table.types,
        partitions=table.partitions,
        deferrable=table.deferrable,
        leaves_out=table.leaves_out,
    )
