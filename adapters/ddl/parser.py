"""Parses columns of tables in MySQL's and MariaDB's DDL, as CREATE TABLE and ADD COLUMN have them.

The grammar covers what is wholly understood.  Anything else raises `NotPlain`, and the feed halts on it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tidelock.adapters.ddl.column_types import column_type
from tidelock.adapters.ddl.fills import check_fill, implicit
from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.ddl.table_parts import past_check, references
from tidelock.adapters.ports.definition import Default
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.records import Column, Kind, TableName

_PRESENT: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")


class NewColumn(msgspec.Struct, frozen=True):
    """A column to add.  `fill`: the literal text that existing rows get; None for NULL.  `present`: they get the moment
    of the statement in its place, in whole seconds.  `place`: as in `placed`."""

    column: SourceColumn
    fill: str | None
    present: bool = False
    place: str | None = None


class Definition(msgspec.Struct):
    """The clauses after a column's type.  `moment`: the time of now as which a default is given, '' for none.
    `expression`: of a column that is generated; '' where what it says is not certain."""

    nullable: bool = True
    default: str | None = None
    computed: bool = False
    present: bool = False
    moment: str = ""
    primary: bool = False
    unique: bool = False
    automatic: bool = False
    said_null: bool = False
    generated: bool = False
    expression: str = ""
    binary: bool = False

    @property
    def told_default(self) -> Default | None:
        """The default as far as it is understood; None for none."""
        if self.generated or (self.computed and not self.moment):
            return None
        if self.moment:
            return Default(expression=self.moment)
        return None if self.default is None else Default(self.default)


def table_name(reader: Reader, schema: str) -> TableName:
    """Reads a table's name.  Raises NotPlain where it names no database and the session has none."""
    first = reader.name()
    if reader.take("."):
        return TableName(first, reader.name())
    if not schema:
        raise NotPlain("a table without a database")
    return TableName(schema, first)


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
                new = new_column(reader)
                columns.append(msgspec.structs.replace(new, place=placed(reader)))
        else:
            reader.take("=")
            reader.name()
        if reader.ended:
            break
        reader.expect(",")
    if not columns:
        raise NotPlain("no column is added")
    return name, columns


def placed(reader: Reader) -> str | None:
    """Reads the column behind which a column goes, '' for the first place; None: the statement does not say."""
    if reader.take("FIRST"):
        return ""
    return reader.name() if reader.take("AFTER") else None


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


def read_column(reader: Reader) -> tuple[SourceColumn, Definition]:
    name = reader.name()
    word = reader.next().upper
    definition = Definition()
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


def _attribute(reader: Reader, definition: Definition) -> None:
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
        definition.expression = reader.group()
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


def _default(reader: Reader, definition: Definition) -> None:
    """Reads a default: a literal as text, NULL as None; the value of a function or an expression is not known."""
    definition.default, definition.computed, definition.present, definition.moment = None, False, False, ""
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
        definition.moment = "current_timestamp" if definition.present else ""
        if not reader.take("(", ")") and reader.peek() == "(":
            if not definition.present:
                reader.skip_group()
                return
            definition.present = False  # a fraction of a second
            reader.expect("(")
            definition.moment += f"({reader.number()})"
            reader.expect(")")
