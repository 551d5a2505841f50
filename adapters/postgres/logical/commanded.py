"""Changes of a table by one command, told by the forms before and behind it: exact, as nothing else lies between.

Columns and keys are compared by the columns' numbers, so names may be exchanged in any number of commands.  A column
of another type is followed where `type_changes` says that no value changes, and where it is known that no USING
computed another one: the table was not written anew, or the message says that the command has none.  What may have
changed rows in a way that the log does not tell is told in words, and halts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from tidelock.adapters.postgres.logical.command_messages import Command
from tidelock.adapters.postgres.logical.command_words import words_of
from tidelock.adapters.postgres.logical.form_facts import FormFacts, UniqueIndex
from tidelock.adapters.postgres.logical.relation_changes import (
    Form,
    FormChange,
    FormColumn,
    added_column,
    adding_statement,
    computed_otherwise,
    doubt_of,
    number_of,
)
from tidelock.adapters.postgres.logical.type_changes import changes_values
from tidelock.engine.model.records import Column
from tidelock.engine.model.schema_change import DdlKind, ToldChange, ToldColumn, ToldTable, ToldUnique


def commanded(
    before: Form, after: Form, columns: tuple[Mapping[int, Column], Mapping[int, Column]], command: Command
) -> FormChange | None:
    """Returns what a command has made of a table; None where nothing that rows depend on.  All columns have numbers.
    `columns`: of both forms, by number."""
    return _Commanded(before, after, columns, command).change()


def created(form: Form, columns: Mapping[int, Column], tag: str) -> FormChange:
    """Returns the change that a table is new.  `tag`: of the command; those with a query have filled it."""
    number = number_of(form, form)
    if tag != "CREATE TABLE" or form.facts is None:
        told = f"{form.name} was made by {tag}, with rows that the log does not tell"
        return FormChange(form.oid, number, DdlKind.OTHER, told, (form.name,), untold=True)
    expressions = {one.number: one.expression for one in form.computed}
    made = ToldTable(
        tuple(
            ToldColumn(columns[one.number], one.nullable, expressions.get(one.number, "")) for one in form.facts.columns
        ),
        _names(form, form.facts.primary_key),
        tuple((one.name, _names(form, one.columns)) for one in form.facts.uniques if one.plain and not one.primary),
    )
    told_change = ToldChange(made=made)
    statement = words_of(form.name, told_change, ())
    return FormChange(form.oid, number, DdlKind.CREATE_TABLE, statement, (form.name,), told=told_change)


def foreign(form: Form) -> FormChange:
    """Returns the change that a table has come into the feed which has rows that the feed does not know."""
    told = f"{form.name} is a table that was not the feed's before: the rows that it has are not in the log"
    return FormChange(form.oid, number_of(form, form), DdlKind.OTHER, told, (form.name,), untold=True)


class _Commanded:
    """One table on both sides of a command.  `facts`: on both sides, where the former ones are known."""

    def __init__(
        self, before: Form, after: Form, columns: tuple[Mapping[int, Column], Mapping[int, Column]], command: Command
    ) -> None:
        self._before, self._after, self._command = before, after, command
        self._were, self._are = columns
        self._now = {column.number: column for column in after.columns}
        self._had = {column.number: column for column in before.columns}
        self._facts = (before.facts, after.facts) if before.facts is not None and after.facts is not None else None

    def change(self) -> FormChange | None:
        before, after = self._before, self._after
        new = [column for column in after.columns if column.number not in self._had]
        told = self._told()
        words = [*self._doubts(new), *computed_otherwise(before, after), *self._of_partitions()]
        tables = tuple(dict.fromkeys((before.name, after.name)))
        number = number_of(before, after)
        if told.name is not None and (told != ToldChange(name=told.name) or new):
            words.append(f"it was {before.name}, and was changed in another way at once")
        if words:
            told_words = f"{after.name}: {'; '.join(words)}"
            return FormChange(after.oid, number, DdlKind.OTHER, told_words, tables, untold=True)
        if told == ToldChange() and not new:
            return None
        added = tuple(added_column(self._are[one.number], self._fill(one.number)) for one in new)
        if told == ToldChange():
            statement = adding_statement(after.name, added)
            return FormChange(after.oid, number, DdlKind.ADD_COLUMN, statement, tables, added)
        statement = words_of(before.name, told, added)
        return FormChange(after.oid, number, DdlKind.ALTERED, statement, tables, added, told=told)

    def _told(self) -> ToldChange:
        before, after = self._before, self._after
        kept = [(one, self._now[one.number]) for one in before.columns if one.number in self._now]
        return ToldChange(
            dropped=tuple(one.name for one in before.columns if one.number not in self._now),
            renamed=tuple((one.name, other.name) for one, other in kept if one.name != other.name),
            name=after.name if before.name != after.name else None,
            retyped=tuple(self._retyped(kept)),
            rekeyed=self._rekeyed(),
            uniques=tuple(self._uniques()),
        )

    def _fill(self, number: int) -> str | None:
        state = self._after.facts.column(number) if self._after.facts is not None else None
        return state.fill if state is not None else None

    def _doubts(self, new: Sequence[FormColumn]) -> Iterator[str]:
        """Yields why values are not certain: of new columns, and of those that have another type."""
        for column in new:
            state = self._after.facts.column(column.number) if self._after.facts is not None else None
            if doubt := doubt_of(column, state.facts if state is not None else None, self._before):
                yield doubt
        if self._after.oid in self._command.rewritten and not self._command.plain:
            yield (
                "its rows were written anew, and that no USING computed other values is certain only of an ALTER TABLE "
                "that was sent by itself, outside of functions, without the letters USING"
            )
        for number, one in self._had.items():
            other = self._now.get(number)
            if other is None or (one.type, one.modifier) == (other.type, other.modifier):
                continue
            if reason := changes_values(self._were[number], self._are[number]):
                yield f"column {other.name} was {one.spelled}, and is {other.spelled}: {reason}"

    def _retyped(self, kept: Sequence[tuple[FormColumn, FormColumn]]) -> Iterator[tuple[ToldColumn, ToldColumn]]:
        """Yields columns that have another type, or that may be NULL now."""
        for one, other in kept:
            was_nullable, nullable = (_is_nullable(form, one.number) for form in (self._before, self._after))
            is_loosened = was_nullable is False and nullable is True
            if is_loosened or (one.type, one.modifier) != (other.type, other.modifier):
                before = ToldColumn(replace(self._were[one.number], name=other.name), was_nullable in (True, None))
                yield before, ToldColumn(self._are[one.number], nullable in (True, None))

    # ------------------------------------------------------------------ keys

    def _rekeyed(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Returns the primary key's columns before and now, where they are others."""
        if self._facts is None:
            was, now = (self._numbers(form) for form in (self._before, self._after))
        else:
            was, now = (facts.primary_key for facts in self._facts)
        if sorted(was) == sorted(now):
            return None
        return _names(self._before, was), _names(self._after, now)

    def _numbers(self, form: Form) -> tuple[int, ...]:
        numbers = {column.name: column.number for column in form.columns}
        return tuple(numbers.get(name, 0) for name in form.primary_key)

    def _uniques(self) -> Iterator[ToldUnique]:
        """Yields unique indexes that are gone, renamed and new."""
        if self._facts is None:
            return
        was, now = ({one.name: one for one in facts.uniques if _counts(one)} for facts in self._facts)
        gone = [one for one in was.values() if not _same(one, now.get(one.name))]
        new = [one for one in now.values() if not _same(one, was.get(one.name))]
        for one in gone:
            other = next((two for two in new if two.columns == one.columns and two.name not in was), None)
            if other is not None and one.name not in now:
                new.remove(other)
                yield ToldUnique(one.name, other.name, _names(self._after, other.columns))
            else:
                yield ToldUnique(one.name, "", _names(self._before, one.columns))
        for one in new:
            yield ToldUnique("", one.name, _names(self._after, one.columns))

    # ------------------------------------------------------------------ partitions

    def _of_partitions(self) -> Iterator[str]:
        """Yields which rows came or went with partitions, of which no message tells."""
        if self._facts is None:
            return
        was, now = ({one.oid: one for one in facts.partitions} for facts in self._facts)
        if was.keys() - now.keys():
            yield "a partition was detached or dropped, and the log does not tell its rows"
        made = {one.oid for one in self._command.created}
        if any(not one.empty and oid not in made for oid, one in now.items() if oid not in was):
            yield "a partition was attached, and the log does not tell the rows that it had"


def without_partition(form: Form, oid: int) -> Form:
    """Returns a form without a partition that was dropped."""
    facts = form.facts or FormFacts(())
    kept = tuple(one for one in facts.partitions if one.oid != oid)
    return replace(form, facts=replace(facts, partitions=kept))


def without_index(form: Form, name: str) -> Form:
    """Returns a form without a unique index that was dropped."""
    facts = form.facts or FormFacts(())
    return replace(form, facts=replace(facts, uniques=tuple(one for one in facts.uniques if one.name != name)))


def _is_nullable(form: Form, number: int) -> bool | None:
    """Tells whether a column may be NULL; None where that is not known."""
    state = form.facts.column(number) if form.facts is not None else None
    return state.nullable if state is not None else None


def _counts(one: UniqueIndex) -> bool:
    return one.plain and not one.primary


def _same(one: UniqueIndex, other: UniqueIndex | None) -> bool:
    return other is not None and one.columns == other.columns


def _names(form: Form, numbers: Sequence[int]) -> tuple[str, ...]:
    names = {column.number: column.name for column in form.columns}
    names.update({one.number: one.name for one in form.computed})
    return tuple(names[number] for number in numbers)

