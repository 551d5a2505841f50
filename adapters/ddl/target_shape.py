"""A target's table as an ALTER TABLE meets it: names are found however they are spelled, as at the source."""

from __future__ import annotations

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.index_names import index_names
from tidelock.engine.model.schema import ForeignKey, SecondaryIndex, TargetColumn, TargetTable, UniqueKey


class TargetShape:
    """The columns and keys of a table by their names."""

    def __init__(self, table: TargetTable, dialect: Dialect) -> None:
        self._table, self._dialect = table, dialect
        self._columns = {column.name.lower(): column for column in table.columns}

    def column(self, name: str) -> TargetColumn | None:
        """Returns the column of this name."""
        return self._columns.get(name.lower())

    def in_front(self, name: str) -> str:
        """Returns the column that stands in front of one, '' for the first."""
        names = list(self._columns)
        at = names.index(name.lower())
        return self.spelled(names[at - 1]) if at else ""

    @property
    def columns(self) -> tuple[TargetColumn, ...]:
        """The columns, in order."""
        return self._table.columns

    def spelled(self, name: str) -> str:
        """Returns a column's name as the target spells it; one that it has not yet, as it is."""
        column = self.column(name)
        return column.name if column is not None else name

    @property
    def _primary(self) -> UniqueKey | None:
        if self._dialect == "mysql":
            return next((unique for unique in self._table.uniques if unique.name == "PRIMARY"), None)
        return next((unique for unique in self._table.uniques if unique.columns == self._table.key), None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key; at PostgreSQL of the unique index that stands for it, where it has none."""
        return self._primary.columns if self._primary is not None else ()

    @property
    def primary_name(self) -> str:
        """The name of what makes the primary key; '' for none."""
        return self._primary.name if self._primary is not None else ""

    @property
    def stand_in(self) -> str:
        """The unique index of PostgreSQL that is taken for the primary key, as there is none; '' where there is one."""
        return self.primary_name if self._table.primary == "" else ""

    def unique(self, *names: str) -> UniqueKey | None:
        """Returns the unique index that has one of these names, and is not the primary key."""
        wanted = {name.lower() for name in names}
        return next((unique for unique in self._others if unique.name.lower() in wanted), None)

    @property
    def index_names(self) -> frozenset[str]:
        """Names of all indexes, in lower case."""
        return frozenset(map(str.lower, index_names(self._table)))

    def plain_index(self, *names: str) -> SecondaryIndex | None:
        """Returns the index that has one of these names and is not unique."""
        wanted = {name.lower() for name in names}
        return next((one for one in self._table.plain_indexes if one.name.lower() in wanted), None)

    def check(self, *names: str) -> str:
        """Returns the name of the CHECK that has one of these; '' for none."""
        wanted = {name.lower() for name in names}
        return next((name for name in self._table.checks if name.lower() in wanted), "")

    def foreign_key(self, name: str) -> ForeignKey | None:
        """Returns the foreign key of this name."""
        return next((key for key in self._table.foreign_keys if key.name.lower() == name.lower()), None)

    def doubt(self, what: str, name: str) -> str:
        """Returns what may be meant by a name that is not there; '' where there is nothing."""
        if what != "foreign key" and (unnamed := self._unnamed(name)):
            return f"unique index {unnamed}"
        if what != "index" and self._table.foreign_keys:
            return f"foreign key {self._table.foreign_keys[0].name}"
        if what != "foreign key" and self._dialect == "postgres" and self._others:
            return f"unique index {self._others[0].name}"
        return ""

    def _unnamed(self, name: str) -> str:
        """Returns the unique index that got no name, and at the source perhaps this one: that of its first column with
        a number, where an index that the target need not have bears that of the column."""
        column, _, number = name.lower().rpartition("_")
        unique = self.unique(column) if number.isdecimal() else None
        return unique.name if unique is not None and unique.columns[0].lower() == column else ""

    @property
    def _others(self) -> list[UniqueKey]:
        return [unique for unique in self._table.uniques if unique is not self._primary]
