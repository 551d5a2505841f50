"""Changes that a PostgreSQL source's log tells without a statement: as operations, and what columns become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_told, told_type
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
from tidelock.adapters.schema.create_table import identifier, qualified
from tidelock.engine.model.records import AddedColumn, Ddl, TableName, ToldChange
from tidelock.engine.model.schema import TargetColumn, TargetTable


def told_operations(table: TableName, told: ToldChange) -> Sequence[Operation]:
    """Returns what is told of a table as operations, but for columns that are new or wider."""
    if told.gone:
        return [DropTable(table)]
    if told.name is not None:
        return [RenameTable(table, told.name)]
    clauses: list[Clause] = [*map(DropColumn, told.dropped), *(RenameColumn(*names) for names in told.renamed)]
    return [AlterTable(table, tuple(clauses))]


def told_columns(
    ddl: Ddl, table: TableName, place: TableName, there: TargetTable, dialect: Dialect, rules: DdlRules
) -> list[str]:
    """Returns statements for the columns of `table` that are new or wider, and not so at the target's table yet.
    Raises NotFollowed."""
    columns = {column.name.lower(): column for column in there.columns}
    new = _new(ddl, table, place, columns, dialect, rules)
    made = [add_told(place, new, dialect)] if new else []
    wider = ddl.told.widened if ddl.told is not None else ()
    for one in _named(wider, table, rules) if rules.admits("change_column", "ALTER COLUMN … TYPE") else ():
        column = columns.get(one.column.name.lower())
        if column is None:
            raise NotFollowed(f"{place} has no column {one.column.name}")
        if compatible(one.column, column, dialect, one.column.type):
            made.append(_widened(one, place, column, dialect))
    return made


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


def _widened(one: AddedColumn, place: TableName, column: TargetColumn, dialect: Dialect) -> str:
    """Returns the statement that gives a target's column a wider type.  Raises NotFollowed."""
    name, type_ = identifier(dialect, column.name), told_type(one, dialect)
    if dialect == "postgres":
        return f"ALTER TABLE {qualified(dialect, place)} ALTER COLUMN {name} TYPE {type_}"
    if column.default:
        raise NotFollowed(f"{place}.{column.name} has a default or counts, which MODIFY would take away")
    required = " NULL" if column.nullable else " NOT NULL"
    return f"ALTER TABLE {qualified(dialect, place)} MODIFY COLUMN {name} {type_}{required}"


def _named(columns: Sequence[AddedColumn], table: TableName, rules: DdlRules) -> list[AddedColumn]:
    """Returns those of the columns that the feed takes, under the target's names."""
    return [
        replace(one, column=replace(one.column, name=name))
        for one in columns
        if (name := rules.column(table, one.column.name)) is not None
    ]
