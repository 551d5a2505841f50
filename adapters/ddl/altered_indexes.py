"""Indexes that one ALTER TABLE adds, drops and renames, on their way to a target.

An index of the source has its name at MySQL and MariaDB, and that of its table in front at PostgreSQL.  Whether a
clause is still to be done shows in the names of the target's indexes.  One that is dropped and made anew by one
statement is so in the target's statement too, which may run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import JSON
from tidelock.adapters.ddl.changed_table import Before
from tidelock.adapters.ddl.index_parts import IndexedColumn, NotIndexed, parts_at
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddComputed,
    AddIndex,
    AddUnique,
    ChangeColumn,
    Clause,
    DropIndex,
    RenameColumn,
    RenameIndex,
)
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.schema.create_table import (
    NAME_BYTES,
    column_type,
    identifier,
    index_name,
    qualified,
    unique_words,
)
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.records import Column, TableName

IndexClause: TypeAlias = AddIndex | AddUnique | DropIndex | RenameIndex
Words: TypeAlias = list[tuple[int, str]]
"""Statements of PostgreSQL, each with its turn among all of the ALTER TABLE; clauses of MySQL."""
_DROP, _RENAME, _UNIQUE, _INDEX = 0, 1, 6, 7


class AlteredIndexes:
    """Changes of indexes on their way to one table.  `clauses`: of the ALTER TABLE.  `others`: names of PostgreSQL's
    schema that are taken.  `anew`: whether all of them run, as names of columns are given away and taken again."""

    def __init__(
        self,
        clauses: Sequence[Clause],
        table: tuple[TableName, TableName],
        shape: TargetShape,
        dialect: Dialect,
        rules: DdlRules,
        before: Before,
        others: Collection[TableName],
        *,
        anew: bool,
    ) -> None:
        (self._source, place), self._shape = table, shape
        self._place = place
        self._dialect, self._rules, self._before = dialect, rules, before
        self._anew, self._clauses = anew, clauses
        self._dropped = {one.name.lower() for one in clauses if isinstance(one, DropIndex)}
        self._renames = {one.name.lower(): one for one in clauses if isinstance(one, RenameIndex)}
        self._made: set[str] = set()
        for one in self._renames.values():
            if one.to.lower() != one.name.lower() and one.to.lower() in self._renames:
                raise NotFollowed(f"it gives the name {one.to} of an index away and takes it again")
        given = self._dropped | self._renames.keys()
        free = {TableName(place.schema, own) for name in given for own in self._names(name)}
        self._others = set(others) - free

    def written(self, clause: IndexClause, columns: Callable[[Sequence[str]], str]) -> Words:
        """Returns what does what is still to be done.  `columns`: lists columns by the target's names.  Raises
        NotFollowed."""
        match clause:
            case AddIndex():
                return self.added(clause)
            case AddUnique():
                return self._unique(clause, columns)
            case DropIndex():
                return self._drop(clause)
            case RenameIndex():
                return self._renamed(clause)

    # ------------------------------------------------------------------ ADD

    def added(self, clause: AddIndex) -> Words:
        """Returns what makes an index that is not unique, unless it is there or the target goes without."""
        words = f"{clause.what} INDEX".strip()
        shown = f"{words} {clause.name or 'without a name'} of {self._source}"
        try:
            parts = parts_at(clause, self._column, self._dialect)
        except NotIndexed as reason:
            self._rules.say(f"{self._place} goes without {shown}: {reason}")
            return []
        name = clause.name or self._chosen(clause.parts[0].column, parts)
        if not name or (self._is_there(name) and not self._is_given(name)):
            return []
        self._made.add(name.lower())
        listed = ", ".join(parts)
        if self._dialect == "mysql":
            return [(_INDEX, f"ADD {words} {identifier('mysql', name)} ({listed})")]
        made = self._cut(name)
        own = f" {identifier('postgres', made)}" if TableName(self._place.schema, made) not in self._others else ""
        return [(_INDEX, f"CREATE INDEX{own} ON {qualified('postgres', self._place)} ({listed})")]

    def _chosen(self, column: str, parts: Sequence[str]) -> str:
        """Returns the name that a server chooses for an index; '' where the target has that index."""
        wanted = tuple(part.replace('"', "").replace("`", "").lower() for part in parts)
        name, number = column, 2
        while self._is_there(name) or name.lower() in self._made:
            there = self._shape.plain_index(name, self._cut(name))
            if there is not None and there.parts == wanted and not self._is_given(name):
                return ""
            if self._is_given(name) and name.lower() not in self._made:
                break
            name, number = f"{column}_{number}", number + 1
        return name

    def _is_there(self, name: str) -> bool:
        return bool({name.lower(), self._cut(name).lower()} & self._shape.index_names)

    def _is_given(self, name: str) -> bool:
        """Tells whether a clause that is still to be done gives the name of an index away."""
        rename = self._renames.get(name.lower())
        return self._anew or name.lower() in self._dropped or (rename is not None and self._is_renaming_open(rename))

    def _unique(self, clause: AddUnique, columns: Callable[[Sequence[str]], str]) -> Words:
        if not (self._anew or self._is_unique_open(clause, columns)):
            return []
        words = unique_words(self._dialect, self._place, clause.name, self._others)
        added = f"ADD {words} ({columns(clause.columns)})"
        self._made.add(clause.name.lower())
        return [(_UNIQUE, self._action(added))]

    def _is_unique_open(self, clause: AddUnique, columns: Callable[[Sequence[str]], str]) -> bool:
        if any(self._rules.column(self._source, name) is None for name in clause.columns):
            return False  # a target that is less strict refuses no row
        there = self._shape.unique(self._index_name(clause.name), clause.name)
        if there is None or clause.name.lower() in self._dropped:
            return True
        wanted = {name.strip('"`').lower() for name in columns(clause.columns).split(", ")}
        return {name.lower() for name in there.columns} != wanted

    def _column(self, name: str) -> IndexedColumn:
        """Returns the target's column of one of the source's, as it is behind the statement.  Raises NotIndexed."""
        to = self._rules.column(self._source, name)
        if to is None:
            raise NotIndexed(f"the feed leaves out column {name}")
        was = name
        for clause in self._clauses:
            match clause:
                case AddColumn() if clause.new.column.name.lower() == name.lower():
                    return self._new(to, clause.new.column)
                case AddComputed() if clause.column.name.lower() == name.lower():
                    return self._new(to, clause.column)
                case ChangeColumn() if clause.new.name.lower() == name.lower():
                    return self._new(to, clause.new)
                case RenameColumn() if clause.to.lower() == name.lower() and self._shape.column(to) is None:
                    was = clause.name
        column = self._shape.column(to) or self._shape.column(was)
        if column is None:
            raise NotIndexed(f"the target has no column {to}")
        former = self._before.column(was)
        known: Column | None = former.column if former is not None else None
        own = column.name if was == name else to
        return IndexedColumn(own, column.type, column.nullable, column.collation, known)

    def _new(self, name: str, new: SourceColumn) -> IndexedColumn:
        charset = new.collation or new.column.charset
        type_ = column_type(new, self._dialect, JSON[self._dialect]).partition(" CHARACTER SET")[0]
        return IndexedColumn(name, type_.lower(), new.nullable, charset, new.column)

    # ------------------------------------------------------------------ DROP, RENAME

    def _drop(self, clause: DropIndex) -> Words:
        shape, names = self._shape, self._names(clause.name)
        rename = next((one for one in self._renames.values() if one.to.lower() == clause.name.lower()), None)
        if rename is not None and not self._is_renaming_open(rename):
            return []  # what has the name now is what has got it
        if clause.what not in ("foreign key", "check"):
            unique = shape.unique(*names)
            if unique is not None and self._dialect == "mysql":
                return [(_DROP, f"DROP INDEX {self._quoted(unique.name)}")]
            if unique is not None:
                constraint = self._action(f"DROP CONSTRAINT IF EXISTS {self._quoted(unique.name)}")
                return [(_DROP, constraint), (_DROP, f"DROP INDEX IF EXISTS {self._of_schema(unique.name)}")]
            if (plain := shape.plain_index(*names)) is not None:
                return [(_DROP, f"DROP INDEX {self._of_schema(plain.name)}")]
        if clause.what in ("foreign key", "constraint"):
            foreign = shape.foreign_key(clause.name)
            if foreign is not None:
                what = "FOREIGN KEY" if self._dialect == "mysql" else "CONSTRAINT"
                return [(_DROP, self._action(f"DROP {what} {self._quoted(foreign.name)}"))]
        if clause.what in ("check", "constraint"):  # which `init` makes at the target by the source's name
            cut = clause.name.encode()[:NAME_BYTES].decode(errors="ignore")
            if check := shape.check(clause.name, cut):
                return [(_DROP, self._action(f"DROP CONSTRAINT {self._quoted(check)}"))]
        if clause.what != "check" and (doubt := shape.doubt(clause.what, clause.name)):
            raise NotFollowed(f"nothing at {self._place} is named {clause.name}, and {doubt} may be what it drops")
        return []

    def _is_renaming_open(self, clause: RenameIndex) -> bool:
        """Tells whether the target has the old name, and the new one only where the statement gives it away."""
        if not set(map(str.lower, self._names(clause.name))) & self._shape.index_names:
            return False
        return clause.to.lower() in self._dropped or not self._is_there(clause.to)

    def _renamed(self, clause: RenameIndex) -> Words:
        if not self._is_renaming_open(clause):
            doubt = "" if self._is_there(clause.to) else self._shape.doubt("index", clause.name)
            if doubt and self._dialect == "mysql":
                why = f"and {doubt} may be what it renames"
                raise NotFollowed(f"nothing at {self._place} is named {clause.name}, {why}")
            return []
        names = self._names(clause.name)
        found = self._shape.unique(*names) or self._shape.plain_index(*names)
        if found is None:
            return []
        to = self._quoted(self._cut(clause.to))
        if self._dialect == "mysql":
            return [(_RENAME, f"RENAME INDEX {self._quoted(found.name)} TO {to}")]
        return [(_RENAME, f"ALTER INDEX {self._of_schema(found.name)} RENAME TO {to}")]

    # ------------------------------------------------------------------ names

    def _names(self, name: str) -> tuple[str, ...]:
        """Returns the names by which an index of the source is found at the target."""
        return name, self._index_name(name), self._cut(name)

    def _index_name(self, name: str) -> str:
        return index_name(self._dialect, self._place, name)

    def _cut(self, name: str) -> str:
        """Returns the target's name of an index, which PostgreSQL would cut."""
        made = self._index_name(name)
        return made if self._dialect == "mysql" else made.encode()[:NAME_BYTES].decode(errors="ignore")

    def _action(self, words: str) -> str:
        return words if self._dialect == "mysql" else f"ALTER TABLE {qualified(self._dialect, self._place)} {words}"

    def _quoted(self, name: str) -> str:
        return identifier(self._dialect, name)

    def _of_schema(self, index: str) -> str:
        """Returns an index as its statement names it: with PostgreSQL it is of the schema, not of the table."""
        place = f"{self._quoted(self._place.schema)}." if self._dialect == "postgres" else ""
        return f"{place}{self._quoted(index)}"
