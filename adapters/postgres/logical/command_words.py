"""Changes that a command's message tells, in PostgreSQL's words: for people, and for the log of what was done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.postgres.logical.relation_changes import quote_identifier, statements_of
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import AddedColumn, ToldChange, ToldTable


def words_of(table: TableName, told: ToldChange, added: Sequence[AddedColumn]) -> str:
    """Returns the statements that do the same; `table`: its name before them."""
    place = f"{quote_identifier(table.schema)}.{quote_identifier(table.table)}"
    if told.made is not None:
        return f"CREATE TABLE {place} ({', '.join(_lines(told.made))})"
    before = statements_of(table, told, added)
    actions = list(_actions(told))
    return "; ".join(filter(None, (before, f"ALTER TABLE {place} {', '.join(actions)}" if actions else "")))


def _lines(made: ToldTable) -> Iterator[str]:
    for one in made.columns:
        computed = f" GENERATED ALWAYS AS ({one.expression}) STORED" if one.expression else ""
        null = "" if one.nullable else " NOT NULL"
        yield f"{quote_identifier(one.column.name)} {one.column.type}{computed}{null}"
    if made.primary_key:
        yield f"PRIMARY KEY ({_listed(made.primary_key)})"
    for name, columns in made.uniques:
        yield f"CONSTRAINT {quote_identifier(name)} UNIQUE ({_listed(columns)})"


def _actions(told: ToldChange) -> Iterator[str]:
    for before, after in told.retyped:
        column = f"ALTER COLUMN {quote_identifier(after.column.name)}"
        if before.column.type != after.column.type:
            yield f"{column} TYPE {after.column.type}"
        if after.nullable and not before.nullable:
            yield f"{column} DROP NOT NULL"
    for one in told.uniques:
        if one.before and one.after:
            yield f"RENAME CONSTRAINT {quote_identifier(one.before)} TO {quote_identifier(one.after)}"
        elif one.before:
            yield f"DROP CONSTRAINT {quote_identifier(one.before)}"
        else:
            yield f"ADD CONSTRAINT {quote_identifier(one.after)} UNIQUE ({_listed(one.columns)})"
    if told.rekeyed is not None:
        was, now = told.rekeyed
        if was:
            yield "DROP PRIMARY KEY"
        if now:
            yield f"ADD PRIMARY KEY ({_listed(now)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote_identifier, names))
