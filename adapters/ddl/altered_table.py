"""What the clauses of an ALTER TABLE become at a target: judged by how the target's table is now.

Each clause is *open* (still to be done) or *done*: it ran before, and we did not come to note that, or somebody was
ahead of us.  Only what is open runs, so nothing runs twice.  A statement that gives a name away and takes it again
shows neither; MySQL and MariaDB, which commit before it can be noted, do not get it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.added_columns import add_column, renamed
from tidelock.adapters.ddl.altered_indexes import AlteredIndexes
from tidelock.adapters.ddl.changed_defaults import column_of, default_words
from tidelock.adapters.ddl.changed_table import Before, ChangedTable
from tidelock.adapters.ddl.computed_columns import expression_at
from tidelock.adapters.ddl.operations import (
    AddColumn,
    AddComputed,
    AddIndex,
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
    SetDefault,
    reused,
    touched,
)
from tidelock.adapters.ddl.parser import NewColumn
from tidelock.adapters.ddl.present_time import present_text
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.ports.definition import Default
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import identifier, qualified
from tidelock.adapters.schema.defaults import translated
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable


def alter_table(
    alter: AlterTable,
    place: TableName,
    table: TargetTable,
    dialect: Dialect,
    rules: DdlRules,
    before: Before = Before(),
    others: Collection[TableName] = (),
) -> list[str]:
    """Returns the statements that do what is still to be done of `alter` at `table`; `before`: the source's table just
    before it; `others`: names of tables and indexes that the target has.  Raises NotFollowed."""
    return _Altered(alter, place, table, dialect, rules, before, others).statements()


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
        others: Collection[TableName],
    ) -> None:
        self._source, self._place, self._dialect, self._rules = alter.table, place, dialect, rules
        self._at = qualified(dialect, place)
        self._shape = TargetShape(table, dialect)
        clauses = [clause for clause in alter.clauses if not isinstance(clause, Rowless)]
        self._clauses = [clause for clause in clauses if self._follows(clause)]
        before = _with_texts(before, alter.clauses)
        self._reused, self._before = reused(self._clauses), before
        self._changes = ChangedTable(alter.table, place, self._shape, dialect, rules, before)
        self._indexes = AlteredIndexes(
            self._clauses, (alter.table, place), self._shape, dialect, rules, before, others, anew=bool(self._reused)
        )
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
            elif isinstance(clause, SetDefault):
                made += self._defaulted(clause)
            elif isinstance(clause, AddComputed):
                made += self._computed(clause)
            elif isinstance(clause, AddIndex | AddUnique | DropIndex | RenameIndex):
                made += self._indexes.written(clause, self._listed)
            elif self._reused or self._is_open(clause):
                made += self._written(clause)
        if self._dialect == "mysql":
            altered = [f"ALTER TABLE {self._at} {', '.join(words for _, words in made)}"] if made else []
            return altered + self._present_defaults() + self._passing_defaults()
        made = self._changes.by_spare_names(made) if self._reused else made
        return [words for _, words in sorted(made, key=lambda one: one[0])] + self._present_defaults()

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
                return name is not None and not self._is_there(clause.new.column, name)
            case DropColumn():
                name = self._rules.column(self._source, clause.name)
                return name is not None and shape.column(name) is not None
            case RenameColumn():
                return self._is_renaming_open(clause)
            case AddPrimaryKey():
                return shape.primary_key != self._columns(clause.columns)
            case DropPrimaryKey():
                return self._is_unkeying_open()
            case _:
                return False

    def _is_there(self, new: SourceColumn, name: str) -> bool:
        """Raises NotFollowed where the column is there as another one."""
        column = self._shape.column(name)
        if column is None:
            return False
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

    def _is_unkeying_open(self) -> bool:
        new = [self._columns(other.columns) for other in self._clauses if isinstance(other, AddPrimaryKey)]
        if self._shape.primary_key in ((), *new):
            return False
        if self._shape.stand_in:
            raise NotFollowed(
                f"{self._place} has no primary key, and the unique index {self._shape.stand_in} may stand for it"
            )
        return True

    # ------------------------------------------------------------------ words

    def _written(self, clause: Clause) -> list[tuple[int, str]]:
        """Returns what does the clause: with PostgreSQL statements, each with its turn among all, else clauses."""
        match clause:
            case AddColumn():
                return self._new_column(clause)
            case DropColumn():
                return self._dropped(clause)
            case RenameColumn():
                before = self._shape.column(clause.name)
                return [self._changes.renamed(before.name if before is not None else clause.name, clause.to)]
            case AddPrimaryKey():
                return [(5, self._action(f"ADD PRIMARY KEY ({self._listed(clause.columns)})"))]
            case DropPrimaryKey():
                return self._unkeyed()
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

    def _new_column(self, clause: AddColumn) -> list[tuple[int, str]]:
        new, name = clause.new, self._rules.column(self._source, clause.new.column.name)
        if name is None:
            return []
        if new.present:
            text = present_text(new.column.column, self._before, self._dialect)
            new = replace(new, fill=text)
        return [(4, self._action(add_column(renamed(new, name), self._dialect)))]

    def _computed(self, clause: AddComputed) -> list[tuple[int, str]]:
        """Returns what adds a column that the source computes, with the values of rows that are there.  Raises
        NotFollowed."""
        name = self._rules.column(self._source, clause.column.name)
        if name is None or (not self._reused and self._is_there(clause.column, name)):
            return []
        added = add_column(renamed(NewColumn(clause.column, None), name), self._dialect)
        try:
            expression = expression_at(
                clause, self._before.table, self._shape, self._name_of, touched(self._clauses), self._dialect
            )
        except NotTranslated as reason:
            why = f"column {name} is computed at the source, also in rows that are there: {reason}"
            raise self._changes.refused(why, f"ALTER TABLE {self._at} {added}") from None
        if self._dialect == "mysql":
            return [(4, f"{added} DEFAULT ({expression})")]
        plain = self._action(f"ALTER COLUMN {self._quoted(name)} DROP EXPRESSION")
        return [(4, self._action(f"{added} GENERATED ALWAYS AS ({expression}) STORED")), (4, plain)]

    def _name_of(self, name: str) -> str | None:
        return self._rules.column(self._source, name)

    def _passing_defaults(self) -> list[str]:
        """Returns what takes away, at MySQL, the defaults by which new columns got their values in rows that are there.
        It may run twice."""
        made = []
        for clause in self._clauses if self._dialect == "mysql" else ():
            name = self._name_of(clause.column.name) if isinstance(clause, AddComputed) else None
            if name is None:
                continue
            there = self._shape.column(name)
            if there is None or (there.default and there.nullable and not there.generated):
                made.append(f"ALTER TABLE {self._at} ALTER COLUMN {self._quoted(name)} SET DEFAULT NULL")
        return made

    def _present_defaults(self) -> list[str]:
        """Returns what gives columns that are new the default by which rows to come get the time of theirs.  It may run
        twice."""
        made = []
        for clause in self._clauses:
            if not isinstance(clause, AddColumn) or not clause.new.present:
                continue
            if (name := self._rules.column(self._source, clause.new.column.name)) is not None:
                default = translated(clause.new.column, Default(expression="current_timestamp"), "mysql", self._dialect)
                text = f"({default})" if self._dialect == "mysql" else default
                made.append(f"ALTER TABLE {self._at} ALTER COLUMN {self._quoted(name)} SET DEFAULT {text}")
        return made

    def _defaulted(self, clause: SetDefault) -> list[tuple[int, str]]:
        name = self._rules.column(self._source, clause.name)
        if name is None:
            return []
        column = column_of(name, self._shape, self._clauses)
        try:
            if column is None:
                raise NotTranslated("the target has no such column")
            words = default_words(clause.default, column, self._before.column(clause.name), self._dialect)
        except NotTranslated as reason:
            self._rules.say(f"the default of {name} at {self._place} stays as it is: {reason}")
            return []
        return [(2, self._action(f"ALTER COLUMN {self._quoted(column.name)} {words}"))]

    def _unkeyed(self) -> list[tuple[int, str]]:
        if self._dialect == "mysql":
            return [(1, "DROP PRIMARY KEY")]
        key = self._shape.primary_name
        return [(1, self._action(f"DROP CONSTRAINT {self._quoted(key)}"))] if key else []

    # ------------------------------------------------------------------ names

    def _action(self, words: str) -> str:
        return words if self._dialect == "mysql" else f"ALTER TABLE {self._at} {words}"

    def _quoted(self, name: str) -> str:
        return identifier(self._dialect, name)

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


def _with_texts(before: Before, clauses: Sequence[Clause]) -> Before:
    """Returns the table of before with the character set that the statement itself gives to texts without their own."""
    told = next((one for one in clauses if isinstance(one, Rowless) and one.charset), None)
    if told is None or before.table is None:
        return before
    return replace(before, table=replace(before.table, charset=told.charset, collation=told.collation))


_WORDS: dict[type, str] = {
    AddColumn: "ADD COLUMN", AddComputed: "ADD COLUMN", DropColumn: "DROP COLUMN", RenameColumn: "RENAME COLUMN",
    ChangeColumn: "MODIFY COLUMN", ConvertTexts: "CONVERT", AddPrimaryKey: "a primary key",
    DropPrimaryKey: "a primary key", AddUnique: "a unique index", DropIndex: "an index", RenameIndex: "an index",
    AddIndex: "an index",
    SetDefault: "a default",
}  # fmt: skip
