"""Changes of a table's form between two relation messages: the only notice of DDL that the stream gives.

A column added at the end is carried over where its value in old rows is certain: it may be NULL and has no default, or
the catalogue holds the constant that they were given.  All else is told in words, for the operator: a column that is
gone, renamed, moved or of another type, a default that the table was written anew for (its old rows hold values that no
message told), another primary key, another name, or another table under the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidelock.adapters.postgres.column_types import PostgresType, spelled_type
from tidelock.adapters.postgres.logical.relation_catalogue import ColumnFacts
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.engine.model.records import AddedColumn, Column, DdlKind, TableName


class FormColumn(msgspec.Struct, frozen=True, array_like=True):
    """`type`, `modifier`: oid and typmod, which tell two types apart; `spelled`: the type for people.

    `number`: attnum, by which a column is told from one that was made anew under its name; 0 where the catalogue has
    none of that name any more.
    """

    name: str
    type: int
    modifier: int
    spelled: str
    number: int = 0


class Form(msgspec.Struct, frozen=True, array_like=True):
    """Form of a table, by which the next relation message of the same oid is judged."""

    oid: int
    name: TableName
    columns: tuple[FormColumn, ...]
    primary_key: tuple[str, ...] = ()


class FormChange(msgspec.Struct, frozen=True):
    """The change of a form.  `statement`: for ADD_COLUMN one of PostgreSQL's, for OTHER words.

    `tables`: all names that are concerned.  `added`: the columns of ADD_COLUMN.
    """

    oid: int
    kind: DdlKind
    statement: str
    tables: tuple[TableName, ...]
    added: tuple[AddedColumn, ...] = ()


def spelled(types: Mapping[int, PostgresType], oid: int, modifier: int) -> str:
    """Returns a type for people."""
    found = types.get(oid)
    return spelled_type(found, modifier) if found is not None else f"(dropped type {oid})"


def changed(
    before: Form, after: Form, facts: Mapping[str, ColumnFacts], columns: Sequence[Column]
) -> FormChange | None:
    """Returns what became of a table's form; None where nothing did.  `facts`: of its columns now; `columns`: those of
    `after`."""
    tables = tuple(dict.fromkeys((before.name, after.name)))
    if before.oid != after.oid:
        told = f"{after.name} is another table than before: the former was dropped or renamed, and its rows stay"
        return FormChange(after.oid, DdlKind.OTHER, told, tables)
    words = [*_renamed(before, after), *_differences(before, after), *_key_changed(before, after)]
    new = after.columns[len(before.columns) :]
    if not words and not new:
        return None
    words += [doubt for column in new if (doubt := _doubt(column, facts.get(column.name)))]
    if words:
        return FormChange(after.oid, DdlKind.OTHER, f"{after.name}: {'; '.join(words)}", tables)
    added = tuple(_added(column, facts[column.name].fill) for column in columns[len(before.columns) :])
    return FormChange(after.oid, DdlKind.ADD_COLUMN, _statement(after.name, added), tables, added)


def _added(column: Column, fill: str | None) -> AddedColumn:
    """Raises ValueError for a text that is no value."""
    return AddedColumn(column) if fill is None else AddedColumn(column, reading(code(column))(fill.encode()), fill)


def _renamed(before: Form, after: Form) -> list[str]:
    return [] if before.name == after.name else [f"it was {before.name}"]


def _key_changed(before: Form, after: Form) -> list[str]:
    if before.primary_key == after.primary_key:
        return []
    was, now = (", ".join(form.primary_key) or "none" for form in (before, after))
    return [f"its primary key was {was}, and is {now}"]


def _differences(before: Form, after: Form) -> list[str]:
    """Returns how the columns that were there before differ, in words."""
    words = []
    now = {column.name: column for column in after.columns}
    for column in before.columns:
        other = now.get(column.name)
        if other is None:
            words.append(f"column {column.name} is gone or has another name")
        elif (other.type, other.modifier) != (column.type, column.modifier):
            words.append(
                f"column {column.name} was {column.spelled}, and is {other.spelled}: the table was written anew where "
                "that changes values, which no message told"
            )
        elif column.number and other.number and column.number != other.number:
            words.append(f"column {column.name} was dropped and made anew: what old rows have in it is in no message")
    names = [column.name for column in before.columns]
    if not words and [column.name for column in after.columns[: len(names)]] != names:
        words.append("its columns stand in another order")
    if words:
        had = set(names)
        words += [f"column {column.name} {column.spelled} is new" for column in after.columns if column.name not in had]
    return words


def _doubt(column: FormColumn, facts: ColumnFacts | None) -> str:
    """Returns why it is not certain which value a new column has in old rows; '' where it is."""
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


def _statement(name: TableName, added: Sequence[AddedColumn]) -> str:
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
