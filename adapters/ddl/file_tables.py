"""The tables of a target as a file of statements makes them: what `tidelock ddl plan` judges the next statement by.

A table that the file does not make is taken to be as a statement about it needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddComputed,
    AddIndex,
    AddPrimaryKey,
    AddUnique,
    AlterTable,
    ChangeColumn,
    Clause,
    CreateLike,
    CreateTable,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    Operation,
    RenameColumn,
    RenameIndex,
    RenameTable,
    SetDefault,
)
from tidelock.adapters.ddl.table_making import column_at
from tidelock.adapters.schema.create_table import index_name
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import SecondaryIndex, TargetColumn, TargetTable, UniqueKey


class FileTables:
    """The target's tables.  `assumed`: those that no statement has made.  Columns have their names at the source."""

    def __init__(self, dialect: Dialect, target_name: Callable[[TableName], TableName]) -> None:
        self.tables: dict[TableName, TargetTable] = {}
        self.assumed: list[TableName] = []
        self._dialect, self._target_name = dialect, target_name

    def made(self, made: CreateTable) -> None:
        """Note that a table is there, made by CREATE TABLE."""
        source, name = made.made, self._target_name(made.table)
        uniques = tuple(
            replace(unique, name=self._primary(name) if unique.name == "PRIMARY" else self._index(name, unique.name))
            for unique in source.uniques
            if not unique.opaque
        )
        columns = tuple(map(self._column, source.columns))
        plain = tuple(SecondaryIndex(self._index(name, index.name)) for index in made.indexes)
        self.tables[name] = TargetTable(name, columns, source.primary_key, uniques, plain_indexes=plain)

    def assume(self, operations: Sequence[Operation]) -> None:
        """Take tables that the file has not made to be as these operations need them."""
        made: set[TableName] = set()
        for one in operations:
            name = self._target_name(one.like if isinstance(one, CreateLike) else one.table)
            if isinstance(one, RenameTable):
                made.add(self._target_name(one.to))
            if name in self.tables or name in made or isinstance(one, CreateTable):
                continue
            clauses = one.clauses if isinstance(one, AlterTable) else ()
            self.assumed.append(name)
            self.tables[name] = self._assumed(name, clauses)

    def forget(self, count: int) -> None:
        """Forget tables that were taken to be so, but for the first `count`."""
        for name in self.assumed[count:]:
            self.tables.pop(name, None)
        del self.assumed[count:]

    def follow(self, operations: Sequence[Operation]) -> None:
        """Note what operations do, once they have run."""
        for one in operations:
            name = self._target_name(one.table)
            match one:
                case DropTable():
                    self.tables.pop(name, None)
                case RenameTable():
                    if (moved := self.tables.pop(name, None)) is not None:
                        to = self._target_name(one.to)
                        self.tables[to] = replace(moved, name=to)
                case CreateTable():
                    self.made(one)
                case CreateLike():
                    self.tables[name] = replace(self.tables[self._target_name(one.like)], name=name)
                case AlterTable():
                    for clause in one.clauses:
                        self.tables[name] = self._altered(self.tables[name], clause)

    def added(self, source: TableName, columns: Sequence[SourceColumn]) -> None:
        """Note columns that a statement adds, where the table is known."""
        name = self._target_name(source)
        if name in self.tables:
            table = self.tables[name]
            self.tables[name] = replace(table, columns=(*table.columns, *map(self._column, columns)))

    def _column(self, column: SourceColumn) -> TargetColumn:
        return column_at(column, self._dialect)

    def _altered(self, table: TargetTable, clause: Clause) -> TargetTable:
        match clause:
            case AddColumn():
                return replace(table, columns=(*table.columns, self._column(clause.new.column)))
            case AddComputed():
                return replace(table, columns=(*table.columns, self._column(clause.column)))
            case DropColumn():
                gone = clause.name.lower()
                columns = tuple(c for c in table.columns if c.name.lower() != gone)
                uniques = tuple(u for u in table.uniques if gone not in {c.lower() for c in u.columns})
                return replace(table, columns=columns, uniques=uniques)
            case RenameColumn():
                columns = tuple(
                    replace(c, name=clause.to) if c.name.lower() == clause.name.lower() else c for c in table.columns
                )
                return replace(table, columns=columns)
            case ChangeColumn():
                columns = tuple(
                    self._column(clause.new) if c.name.lower() == clause.name.lower() else c for c in table.columns
                )
                return replace(table, columns=columns)
            case DropPrimaryKey():
                return replace(table, key=(), uniques=tuple(u for u in table.uniques if u.columns != table.key))
            case AddPrimaryKey():
                key = UniqueKey(self._primary(table.name), clause.columns)
                return replace(table, key=clause.columns, uniques=(key, *table.uniques))
            case AddUnique():
                made = UniqueKey(self._index(table.name, clause.name), clause.columns)
                return replace(table, uniques=(*table.uniques, made))
            case AddIndex():
                own = self._index(table.name, clause.name or clause.parts[0].column or "functional_index")
                return replace(table, plain_indexes=(*table.plain_indexes, SecondaryIndex(own)))
            case DropIndex():
                names = (clause.name.lower(), self._index(table.name, clause.name).lower())
                uniques = tuple(u for u in table.uniques if u.name.lower() not in names)
                plain = tuple(one for one in table.plain_indexes if one.name.lower() not in names)
                checks = tuple(name for name in table.checks if name.lower() != clause.name.lower())
                return replace(table, uniques=uniques, plain_indexes=plain, checks=checks)
            case RenameIndex():
                names = (clause.name.lower(), self._index(table.name, clause.name).lower())
                to = self._index(table.name, clause.to)
                uniques = tuple(replace(u, name=to) if u.name.lower() in names else u for u in table.uniques)
                plain = tuple(replace(p, name=to) if p.name.lower() in names else p for p in table.plain_indexes)
                return replace(table, uniques=uniques, plain_indexes=plain)
            case _:
                return table

    def _index(self, table: TableName, name: str) -> str:
        return index_name(self._dialect, table, name)

    def _primary(self, table: TableName) -> str:
        return "PRIMARY" if self._dialect == "mysql" else f"{table.table}_pkey"

    def _assumed(self, name: TableName, clauses: Sequence[Clause]) -> TargetTable:
        named = (DropColumn, RenameColumn, ChangeColumn, SetDefault)
        names = dict.fromkeys(c.name for c in clauses if isinstance(c, named))
        given = {said for c in clauses if (said := _made(c))}
        parts = [part.column for c in clauses if isinstance(c, AddIndex) for part in c.parts if part.column]
        names |= dict.fromkeys(part for part in parts if part.lower() not in given)
        table = TargetTable(name, tuple(TargetColumn(column, "?") for column in names), ())
        for clause in clauses:
            if isinstance(clause, DropPrimaryKey):
                table = self._altered(table, AddPrimaryKey(("?",)))
            elif isinstance(clause, DropIndex) and clause.what == "check":
                table = replace(table, checks=(*table.checks, clause.name))
            elif isinstance(clause, DropIndex | RenameIndex):
                table = self._altered(table, AddUnique(clause.name, ("?",)))
        return table


def _made(clause: Clause) -> str:
    """Returns the name of a column that a clause gives, in lower case; '' for none."""
    match clause:
        case AddColumn():
            return clause.new.column.name.lower()
        case AddComputed():
            return clause.column.name.lower()
        case RenameColumn():
            return clause.to.lower()
        case ChangeColumn():
            return clause.new.name.lower()
    return ""
