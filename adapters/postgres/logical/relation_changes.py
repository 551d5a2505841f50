"""Changes of a table's form between two relation messages: the only notice of DDL that the stream gives.

A column added at the end is carried over where its value in old rows is certain: it may be NULL, has no default, and
the rows are in the same file as before it, so that no default has gone since; or the catalogue holds the constant that
they were given.  Columns that are gone and renamed are carried over where the
numbers of all columns are certain (`column_numbers`), and so is a table that is gone or has another name.  All else is
told in words, for the operator: a column of another type, a default that the table was written anew for (its old rows
hold values that no message told), another primary key, another table under the name, or a computed column that is
computed otherwise.

A form that was kept is compared by the same rules, however long ago that was.  So the identity of a change is what was
and what is, not the place where it is met: an operator who lets it pass does so wherever a reader meets it next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from xxhash import xxh3_64_intdigest

from tidelock.adapters.postgres.column_types import PostgresType, spelled_type
from tidelock.adapters.postgres.logical.form_facts import FormFacts
from tidelock.adapters.postgres.logical.relation_catalogue import ColumnFacts
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.engine.model.records import Column, TableName
from tidelock.engine.model.schema_change import AddedColumn, DdlKind, ToldChange

POSITIVE: Final = (1 << 63) - 1


class ComputedColumn(msgspec.Struct, frozen=True, array_like=True):
    """A generated column: its name and number, and what it is computed by, as the server spells it."""

    name: str
    number: int
    expression: str


class FormColumn(msgspec.Struct, frozen=True, array_like=True):
    """`type`, `modifier`: oid and typmod, which tell two types apart; `spelled`: the type for people.

    `number`: attnum, by which a column is told from one that was made anew under its name; 0 where the catalogue had
    none of that name any more when it was asked first.
    """

    name: str
    type: int
    modifier: int
    spelled: str
    number: int = 0


class Form(msgspec.Struct, frozen=True, array_like=True):
    """Form of a table, by which the next relation message of the same oid is judged.

    `computed`: its generated columns, which no message has.  `ever`: how many columns it has had so far, at least; 0:
    the numbers of its columns are those that their names had at some time later, and make nothing certain.  `facts`:
    what else the catalogue or a command's message had of it; None: rows alone have told it.  `told`: there is an event
    trigger that tells each change of it, so that it holds until a command's message tells another one.  `file`: number
    of the file that its rows were in at a time when it had no later column.  `published`: its place in the publication,
    `attributes`: those of its composite types (`published_places`); '': not known.
    """

    oid: int
    name: TableName
    columns: tuple[FormColumn, ...]
    primary_key: tuple[str, ...] = ()
    computed: tuple[ComputedColumn, ...] = ()
    ever: int = 0
    facts: FormFacts | None = None
    told: bool = False
    file: int = 0
    published: str = ""
    attributes: str = ""

    @property
    def parts(self) -> tuple[object, ...]:
        """Identity among forms: all but how its types are spelled."""
        columns = tuple((column.name, column.type, column.modifier, column.number) for column in self.columns)
        return self.oid, self.name, columns, self.primary_key, self.computed

    @property
    def seen(self) -> tuple[object, ...]:
        """Returns what messages show, whatever the catalogue has by then: its parts without the columns' numbers."""
        columns = tuple((column.name, column.type, column.modifier) for column in self.columns)
        return self.oid, self.name, columns, self.primary_key, self.computed


class FormChange(msgspec.Struct, frozen=True):
    """The change of a form.  `statement`: for ADD_COLUMN and ALTERED those of PostgreSQL's, for OTHER words.

    `number`: tells it from other changes of the table.  `tables`: all names that are concerned.  `added`: the columns
    that are new, of ADD_COLUMN and ALTERED.  `told`: what an ALTERED does besides.  `untold`: rows that were there may
    hold other values since.
    """

    oid: int
    number: int
    kind: DdlKind
    statement: str
    tables: tuple[TableName, ...]
    added: tuple[AddedColumn, ...] = ()
    untold: bool = False
    told: ToldChange | None = None


def spelled(types: Mapping[int, PostgresType], oid: int, modifier: int) -> str:
    """Returns a type for people."""
    found = types.get(oid)
    return spelled_type(found, modifier) if found is not None else f"(dropped type {oid})"


def changed(
    before: Form,
    after: Form,
    facts: Mapping[str, ColumnFacts],
    columns: Sequence[Column],
    *,
    certain: bool = False,
    rewritten: bool = False,
) -> FormChange | None:
    """Returns what became of a table's form; None where nothing did.  `facts`: of its columns now; `columns`: those of
    `after`.  `certain`: the numbers of all columns are known, so that names say nothing.  `rewritten`: the table was
    written anew since it had the columns of before alone, so that a new one that may be NULL may have had a default.
    """
    tables = tuple(dict.fromkeys((before.name, after.name)))
    number = number_of(before, after)
    if before.oid != after.oid:
        told = f"{after.name} is another table than before: the former was dropped or renamed, and its rows stay"
        return FormChange(after.oid, number, DdlKind.OTHER, told, tables, untold=True)
    if certain:
        facts = _by_number(after, facts)
    reshaped = told_change(before, after) if certain else None
    if reshaped is not None:
        harmless, words = [], computed_otherwise(before, after)
        had = {column.number for column in before.columns}
        new = [column for column in after.columns if column.number not in had]
    else:
        harmless = [*_renamed(before, after), *_gone(before, after), *_key_changed(before, after)]
        words = [*_differences(before, after), *computed_otherwise(before, after)]
        new = [*after.columns[len(before.columns) :]]
    if not harmless and not words and not new and reshaped in (None, ToldChange()):
        return None
    words += [doubt for column in new if (doubt := doubt_of(column, facts.get(column.name), before))]
    if rewritten:
        words += [
            f"column {one.name} {one.spelled} is new, and the table was written anew since, by VACUUM FULL, CLUSTER, "
            "TRUNCATE or a default that is gone by now: what old rows have in it is in no message"
            for one in new
            if not words and facts[one.name].fill is None
        ]
    if not certain:
        words += [f"column {one.name} is new, and the table was changed again since" for one in new if not words]
    if harmless or words:
        told = f"{after.name}: {'; '.join(harmless + words)}"
        return FormChange(after.oid, number, DdlKind.OTHER, told, tables, untold=bool(words))
    by_name = {column.name: column for column in columns}
    added = tuple(added_column(by_name[column.name], facts[column.name].fill) for column in new)
    if reshaped in (None, ToldChange()):
        return FormChange(after.oid, number, DdlKind.ADD_COLUMN, adding_statement(after.name, added), tables, added)
    statement = statements_of(before.name, reshaped, added)
    return FormChange(after.oid, number, DdlKind.ALTERED, statement, tables, added, told=reshaped)


def removed(before: Form, name: TableName | None) -> FormChange:
    """Returns the change of a table that is gone, or has a `name` by which it is not wanted."""
    number = number_of(before, None)
    if name is None:
        told = ToldChange(gone=True)
        statement = statements_of(before.name, told, ())
        return FormChange(before.oid, number, DdlKind.ALTERED, statement, (before.name,), told=told)
    return FormChange(before.oid, number, DdlKind.OTHER, f"{name}: it was {before.name}", (before.name, name))


def as_it_was(form: Form) -> FormChange:
    """Returns what a feed's statement says of a table that has this form, where that is new or as it was."""
    told = f"{form.name} is as a feed's statement says"
    return FormChange(form.oid, number_of(form, form), DdlKind.UNRELATED, told, (form.name,))


def number_of(before: Form, after: Form | None) -> int:
    """Returns what tells this change from others, the same wherever it is met, and whatever the table is by then: an
    operator who lets it pass may take long, and the source's table may be dropped or changed again meanwhile."""
    told = msgspec.json.encode((before.parts, after.seen if after is not None else None))
    return xxh3_64_intdigest(told) & POSITIVE


def told_change(before: Form, after: Form) -> ToldChange | None:
    """Returns which columns were dropped and renamed, and which name the table has now, by the numbers of columns; None
    where more was changed, or nobody could do it in the same way."""
    now = {column.number: column for column in after.columns}
    dropped = tuple(column.name for column in before.columns if column.number not in now)
    kept = [(column, now[column.number]) for column in before.columns if column.number in now]
    renamed = tuple((column.name, other.name) for column, other in kept if column.name != other.name)
    if any((one.type, one.modifier) != (other.type, other.modifier) for one, other in kept):
        return None
    names = dict(renamed)
    if set(names.values()) & {column.name for column in before.columns if column.name not in dropped}:
        return None  # names are exchanged
    if dropped and set(before.primary_key) & {*dropped}:
        return None
    if tuple(sorted(names.get(name, name) for name in before.primary_key)) != tuple(sorted(after.primary_key)):
        return None
    moved = before.name != after.name
    if moved and (dropped or renamed or len(after.columns) > len(kept)):
        return None
    return ToldChange(dropped, renamed, name=after.name if moved else None)


def statements_of(table: TableName, told: ToldChange, added: Sequence[AddedColumn]) -> str:
    """Returns what a change is in PostgreSQL's words."""
    place = f"{quote_identifier(table.schema)}.{quote_identifier(table.table)}"
    if told.gone:
        return f"DROP TABLE {place}"
    made = [f"ALTER TABLE {place} DROP COLUMN {quote_identifier(name)}" for name in told.dropped]
    made += [
        f"ALTER TABLE {place} RENAME COLUMN {quote_identifier(name)} TO {quote_identifier(to)}"
        for name, to in told.renamed
    ]
    if added:
        made.append(adding_statement(table, added))
    if told.name is not None and told.name.schema != table.schema:
        made.append(f"ALTER TABLE {place} SET SCHEMA {quote_identifier(told.name.schema)}")
        place = f"{quote_identifier(told.name.schema)}.{quote_identifier(table.table)}"
    if told.name is not None and told.name.table != table.table:
        made.append(f"ALTER TABLE {place} RENAME TO {quote_identifier(told.name.table)}")
    return "; ".join(made)


def _by_number(form: Form, facts: Mapping[str, ColumnFacts]) -> dict[str, ColumnFacts]:
    """Returns facts of the columns of a form by their names in it, which may be others now."""
    of_number = {found.number: found for found in facts.values()}
    return {column.name: of_number[column.number] for column in form.columns if column.number in of_number}


def added_column(column: Column, fill: str | None) -> AddedColumn:
    """Raises ValueError for a text that is no value."""
    return AddedColumn(column) if fill is None else AddedColumn(column, reading(code(column))(fill.encode()), fill)


def _renamed(before: Form, after: Form) -> list[str]:
    return [] if before.name == after.name else [f"it was {before.name}"]


def _key_changed(before: Form, after: Form) -> list[str]:
    if before.primary_key == after.primary_key:
        return []
    was, now = (", ".join(form.primary_key) or "none" for form in (before, after))
    return [f"its primary key was {was}, and is {now}"]


def _gone(before: Form, after: Form) -> list[str]:
    now = {column.name for column in after.columns}
    left = [column.name for column in before.columns if column.name not in now]
    return [f"column {name} is gone or has another name" for name in left]


def _differences(before: Form, after: Form) -> list[str]:
    """Returns how the columns that are still there differ, and which are new beside such a change, in words."""
    words = []
    now = {column.name: column for column in after.columns}
    for column in before.columns:
        other = now.get(column.name)
        if other is None:
            continue
        if (other.type, other.modifier) != (column.type, column.modifier):
            words.append(
                f"column {column.name} was {column.spelled}, and is {other.spelled}: the table was written anew where "
                "that changes values, which no message told"
            )
        elif other.number and column.number != other.number:
            words.append(f"column {column.name} was dropped and made anew: what old rows have in it is in no message")
    names = [column.name for column in before.columns]
    moved = [column.name for column in after.columns[: len(names)]] != names
    if not words and moved and now.keys() >= set(names):
        words.append("its columns stand in another order")
    if words or moved:
        had = set(names)
        words += [f"column {column.name} {column.spelled} is new" for column in after.columns if column.name not in had]
    return words


def computed_otherwise(before: Form, after: Form) -> list[str]:
    was = {column.name: column.expression for column in before.computed}
    return [
        f"column {column.name} was computed by {was[column.name]}, and is by {column.expression}"
        for column in after.computed
        if was.get(column.name, column.expression) != column.expression
    ]


def doubt_of(column: FormColumn, facts: ColumnFacts | None, before: Form) -> str:
    """Returns why it is not certain which value a new column has in old rows; '' where it is."""
    if column.number in {computed.number for computed in before.computed}:
        return f"column {column.name} {column.spelled} was computed, and is not any more: what rows have in it stays"
    if facts is None:
        return f"column {column.name} {column.spelled} is new, and was changed again since"
    if facts.fill is not None:
        return ""
    if facts.has_default:
        return (
            f"column {column.name} {column.spelled} is new with a default that is not constant, or was set later: its "
            "values in old rows are in no message, so the table must be copied anew"
        )
    if not facts.is_nullable:
        return f"column {column.name} {column.spelled} is new and never NULL, without a default"
    return ""


def adding_statement(name: TableName, added: Sequence[AddedColumn]) -> str:
    actions = [
        f"ADD COLUMN {quote_identifier(new.column.name)} {new.column.type}"
        + ("" if new.fill is None else f" DEFAULT {_literal(new.spelled)}")
        for new in added
    ]
    return f"ALTER TABLE {quote_identifier(name.schema)}.{quote_identifier(name.table)} {', '.join(actions)}"


def quote_identifier(name: str) -> str:
    """Returns a name as PostgreSQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    escape = "E" if "\\" in text else ""
    return f"{escape}'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
