"""Parses the two kinds of table definition that are carried over from MySQL's and MariaDB's DDL.

The grammar covers what is wholly understood.  Anything else raises `NotPlain`, and the feed halts on it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidelock.adapters.ddl.column_types import column_type
from tidelock.adapters.ddl.fills import check_fill, implicit
from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.ddl.table_parts import options, past_check, references, table_part
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import UniqueKey

_PRESENT: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


class NewColumn(msgspec.Struct, frozen=True):
    """A column to add.  `fill`: the literal text that existing rows get; None for NULL.  `present`: they get the moment
    of the statement in its place, in whole seconds."""

    column: SourceColumn
    fill: str | None
    present: bool = False


class _Definition(msgspec.Struct):
    """The clauses after a column's type."""

    nullable: bool = True
    default: str | None = None
    computed: bool = False
    present: bool = False
    primary: bool = False
    unique: bool = False
    automatic: bool = False
    said_null: bool = False
    generated: bool = False
    binary: bool = False


def table_name(reader: Reader, schema: str) -> TableName:
    """Reads a table's name.  Raises NotPlain where it names no database and the session has none."""
    first = reader.name()
    if reader.take("."):
        return TableName(first, reader.name())
    if not schema:
        raise NotPlain("a table without a database")
    return TableName(schema, first)


def created(reader: Reader, schema: str) -> SourceTable:
    """Reads a definition after `CREATE TABLE`.  Raises NotPlain."""
    reader.take("IF", "NOT", "EXISTS")
    name = table_name(reader, schema)
    reader.expect("(")
    columns: list[SourceColumn] = []
    uniques: list[UniqueKey] = []
    while True:
        if not table_part(reader, uniques):
            column, definition = read_column(reader)
            required = definition.primary or (definition.automatic and not definition.said_null)
            nullable = definition.generated or (definition.nullable and not required)
            columns.append(msgspec.structs.replace(column, nullable=nullable, generated=definition.generated))
            if definition.primary:
                uniques.append(UniqueKey("PRIMARY", (column.name,)))
            if definition.unique:
                uniques.append(UniqueKey("", (column.name,)))
        if reader.take(")"):
            break
        reader.expect(",")
    options(reader)
    return _completed(name, columns, uniques)


def _completed(name: TableName, columns: list[SourceColumn], uniques: list[UniqueKey]) -> SourceTable:
    """Puts the primary key first and makes it NOT NULL.  Names compare without case, as at the server."""
    by_name = {c.name.lower(): c.name for c in columns}
    exact = []
    for unique in uniques:
        if any(c.lower() not in by_name for c in unique.columns):
            raise NotPlain(f"a key over an unknown column of {name}")
        exact.append(UniqueKey(unique.name, tuple(by_name[c.lower()] for c in unique.columns), unique.opaque))
    exact = [_over_stored(unique, columns) for unique in _named(exact)]
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


def _named(uniques: list[UniqueKey]) -> list[UniqueKey]:
    """Names what the statement does not: as the servers do, by the first column, with a number behind it."""
    taken = {unique.name.lower() for unique in uniques}
    made: list[UniqueKey] = []
    for unique in uniques:
        name, number = unique.name or unique.columns[0], 2
        while not unique.name and name.lower() in taken:
            name, number = f"{unique.columns[0]}_{number}", number + 1
        taken.add(name.lower())
        made.append(msgspec.structs.replace(unique, name=name))
    return made


def added(reader: Reader, schema: str) -> tuple[TableName, list[NewColumn]]:
    """Reads the columns after `ALTER TABLE` where only columns are added, each with a value for existing rows.  Raises
    NotPlain.
    """
    name = table_name(reader, schema)
    columns: list[NewColumn] = []
    while True:
        if not reader.take("ALGORITHM") and not reader.take("LOCK"):
            reader.expect("ADD")
            reader.take("COLUMN")
            reader.take("IF", "NOT", "EXISTS")
            if reader.take("("):
                columns.append(new_column(reader))
                while reader.take(","):
                    columns.append(new_column(reader))
                reader.expect(")")
            else:
                columns.append(new_column(reader))
                if not reader.take("FIRST") and reader.take("AFTER"):
                    reader.name()
        else:
            reader.take("=")
            reader.name()
        if reader.ended:
            break
        reader.expect(",")
    if not columns:
        raise NotPlain("no column is added")
    return name, columns


def new_column(reader: Reader) -> NewColumn:
    """Reads a column that only is added, and has a literal in existing rows.  Raises NotPlain."""
    new, key = keyed_column(reader)
    if new.present or key:
        raise NotPlain(f"column {new.column.name} is more than a column")
    return new


def keyed_column(reader: Reader) -> tuple[NewColumn, Literal["", "unique", "primary"]]:
    """Reads a column that is added, and says which key it makes besides.  Raises NotPlain."""
    if reader.peek() in ("INDEX", "KEY", "UNIQUE", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK", "FULLTEXT", "SPATIAL"):
        raise NotPlain(reader.rest())
    column, definition = read_column(reader)
    if definition.automatic:
        raise NotPlain(f"column {column.name}, whose numbers in existing rows the log does not tell")
    if definition.generated:
        raise NotPlain(f"column {column.name}, which the source computes")
    present = definition.present and column.column.kind in (Kind.TIMESTAMP, Kind.DATETIME) and not column.column.scale
    if definition.computed and not present:
        raise NotPlain(f"column {column.name}, whose default is not constant")
    said = definition.said_null or not definition.nullable
    if column.column.kind is Kind.TIMESTAMP and not (said or present):
        raise NotPlain(f"whether column {column.name} is NOT NULL depends on the server")
    nullable = definition.nullable and not definition.primary
    fill = definition.default
    if fill is None and not nullable and not present:
        fill = implicit(column.column)
    if fill is not None:
        check_fill(column.column, fill)
    key: Literal["", "unique", "primary"] = "primary" if definition.primary else "unique" if definition.unique else ""
    return NewColumn(msgspec.structs.replace(column, nullable=nullable), fill, present), key


def read_column(reader: Reader) -> tuple[SourceColumn, _Definition]:
    name = reader.name()
    word = reader.next().upper
    definition = _Definition()
    if word == "SERIAL":
        definition.automatic = definition.unique = True
        column, spelled = Column(name, Kind.INT, True, 8), "bigint unsigned"
    else:
        column, spelled = column_type(reader, name, word)
    charset = collation = ""
    while not reader.ended and reader.peek() not in (",", ")", "FIRST", "AFTER"):
        if reader.take("CHARACTER", "SET") or reader.take("CHARSET") or reader.take("CHAR", "SET"):
            charset = reader.name_or_string().lower()
        elif reader.take("COLLATE"):
            collation = reader.name_or_string().lower()
        else:
            _attribute(reader, definition)
    if definition.binary and column.kind is Kind.TEXT and not collation:
        collation = f"{charset or column.charset or 'utf8mb4'}_bin"
    charset = charset or column.charset or collation.partition("_")[0]
    if charset == "binary":
        raise NotPlain("character set binary")
    if column.kind in (Kind.TEXT, Kind.ENUM, Kind.SET):
        column = msgspec.structs.replace(column, charset=charset)
    return SourceColumn(column, spelled, True, collation=collation), definition


def _attribute(reader: Reader, definition: _Definition) -> None:
    if reader.take("NOT", "NULL"):
        definition.nullable = False
    elif reader.take("NULL"):
        definition.nullable = definition.said_null = True
    elif reader.take("SERIAL", "DEFAULT", "VALUE"):
        definition.automatic = definition.unique = True
    elif reader.take("DEFAULT"):
        _default(reader, definition)
    elif reader.take("AUTO_INCREMENT"):
        definition.automatic = True
    elif reader.take("PRIMARY", "KEY") or reader.take("KEY"):
        definition.primary = True
    elif reader.take("UNIQUE"):
        reader.take("KEY")
        definition.unique = True
    elif reader.take("GENERATED", "ALWAYS", "AS") or reader.take("AS"):
        reader.skip_group()
        reader.take("VIRTUAL") or reader.take("STORED") or reader.take("PERSISTENT")
        definition.generated = True
    elif reader.take("BINARY"):
        definition.binary = True
    else:
        _past_attribute(reader)


def _past_attribute(reader: Reader) -> None:
    """Goes past an attribute that changes no value that is logged."""
    if reader.take("COMMENT"):
        reader.past_string()
    elif reader.take("ON", "UPDATE"):
        reader.name()
        if reader.peek() == "(":
            reader.skip_group()
    elif reader.take("CHECK"):
        past_check(reader)
    elif reader.take("CONSTRAINT"):
        if reader.peek() != "CHECK":
            reader.name()
        reader.expect("CHECK")
        past_check(reader)
    elif reader.peek() == "REFERENCES":
        references(reader)
    elif reader.take("COLUMN_FORMAT") or reader.take("STORAGE"):
        reader.name()
    elif reader.take("SRID"):
        reader.number()
    elif not (reader.take("VISIBLE") or reader.take("INVISIBLE") or reader.take("NOT", "SECONDARY")):
        raise NotPlain(reader.rest())


def _default(reader: Reader, definition: _Definition) -> None:
    """Reads a default: a literal as text, NULL as None; the value of a function or an expression is not known."""
    definition.default, definition.computed, definition.present = None, False, False
    if reader.peek() == "(":
        reader.skip_group()
        definition.computed = True
        return
    sign = "-" if reader.take("-") else ""
    token = reader.next()
    if not token.certain:
        definition.computed = True
    elif token.mark in (Mark.STRING, Mark.QUOTED, Mark.NUMBER):
        definition.default = sign + token.text
    elif token.upper in ("TRUE", "FALSE"):
        definition.default = "1" if token.upper == "TRUE" else "0"
    elif token.upper != "NULL":
        definition.computed = True
        definition.present = token.upper in _PRESENT
        if not reader.take("(", ")") and reader.peek() == "(":
            definition.present = False  # a fraction of a second
            reader.skip_group()
