"""Reads CREATE TABLE of MySQL and MariaDB, with what a table has besides columns and keys.

What is not known raises `NotPlain`, as everywhere in this grammar.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.ddl.lexer import NotPlain, Reader
from tidelock.adapters.ddl.operations import CreateTable, indexing
from tidelock.adapters.ddl.parser import read_column, table_name
from tidelock.adapters.ddl.table_parts import options, table_part
from tidelock.adapters.ports.definition import Default, PlainIndex
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import UniqueKey


def created(reader: Reader, schema: str) -> SourceTable:
    """Returns the columns and keys of a definition after `CREATE TABLE`.  Raises NotPlain."""
    return read_table(reader, schema).made


def read_table(reader: Reader, schema: str) -> CreateTable:
    """Reads a definition after `CREATE TABLE`.  Raises NotPlain."""
    reader.take("IF", "NOT", "EXISTS")
    name = table_name(reader, schema)
    reader.expect("(")
    columns: list[SourceColumn] = []
    indexes: list[UniqueKey | PlainIndex] = []
    defaults: dict[str, Default] = {}
    while True:
        if not table_part(reader, indexes):
            column, definition = read_column(reader)
            required = definition.primary or (definition.automatic and not definition.said_null)
            nullable = definition.generated or (definition.nullable and not required)
            columns.append(msgspec.structs.replace(column, nullable=nullable, generated=definition.generated))
            if definition.primary:
                indexes.append(UniqueKey("PRIMARY", (column.name,)))
            if definition.unique:
                indexes.append(UniqueKey("", (column.name,)))
            if (default := definition.told_default) is not None:
                defaults[column.name] = default
        if reader.take(")"):
            break
        reader.expect(",")
    options(reader)
    named = _named(indexes)
    uniques = [one for one in named if isinstance(one, UniqueKey)]
    plain = tuple(indexing(one) for one in named if isinstance(one, PlainIndex))
    return CreateTable(_completed(name, columns, uniques), plain, defaults)


def _completed(name: TableName, columns: list[SourceColumn], uniques: list[UniqueKey]) -> SourceTable:
    """Puts the primary key first and makes it NOT NULL.  Names compare without case, as at the server."""
    by_name = {c.name.lower(): c.name for c in columns}
    exact = []
    for unique in uniques:
        if any(c.lower() not in by_name for c in unique.columns):
            raise NotPlain(f"a key over an unknown column of {name}")
        exact.append(UniqueKey(unique.name, tuple(by_name[c.lower()] for c in unique.columns), unique.opaque))
    exact = [_over_stored(unique, columns) for unique in exact]
    exact.sort(key=lambda u: u.name != "PRIMARY")
    key = exact[0].columns if exact and exact[0].name == "PRIMARY" else ()
    if refused := next((u.opaque for u in exact if u.name == "PRIMARY" and u.opaque), ""):
        raise NotPlain(f"a primary key {refused}")
    required = tuple(msgspec.structs.replace(c, nullable=c.nullable and c.name not in key) for c in columns)
    return SourceTable(name, required, tuple(exact))


def _over_stored(unique: UniqueKey, columns: list[SourceColumn]) -> UniqueKey:
    """Returns a unique index as one that the target leaves out where the source computes one of its columns."""
    if unique.opaque or not any(column.generated and column.name in unique.columns for column in columns):
        return unique
    return msgspec.structs.replace(unique, opaque="over a generated column")


def _named(indexes: list[UniqueKey | PlainIndex]) -> list[UniqueKey | PlainIndex]:
    """Names what the statement does not: as the servers do, by the first column, with a number behind it."""
    taken = {index.name.lower() for index in indexes}
    made: list[UniqueKey | PlainIndex] = []
    for index in indexes:
        first = index.columns[0] if isinstance(index, UniqueKey) else index.parts[0].column or "functional_index"
        name, number = index.name or first, 2
        while not index.name and name.lower() in taken:
            name, number = f"{first}_{number}", number + 1
        taken.add(name.lower())
        made.append(msgspec.structs.replace(index, name=name))
    return made
