"""What the clauses of an ALTER TABLE become at a target: judged by how the target's table is now.

Each clause is *open* (still to be done) or *done*: it ran before, and we did not come to note that, or somebody was
ahead of us.  Only what is open runs, so nothing runs twice.  A statement that gives a name away and takes it again
shows neither; MySQL and MariaDB, which commit before it can be noted, do not get it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_column, renamed
from tidelock.adapters.ddl.changed_table import Before, ChangedTable
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddPrimaryKey,
    AddUnique,
    AlterTable,
    ChangeColumn,
    Clause,
    ConvertTexts,
    DropColumn,
    DropIndex,
    DropPrimaryKey,
    NotCarried,
    RenameColumn,
    RenameIndex,
    Rowless,
)
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import identifier, index_name, qualified, unique_words
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable


def alter_table(
    alter: AlterTable,
    place: TableName,
    table: TargetTable,
    dialect: Dialect,
    rules: DdlRules,
    before: Before = Before(),
) -> list[str]:
    """Returns the statements that do what is still to be done of `alter` at `table`; `before`: the source's table just
    before it.  Raises NotFollowed."""
    return _Altered(alter, place, table, dialect, rules, before).statements()


class _Altered:
    """One ALTER TABLE on its way to one table.  `shape`: the table as it is now."""

    def __init__(
        self,
        alter: AlterTable,
        place: TableName,
        table: TargetTable,
        dialect: Dialect,
        rules: DdlRules,
        before: Before,
    ) -> None:
        self._source, self._place, self._dialect, self._rules = alter.table, place, dialect, rules
        self._at = qualified(dialect, place)
        self._shape = TargetShape(table, dialect)
        clauses = [clause for clause in alter.clauses if not isinstance(clause, Rowless)]
        self._clauses = [clause for clause in clauses if self._follows(clause)]
        self._reused = _reused(self._clauses)
        self._changes = ChangedTable(alter.table, place, self._shape, dialect, rules, before)
        self._rekeyed = any(isinstance(clause, AddPrimaryKey) for clause in self._clauses)

    def statements(self) -> list[str]:
        """Returns what is open, as statements."""
        if self._reused and self._dialect == "mysql":
            raise NotFollowed(
                f"it gives the name {self._reused} away and takes it again, so nobody could tell whether it ran"
            )
        made: list[tuple[int, str]] = []
        for clause in self._clauses:
            if isinstance(clause, ChangeColumn | ConvertTexts):
                made += self._changes.written(clause)
            elif self._reused or self._is_open(clause):
                made += self._written(clause)
        if self._dialect == "mysql":
            return [f"ALTER TABLE {self._at} {', '.join(words for _, words in made)}"] if made else []
        return [words for _, words in sorted(made, key=lambda one: one[0])]

    def _follows(self, clause: Clause) -> bool:
        if isinstance(clause, NotCarried):
            raise NotFollowed(f"{clause.what}: {clause.why}")
        return self._rules.admits(clause.kind, _WORDS[type(clause)])

    # ------------------------------------------------------------------ open, or done

    def _is_open(self, clause: Clause) -> bool:
        shape = self._shape
        match clause:
            case AddColumn():
                name = self._rules.column(self._source, clause.new.column.name)
                return name is not None and not self._is_there(clause, name)
            case DropColumn():
                name = self._rules.column(self._source, clause.name)
                return name is not None and shape.column(name) is not None
            case RenameColumn():
                return self._is_renaming_open(clause)
            case AddPrimaryKey():
                return shape.primary_key != self._columns(clause.columns)
            case DropPrimaryKey() if self._rekeyed:
                return any(
                    shape.primary_key not in ((), self._columns(other.columns))
                    for other in self._clauses
                    if isinstance(other, AddPrimaryKey)
                )
            case DropPrimaryKey():
                return bool(shape.primary_key)
            case AddUnique():
                return self._is_unique_open(clause)
            case DropIndex() | RenameIndex():
                return True
            case _:
                return False

    def _is_there(self, clause: AddColumn, name: str) -> bool:
        """Raises NotFollowed where the column is there as another one."""
        column = self._shape.column(name)
        if column is None:
            return False
        new = clause.new.column
        if reason := compatible(new.column, column, self._dialect, new.type):
            raise NotFollowed(f"{self._place} has {name} already, and {reason}")
        return True

    def _is_renaming_open(self, clause: RenameColumn) -> bool:
        if all(self._rules.column(self._source, name) is None for name in (clause.name, clause.to)):
            return False
        self._rules.require_unnamed(self._source, clause.name, clause.to)
        before, after = self._shape.column(clause.name), self._shape.column(clause.to)
        if clause.name.lower() == clause.to.lower():
            return before is not None and before.name != clause.to
        if (before is None) == (after is None):
            both = "both" if before is not None else "neither"
            raise NotFollowed(f"{self._place} has {both} of {clause.name} and {clause.to}")
        return before is not None

    def _is_unique_open(self, clause: AddUnique) -> bool:
        if any(self._rules.column(self._source, name) is None for name in clause.columns):
            return False  # a target that is less strict refuses no row
        named = self._shape.unique(self._index_name(clause.name), clause.name)
        return named is None or {c.lower() for c in named.columns} != {c.lower() for c in self._columns(clause.columns)}

    # ------------------------------------------------------------------ words

    def _written(self, clause: Clause) -> list[tuple[int, str]]:
        """Returns what does the clause: with PostgreSQL statements, each with its turn among all, else clauses."""
        match clause:
            case AddColumn():
                name = self._rules.column(self._source, clause.new.column.name)
                return [(4, self._action(add_column(renamed(clause.new, name), self._dialect)))] if name else []
            case DropColumn():
                return self._dropped(clause)
            case RenameColumn():
                before = self._shape.column(clause.name)
                name = self._quoted(before.name if before is not None else clause.name)
                return [(3, self._action(f"RENAME COLUMN {name} TO {self._quoted(clause.to)}"))]
            case AddPrimaryKey():
                return [(5, self._action(f"ADD PRIMARY KEY ({self._listed(clause.columns)})"))]
            case DropPrimaryKey():
                return self._unkeyed()
            case AddUnique():
                taken = [TableName(self._place.schema, name) for name in self._shape.plain_indexes]
                words = unique_words(self._dialect, self._place, clause.name, taken)
                return [(6, self._action(f"ADD {words} ({self._listed(clause.columns)})"))]
            case DropIndex():
                return self._index_dropped(clause)
            case RenameIndex():
                return self._index_renamed(clause)
            case _:
                return []

    def _dropped(self, clause: DropColumn) -> list[tuple[int, str]]:
        self._rules.require_unnamed(self._source, clause.name)
        column = self._shape.column(clause.name)
        name = column.name if column is not None else clause.name
        if self._rules.keeps("drop_column"):
            if column is not None and not column.nullable and not column.default:
                raise NotFollowed(f"the target keeps column {name} (`lenient`), and it takes no rows without a value")
            if name in self._shape.primary_key:
                raise NotFollowed(f"the target keeps column {name} (`lenient`), which is part of its key")
            return []
        rekeyed = self._rekeyed or any(isinstance(other, DropPrimaryKey) for other in self._clauses)
        if name in self._shape.primary_key and len(self._shape.primary_key) > 1 and not rekeyed:
            raise NotFollowed(f"column {name} is one of several of the primary key")
        return [(2, self._action(f"DROP COLUMN {self._quoted(name)}"))]

    def _unkeyed(self) -> list[tuple[int, str]]:
        if self._dialect == "mysql":
            return [(1, "DROP PRIMARY KEY")]
        key = self._shape.primary_name
        return [(1, self._action(f"DROP CONSTRAINT {self._quoted(key)}"))] if key else []

    def _index_dropped(self, clause: DropIndex) -> list[tuple[int, str]]:
        shape = self._shape
        if clause.what != "foreign key":
            unique = shape.unique(clause.name, self._index_name(clause.name))
            if unique is not None and self._dialect == "mysql":
                return [(1, f"DROP INDEX {self._quoted(unique.name)}")]
            if unique is not None:
                constraint = self._action(f"DROP CONSTRAINT IF EXISTS {self._quoted(unique.name)}")
                return [(1, constraint), (1, f"DROP INDEX IF EXISTS {self._of_schema(unique.name)}")]
            if plain := shape.plain_index(clause.name, self._index_name(clause.name)):
                return [(1, f"DROP INDEX {self._of_schema(plain)}")]
        if clause.what != "index":
            foreign = shape.foreign_key(clause.name)
            if foreign is not None:
                what = "FOREIGN KEY" if self._dialect == "mysql" else "CONSTRAINT"
                return [(1, self._action(f"DROP {what} {self._quoted(foreign.name)}"))]
        if doubt := shape.doubt(clause.what, clause.name):
            raise NotFollowed(f"nothing at {self._place} is named {clause.name}, and {doubt} may be what it drops")
        return self._check_dropped(clause) if clause.what == "constraint" else []

    def _check_dropped(self, clause: DropIndex) -> list[tuple[int, str]]:
        """Returns what drops a CHECK, which `init` makes at the target by the source's name."""
        if self._dialect == "mysql":
            raise NotFollowed(
                f"{clause.name} may be a CHECK, and {self._place} may have one as well, which would refuse rows"
            )
        return [(1, self._action(f"DROP CONSTRAINT IF EXISTS {self._quoted(clause.name)}"))]

    def _index_renamed(self, clause: RenameIndex) -> list[tuple[int, str]]:
        """Returns nothing for a plain index that the target has not got: it need not have one."""
        names = (clause.name, self._index_name(clause.name))
        unique = self._shape.unique(*names)
        name = unique.name if unique is not None else self._shape.plain_index(*names)
        if not name and (doubt := self._shape.doubt("index", clause.name)) and self._dialect == "mysql":
            raise NotFollowed(f"nothing at {self._place} is named {clause.name}, and {doubt} may be what it renames")
        if not name:
            return []
        to = self._quoted(self._index_name(clause.to))
        if self._dialect == "mysql":
            return [(1, f"RENAME INDEX {self._quoted(name)} TO {to}")]
        return [(1, f"ALTER INDEX {self._of_schema(name)} RENAME TO {to}")]

    # ------------------------------------------------------------------ names

    def _action(self, words: str) -> str:
        return words if self._dialect == "mysql" else f"ALTER TABLE {self._at} {words}"

    def _quoted(self, name: str) -> str:
        return identifier(self._dialect, name)

    def _of_schema(self, index: str) -> str:
        """Returns an index as its statement names it: with PostgreSQL it is of the schema, not of the table."""
        place = f"{self._quoted(self._place.schema)}." if self._dialect == "postgres" else ""
        return f"{place}{self._quoted(index)}"

    def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns the target's names of columns.  Raises NotFollowed where it has not got one of them."""
        made = []
        for name in names:
            mapped = self._rules.column(self._source, name)
            if mapped is None:
                raise NotFollowed(f"the feed leaves out column {name}, which is part of a key")
            made.append(self._shape.spelled(mapped))
        return tuple(made)

    def _listed(self, names: Sequence[str]) -> str:
        return ", ".join(map(self._quoted, self._columns(names)))

    def _index_name(self, name: str) -> str:
        return index_name(self._dialect, self._place, name)


def _reused(clauses: Sequence[Clause]) -> str:
    """Returns a column's name that one clause gives away and another one takes; '' where none is."""
    given: set[str] = set()
    taken: list[str] = []
    for clause in clauses:
        match clause:
            case DropColumn():
                given.add(clause.name.lower())
            case RenameColumn() if clause.name.lower() != clause.to.lower():
                given.add(clause.name.lower())
                taken.append(clause.to)
            case ChangeColumn() if clause.name.lower() != clause.new.name.lower():
                given.add(clause.name.lower())
                taken.append(clause.new.name)
            case AddColumn():
                taken.append(clause.new.column.name)
    return next((name for name in taken if name.lower() in given), "")


_WORDS: dict[type, str] = {
    AddColumn: "ADD COLUMN", DropColumn: "DROP COLUMN", RenameColumn: "RENAME COLUMN",
    ChangeColumn: "MODIFY COLUMN", ConvertTexts: "CONVERT", AddPrimaryKey: "a primary key",
    DropPrimaryKey: "a primary key", AddUnique: "a unique index", DropIndex: "an index", RenameIndex: "an index",
}  # fmt: skip
