"""Moves the columns of a MySQL or MariaDB table through the clauses of one ALTER TABLE.

As the servers do it: first each column that is there goes, changes or stays, by the name that it had.  Then, in the
order of the clauses, those come that are new or are put elsewhere, behind columns by the names that these have by then.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tidelock.adapters.ddl.changed_columns import TEXT_DEFAULT, TEXTS
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddComputed,
    AddIndex,
    AddPrimaryKey,
    AddUnique,
    ChangeColumn,
    Clause,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    RenameColumn,
    RenameIndex,
    Rowless,
    SetDefault,
)
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.schema_change import FormerColumn, FormerTable


def behind(table: FormerTable, clauses: Sequence[Clause]) -> FormerTable | None:
    """Returns a table behind the clauses of one statement; None: that is not known."""
    if not all(map(_is_known, clauses)):
        return None
    found = _Columns(table)
    if not found.change(clauses) or not all(map(found.take, clauses)):
        return None
    return found.table()


def former_column(column: SourceColumn, table: FormerTable) -> FormerColumn:
    """Returns a column that a statement defines, with the table's character set where it has none of its own."""
    return _with_texts(FormerColumn(column.column, column.type, column.nullable, column.collation), table)


def _is_known(clause: Clause) -> bool:
    match clause:
        case AddColumn() | AddComputed() | DropColumn() | RenameColumn() | ChangeColumn():
            return True
        case AddPrimaryKey() | DropPrimaryKey() | AddUnique() | AddIndex() | SetDefault() | DropIndex() | RenameIndex():
            return True
        case Rowless():
            return clause.what != TEXT_DEFAULT
    return False  # of a table whose texts are converted, a TEXT may have become a longer type


class _Columns:
    def __init__(self, table: FormerTable) -> None:
        self._table = table
        self._columns = list(table.columns)
        self._key = table.primary_key
        self._moved: dict[str, FormerColumn] = {}  # those that get another place, by their names so far

    def change(self, clauses: Sequence[Clause]) -> bool:
        """Has columns that are there go or change.  Returns whether each is spoken of once."""
        said: dict[str, DropColumn | RenameColumn | ChangeColumn] = {}
        for clause in clauses:
            if isinstance(clause, DropColumn | RenameColumn | ChangeColumn):
                if clause.name.lower() in said:
                    return False
                said[clause.name.lower()] = clause
        self._columns = []
        names: dict[str, str | None] = {}
        for column in self._table.columns:
            name = column.column.name.lower()
            made = self._changed(column, said.get(name))
            names[column.column.name] = made.column.name if made is not None else None
            if made is not None and name not in self._moved:
                self._columns.append(made)
        if self._key is not None:
            renamed = (names.get(name, name) for name in self._key)
            self._key = tuple(name for name in renamed if name is not None)
        return True

    def _changed(
        self, column: FormerColumn, clause: DropColumn | RenameColumn | ChangeColumn | None
    ) -> FormerColumn | None:
        match clause:
            case DropColumn():
                return None
            case RenameColumn():
                return replace(column, column=replace(column.column, name=clause.to))
            case ChangeColumn():
                new = clause.new
                keyed = self._key is not None and column.column.name in self._key
                nullable = clause.nullable is not False and not clause.automatic and not keyed
                made = FormerColumn(new.column, new.type, nullable, new.collation, clause.automatic)
                made = _with_texts(made, self._table)
                if clause.place is not None:
                    self._moved[clause.name.lower()] = made
                return made
        return column

    def take(self, clause: Clause) -> bool:
        """Takes a clause that makes a column, puts one elsewhere or changes the key.  Returns whether its place is
        known."""
        match clause:
            case AddColumn():
                return self._add(former_column(clause.new.column, self._table), clause.new.place)
            case AddComputed():
                made = replace(former_column(clause.column, self._table), generated=True)
                return self._add(made, clause.place)
            case ChangeColumn() if clause.name.lower() in self._moved:
                return self._put(self._moved[clause.name.lower()], clause.place)
            case AddPrimaryKey():
                by_name = {c.column.name.lower(): c.column.name for c in self._columns}
                named = {name.lower() for name in clause.columns}
                self._rekey(tuple(by_name.get(name.lower(), name) for name in clause.columns))
                self._columns = [
                    replace(c, nullable=c.nullable and c.column.name.lower() not in named) for c in self._columns
                ]
            case DropPrimaryKey():
                self._rekey(())
        return True

    def _rekey(self, columns: tuple[str, ...]) -> None:
        if self._key is not None:
            self._key = columns

    def _add(self, made: FormerColumn, place: str | None) -> bool:
        if any(c.column.name.lower() == made.column.name.lower() for c in self._columns):
            return True  # IF NOT EXISTS
        return self._put(made, place)

    def _put(self, made: FormerColumn, place: str | None) -> bool:
        names = [c.column.name.lower() for c in self._columns]
        if place and place.lower() not in names:
            return False
        at = len(names) if place is None else names.index(place.lower()) + 1 if place else 0
        self._columns.insert(at, made)
        return True

    def table(self) -> FormerTable:
        """Returns the table as it is now."""
        return replace(self._table, columns=tuple(self._columns), primary_key=self._key)


def _with_texts(column: FormerColumn, table: FormerTable) -> FormerColumn:
    if column.column.kind not in TEXTS or column.column.charset:
        return column
    return replace(column, column=replace(column.column, charset=table.charset), collation=table.collation)
