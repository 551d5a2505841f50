"""Other definitions of columns on their way to a target: judged by the source's table just before the statement, which
says whether values may change, and by the target's, which says what is still to be done.
"""

from __future__ import annotations

import itertools
from typing import Final

import msgspec
from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.changed_columns import TEXTS
from tidelock.adapters.ddl.conversions import changes_values, narrowed_by_charset
from tidelock.adapters.ddl.operations import ChangeColumn, ConvertTexts
from tidelock.adapters.ddl.rules import DdlRules, NotFollowed
from tidelock.adapters.ddl.target_shape import TargetShape
from tidelock.adapters.schema.compatibility import compatible, same_type
from tidelock.adapters.schema.create_table import column_type, identifier, qualified
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.schema.type_map import is_text, same_postgres_type, without_comments
from tidelock.adapters.schema.whole_table import label_check_name
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import TargetColumn
from tidelock.engine.model.schema_change import FormerColumn, FormerTable

_UNKNOWN: Final = (
    "the type that the column had before is not known (a feed knows it once it has read on to where it looked at the "
    "source's tables, a plan from a CREATE TABLE in its file)"
)
_RENAME, _CHANGE = 3, 4
_PRESENT_TIME = "TIMESTAMP without NULL or NOT NULL is what the server's settings make of it"


class Before(msgspec.Struct, frozen=True):
    """The source's table just before a statement, the mode of the statement's session, and when it began; None: not
    known.  `zone`: the session's time zone; '': the log does not tell."""

    table: FormerTable | None = None
    sql_mode: int | None = None
    moment_us: int | None = None
    zone: str = ""

    def column(self, name: str) -> FormerColumn | None:
        """Returns the column of this name."""
        columns = self.table.columns if self.table is not None else ()
        return next((one for one in columns if one.column.name.lower() == name.lower()), None)


class ChangedTable:
    """Changes of columns on their way to one table.  `source`: its name there; `shape`: the target's as it is now."""

    def __init__(
        self,
        source: TableName,
        place: TableName,
        shape: TargetShape,
        dialect: Dialect,
        rules: DdlRules,
        before: Before,
    ) -> None:
        self._source, self._place, self._shape = source, place, shape
        self._dialect, self._rules, self._before = dialect, rules, before
        self._renames: dict[str, tuple[str, str]] = {}

    def written(self, clause: ChangeColumn | ConvertTexts) -> list[tuple[int, str]]:
        """Returns what does what is still to be done: with PostgreSQL statements, each with its turn among all, else
        clauses.  Raises NotFollowed."""
        return self._converted(clause) if isinstance(clause, ConvertTexts) else self._changed(clause)

    def _changed(self, clause: ChangeColumn) -> list[tuple[int, str]]:
        name, to = (self._rules.column(self._source, one) for one in (clause.name, clause.new.name))
        if name is None and to is None:
            return []
        column = self._column(clause, name, to)
        old, before = self._before.column(clause.name), self._before.table
        if old is None or before is None:
            raise self._refused(_UNKNOWN, self._words(clause, None, column, to or column.name))
        new = self._resolved(clause, column, before)
        words = self._words(replace(clause, new=new), old, column, to or column.name)
        reason = _PRESENT_TIME if new.column.kind is Kind.TIMESTAMP and clause.nullable is None else ""
        reason = reason or (clause.automatic and not old.automatic and "numbers are given to rows that have none") or ""
        if not new.column.type:  # of PostgreSQL's column the reader of its log has told that no value changes
            reason = reason or changes_values(before, old, new, self._before.sql_mode)
        if not reason and self._type_is_open(column, old, new) and self._dialect == "postgres":
            reason = "PostgreSQL adds bits at the other end" if new.column.kind is Kind.BIT else ""
        if reason:
            raise self._refused(reason, words)
        return words

    def _column(self, clause: ChangeColumn, name: str | None, to: str | None) -> TargetColumn:
        """Returns the target's column, under its old name or its new one."""
        if clause.name.lower() == clause.new.name.lower():
            column = self._shape.column(name or clause.name)
            if column is None:
                raise NotFollowed(f"{self._place} has no column {name}")
            return column
        self._rules.require_unnamed(self._source, clause.name, clause.new.name)
        before, after = self._shape.column(name or ""), self._shape.column(to or "")
        if (before is None) == (after is None):
            both = "both" if before is not None else "neither"
            raise NotFollowed(f"{self._place} has {both} of {name} and {to}")
        found = before or after
        assert found is not None, "it has one of them"
        return found

    def _resolved(self, clause: ChangeColumn, column: TargetColumn, before: FormerTable) -> SourceColumn:
        """Returns the new column with the character set that it gets, and NOT NULL where it is part of the key."""
        new = clause.new
        if new.column.kind in TEXTS and not new.column.charset:
            new = replace(new, column=replace(new.column, charset=before.charset), collation=before.collation)
        in_key = column.name in self._shape.primary_key
        return replace(new, nullable=clause.nullable is not False and not in_key and not clause.automatic)

    # ------------------------------------------------------------------ what is open

    def _type_is_open(self, column: TargetColumn, old: FormerColumn | None, new: SourceColumn) -> bool:
        """Tells whether the target has the type of before; where that is not known, whether it has one that does not
        hold every new value.  Raises NotFollowed where it has neither."""
        after = self._type(new)
        if self._is_same(column.type, after):
            return False
        holds = not compatible(new.column, column, self._dialect, new.type)
        if old is None:
            return not holds
        before = self._type(_as_source(old))
        if self._is_same(column.type, before):
            return True
        if holds:
            return False
        raise NotFollowed(f"{self._place} has {column.name} as {column.type}, neither as {before} nor as {after}")

    def _type(self, column: SourceColumn) -> str:
        if self._dialect == "postgres":
            return column_type(column, self._dialect)
        return column_type(replace(column, column=replace(column.column, charset=""), collation=""), self._dialect)

    def _is_same(self, one: str, other: str) -> bool:
        return (same_postgres_type if self._dialect == "postgres" else same_type)(one, other)

    def _is_loosened(self, column: TargetColumn, new: SourceColumn) -> bool:
        return new.nullable and not column.nullable and column.name not in self._shape.primary_key

    def _is_tightened(self, column: TargetColumn, old: FormerColumn | None, new: SourceColumn) -> bool:
        return not new.nullable and column.nullable and (old is None or old.nullable)

    # ------------------------------------------------------------------ words

    def _words(
        self, clause: ChangeColumn, old: FormerColumn | None, column: TargetColumn, to: str
    ) -> list[tuple[int, str]]:
        """Returns what is open.  `old`: None where it is not known."""
        type_open = self._type_is_open(column, old, clause.new)
        if self._dialect == "postgres":
            return self._of_postgres(clause, old, column, to, type_open)
        texts = self._text_words(old, column, clause.new)
        place = self._place_words(clause, column)
        null_open = self._is_loosened(column, clause.new) or self._is_tightened(column, old, clause.new)
        if not (type_open or texts or place or null_open or column.name != to):
            return []
        type_ = self._type(clause.new) if type_open else without_comments(column.type)
        texts = texts or _own_texts(column, type_)
        null = "NULL" if clause.new.nullable else "NOT NULL"
        verb = f"MODIFY COLUMN {self._quoted(to)}"
        if column.name != to:
            verb = f"CHANGE COLUMN {self._quoted(column.name)} {self._quoted(to)}"
        words = " AUTO_INCREMENT" if clause.new.column.type and column.automatic else clause.words
        return [(_CHANGE, f"{verb} {type_}{texts} {null}{words}{place}")]

    def _of_postgres(
        self, clause: ChangeColumn, old: FormerColumn | None, column: TargetColumn, to: str, type_open: bool
    ) -> list[tuple[int, str]]:
        made: list[tuple[int, str]] = []
        at, new = self._quoted(to), clause.new
        if old is not None and old.column.kind is Kind.ENUM and old.column.labels != new.column.labels:
            check = self._quoted(label_check_name(self._place, column.name))
            made.append((1, self._action(f"DROP CONSTRAINT IF EXISTS {check}")))
        if column.name != to:
            made.append(self.renamed(column.name, to))
        if type_open:
            made.append((_CHANGE, self._action(f"ALTER COLUMN {at} TYPE {self._type(new)}")))
        if self._is_loosened(column, new):
            made.append((_CHANGE, self._action(f"ALTER COLUMN {at} DROP NOT NULL")))
        if self._is_tightened(column, old, new):
            made.append((_CHANGE, self._action(f"ALTER COLUMN {at} SET NOT NULL")))
        return made

    def _text_words(self, old: FormerColumn | None, column: TargetColumn, new: SourceColumn) -> str:
        """Returns the character set that a text gets at MySQL and MariaDB; '' where the target's stays."""
        charset, collation = new.column.charset, new.collation
        if new.column.kind not in TEXTS or not charset:
            return ""
        if old is not None and (old.column.charset, old.collation) == (charset, collation):
            return ""
        if _has_texts(column, charset, collation):
            return ""
        return f" CHARACTER SET {charset}" + (f" COLLATE {collation}" if collation else "")

    def _place_words(self, clause: ChangeColumn, column: TargetColumn) -> str:
        """Returns where the column goes; '' where it is there, or the target has no such place."""
        if clause.place is None:
            return ""
        name = self._rules.column(self._source, clause.place) if clause.place else ""
        other = self._shape.column(name) if name else None
        if name is None or (name and other is None) or other is column:
            return ""
        if self._shape.in_front(column.name) == (other.name if other is not None else ""):
            return ""
        return f" AFTER {self._quoted(other.name)}" if other is not None else " FIRST"

    # ------------------------------------------------------------------ CONVERT TO CHARACTER SET

    def _converted(self, clause: ConvertTexts) -> list[tuple[int, str]]:
        words = f"CONVERT TO CHARACTER SET {clause.charset}"
        words += f" COLLATE {clause.collation}" if clause.collation else ""
        made = [(_CHANGE, words)] if self._dialect == "mysql" else []
        before = self._before.table
        if before is None:
            raise self._refused("the table's texts before the statement are not known", made)
        texts = [column for column in before.columns if column.column.kind in TEXTS and not column.generated]
        for column in texts:
            if reason := narrowed_by_charset(column, clause.charset):
                raise self._refused(f"column {column.column.name}: {reason}", made)
        if computed := next((one.column.name for one in before.columns if one.generated), None):
            raise self._refused(f"the generated column {computed} may be computed from a text", made)
        names = {self._rules.column(self._source, column.column.name) for column in texts}
        there = [column for column in self._shape.columns if _is_textual(column.type)]
        own = next((column.name for column in there if column.name not in names), None)
        if made and own is not None:
            raise self._refused(f"the target's text {own} is not one of the source's", made)
        is_open = any(not _has_texts(column, clause.charset, clause.collation) for column in there)
        return made if is_open else []

    # ------------------------------------------------------------------ names, refusals

    def renamed(self, name: str, to: str) -> tuple[int, str]:
        """Returns what gives a column another name: with PostgreSQL a statement, else a clause."""
        words = self._action_of(f"RENAME COLUMN {self._quoted(name)} TO {self._quoted(to)}")
        self._renames[words] = (name, to)
        return _RENAME, words

    def by_spare_names(self, made: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Returns statements of PostgreSQL in which no column takes a name that another one has still: those that
        exchange names get names in between that nobody has."""
        moves = [self._renames[words] for _, words in made if words in self._renames]
        if not {name for name, _ in moves} & {to for _, to in moves}:
            return made
        others = [one for one in made if one[1] not in self._renames]
        taken = {column.name for column in self._shape.columns} | {to for _, to in moves}
        numbers = (f"spare_{number}" for number in itertools.count())
        free = (name for name in numbers if name not in taken)
        spares = dict(zip(moves, free, strict=False))
        away = [self.renamed(name, spare) for (name, _), spare in spares.items()]
        return [*others, *away, *(self.renamed(spare, to) for (_, to), spare in spares.items())]

    def _action_of(self, words: str) -> str:
        return words if self._dialect == "mysql" else self._action(words)

    def _refused(self, why: str, made: list[tuple[int, str]]) -> NotFollowed:
        at = qualified(self._dialect, self._place)
        texts = [words for _, words in sorted(made, key=lambda one: one[0])]
        if self._dialect == "mysql" and texts:
            texts = [f"ALTER TABLE {at} {', '.join(texts)}"]
        return self.refused(why, *texts)

    def refused(self, why: str, *texts: str) -> NotFollowed:
        """Returns why statements do not run by themselves, which are shown, with how to go on."""
        would = f" (it would have run {'; '.join(texts)})" if texts else ""
        return NotFollowed(
            f"{why}{would}",
            f"change the target's table {self._place} to match, `tidelock ddl done FEED`, `tidelock run FEED`, and "
            f"beside it `tidelock copy FEED --table {self._source}`, which brings the values that rows have now",
        )

    def _action(self, words: str) -> str:
        return f"ALTER TABLE {qualified(self._dialect, self._place)} {words}"

    def _quoted(self, name: str) -> str:
        return identifier(self._dialect, name)


def _as_source(old: FormerColumn) -> SourceColumn:
    return SourceColumn(old.column, old.type, old.nullable, collation=old.collation)


def _charset(name: str) -> str:
    return "utf8mb3" if name == "utf8" else name


def _has_texts(column: TargetColumn, charset: str, collation: str) -> bool:
    """Tells whether a text of the target has a character set, and a collation where one is named."""
    if collation:
        return column.collation == collation
    return _charset(column.collation.partition("_")[0]) == _charset(charset)


def _own_texts(column: TargetColumn, type_: str) -> str:
    """Returns the character set that a text of the target has, so that it stays where the table has another one."""
    if not column.collation or not _is_textual(type_):
        return ""
    charset, _, order = column.collation.partition("_")  # a plan knows no more than the character set
    return f" CHARACTER SET {charset}" + (f" COLLATE {column.collation}" if order else "")


def _is_textual(type_: str) -> bool:
    return is_text(type_) or type_.startswith(("enum(", "set("))
