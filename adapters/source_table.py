"""A table of a MySQL or MariaDB source as its catalogue tells it: for `check` and `init`, never for reading rows."""

from __future__ import annotations

import msgspec

from engine.records import Column, Shape, TableName
from engine.schema import ForeignKey, UniqueKey


class SourceColumn(msgspec.Struct, frozen=True):
    """`type`: COLUMN_TYPE as the server spells it.  `default`: SQL text of a literal default, '' for none."""

    column: Column
    type: str
    nullable: bool
    default: str = ""
    generated: bool = False
    collation: str = ""

    @property
    def name(self) -> str:
        return self.column.name


class SourceTable(msgspec.Struct, frozen=True):
    """`uniques`: the primary key, where there is one, is first and named PRIMARY."""

    name: TableName
    columns: tuple[SourceColumn, ...]
    uniques: tuple[UniqueKey, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self.uniques[0].columns if self.uniques and self.uniques[0].name == "PRIMARY" else ()

    @property
    def shape(self) -> Shape:
        return Shape(self.name, tuple(c.column for c in self.columns), self.primary_key)
