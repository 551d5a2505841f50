"""Changes that a PostgreSQL source's log tells without a statement: as operations, and what columns become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_told
from tidelock.adapters.ddl.operations import (
    AlterTable,
    Clause,
    DropColumn,
    DropTable,
    Operation,
    RenameColumn,
    RenameTable,
)
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.schema.compatibility import compatible
from tidelock.engine.model.records import AddedColumn, Ddl, TableName, ToldChange
from tidelock.engine.model.schema import TargetColumn, TargetTable


def told_operations(table: TableName, told: ToldChange) -> Sequence[Operation]:
    """Returns what is told of a table as operations, but for columns that are new."""
    if told.gone:
        return [DropTable(table)]
    if told.name is not None:
        return [RenameTable(table, told.name)]
    clauses: list[Clause] = [*map(DropColumn, told.dropped), *(RenameColumn(*names) for names in told.renamed)]
    return [AlterTable(table, tuple(clauses))]


def told_columns(
    ddl: Ddl, table: TableName, place: TableName, there: TargetTable, dialect: Dialect, rules: DdlRules
) -> list[str]:
    """Returns a statement for the columns of `table` that are new, and not at the target's table yet; none where all
    are.  Raises NotFollowed."""
    columns = {column.name.lower(): column for column in there.columns}
    new = _new(ddl, table, place, columns, dialect, rules)
    return [add_told(place, new, dialect)] if new else []


def _new(
    ddl: Ddl,
    table: TableName,
    place: TableName,
    columns: Mapping[str, TargetColumn],
    dialect: Dialect,
    rules: DdlRules,
) -> list[AddedColumn]:
    """Returns the columns that the target lacks.  Raises NotFollowed."""
    told = ddl.told or ToldChange()
    given = {name.lower() for name in (*told.dropped, *(name for name, _ in told.renamed))}
    new = []
    for one in _named(ddl.added, table, rules) if rules.admits("add_column", "ADD COLUMN") else ():
        if one.column.name.lower() in given:
            if dialect == "mysql":
                raise NotFollowed(
                    f"it gives the name {one.column.name} away and takes it again, so nobody could tell whether it ran"
                )
            new.append(one)
        elif (column := columns.get(one.column.name.lower())) is None:
            new.append(one)
        elif reason := compatible(one.column, column, dialect, one.column.type):
            raise NotFollowed(f"{place} has {column.name} already, and {reason}")
    return new


def _named(columns: Sequence[AddedColumn], table: TableName, rules: DdlRules) -> list[AddedColumn]:
    """Returns those of the columns that the feed takes, under the target's names."""
    return [
        replace(one, column=replace(one.column, name=name))
        for one in columns
        if (name := rules.column(table, one.column.name)) is not None
    ]
