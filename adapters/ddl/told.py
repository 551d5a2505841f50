"""Changes that a PostgreSQL source's log tells without a statement: as operations, and what columns become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_told
from tidelock.adapters.ddl.operations import (
    AddPrimaryKey,
    AddUnique,
    AlterTable,
    ChangeColumn,
    Clause,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    Operation,
    RenameColumn,
    RenameIndex,
    RenameTable,
)
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.dialects import from_postgres, long_keys, without_long_keys
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import (
    AddedColumn,
    Ddl,
    FormerColumn,
    FormerTable,
    ToldChange,
    ToldColumn,
    ToldTable,
)

_LONG: Final = ("longtext", "longblob", "text", "mediumtext", "blob")


def told_operations(table: TableName, told: ToldChange) -> Sequence[Operation]:
    """Returns what is told of a table as operations, but for columns that are new."""
    if told.gone:
        return [DropTable(table)]
    if told.name is not None:
        return [RenameTable(table, told.name)]
    clauses: list[Clause] = [*_keys_before(told)]
    clauses += [*map(DropColumn, told.dropped), *(RenameColumn(*names) for names in told.renamed)]
    clauses += [_redefined(after) for _, after in told.retyped]
    return [AlterTable(table, (*clauses, *_keys_behind(told)))]


def _keys_before(told: ToldChange) -> Iterator[Clause]:
    """Yields what becomes of keys that were there; a column must be in none before it goes."""
    if told.rekeyed is not None and told.rekeyed[0]:
        yield DropPrimaryKey()
    for one in told.uniques:
        if one.before:
            yield RenameIndex(one.before, one.after) if one.after else DropIndex(one.before)


def _keys_behind(told: ToldChange) -> Iterator[Clause]:
    if told.rekeyed is not None and told.rekeyed[1]:
        yield AddPrimaryKey(told.rekeyed[1])
    for one in told.uniques:
        if not one.before:
            yield AddUnique(one.after, one.columns)


def _redefined(after: ToldColumn) -> ChangeColumn:
    new = SourceColumn(after.column, after.column.type, after.nullable)
    return ChangeColumn(after.column.name, new, after.nullable)


def told_before(told: ToldChange) -> FormerTable:
    """Returns what is told of columns as they were before they got another type."""
    columns = (FormerColumn(before.column, before.column.type, before.nullable) for before, _ in told.retyped)
    return FormerTable(tuple(columns))


def with_keys_of_new(told: ToldChange, added: Sequence[AddedColumn]) -> bool:
    """Tells whether a key is made of a column that is new, so that the column comes first."""
    new = {one.column.name for one in added}
    keys = [one.columns for one in told.uniques if not one.before]
    keys += [told.rekeyed[1]] if told.rekeyed is not None else []
    return any(new & {*columns} for columns in keys)


def told_table(table: TableName, made: ToldTable) -> SourceTable:
    """Returns a table that a PostgreSQL source has made."""
    columns = tuple(
        SourceColumn(
            one.column,
            one.column.type,
            one.nullable,
            generated=bool(one.expression),
            expression=one.expression,
            logged=not one.expression,
        )
        for one in made.columns
    )
    primary = (UniqueKey("PRIMARY", made.primary_key),) if made.primary_key else ()
    return SourceTable(table, columns, (*primary, *(UniqueKey(name, names) for name, names in made.uniques)))


def of_mysql(table: SourceTable, *, mariadb: bool) -> SourceTable:
    """Returns a table of PostgreSQL as `init` makes it for MySQL or MariaDB.  Raises NotFollowed."""
    made = without_long_keys(from_postgres(table, mariadb=mariadb))
    if long := long_keys(made):
        raise NotFollowed(f"column {long[0]} of its primary key is too long for an index of MySQL and MariaDB")
    return made


def indexed(alter: AlterTable, there: TargetTable, dialect: Dialect) -> AlterTable:
    """Returns the clauses without unique indexes of long texts, which MySQL and MariaDB make none for: a target that is
    less strict refuses no row."""
    if dialect == "postgres":
        return alter
    long = {column.name.lower() for column in there.columns if column.type.startswith(_LONG)}
    kept = [
        one
        for one in alter.clauses
        if not (isinstance(one, AddUnique) and long & {name.lower() for name in one.columns})
    ]
    return replace(alter, clauses=tuple(kept))


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
