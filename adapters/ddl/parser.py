"""Parses the two kinds of table definition that are carried over from MySQL's and MariaDB's DDL.

The grammar covers what is wholly understood.  Anything else raises `NotPlain`, and the feed halts on it.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.ddl.column_types import column_type
from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import UniqueKey

# START TRANSACTION: a CREATE TABLE … SELECT of MySQL.  BINARY: a character set that makes text columns bytes.
_REFUSED = frozenset("SELECT AS LIKE UNION IGNORE REPLACE TABLE VALUES START SYSTEM WITH BINARY".split())  # noqa: SIM905


class NewColumn(msgspec.Struct, frozen=True):
    """A column to add.  `fill`: the literal text that existing rows get; None for NULL."""

    column: SourceColumn
    fill: str | None


class _Definition(msgspec.Struct):
    """The clauses after a column's type."""

    nullable: bool = True
    default: str | None = None
    computed: bool = False
    primary: bool = False
    unique: bool = False
    automatic: bool = False
    said_null: bool = False


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
        if not _index(reader, uniques):
            column, definition = read_column(reader)
            columns.append(msgspec.structs.replace(column, nullable=definition.nullable and not definition.primary))
            if definition.primary or definition.unique:
                uniques.append(UniqueKey("PRIMARY" if definition.primary else column.name, (column.name,)))
        if reader.take(")"):
            break
        reader.expect(",")
    _options(reader)
    return _completed(name, columns, uniques)


def _completed(name: TableName, columns: list[SourceColumn], uniques: list[UniqueKey]) -> SourceTable:
    """Puts the primary key first and makes it NOT NULL.  Names compare without case, as at the server."""
    by_name = {c.name.lower(): c.name for c in columns}
    exact = []
    for unique in uniques:
        if any(c.lower() not in by_name for c in unique.columns):
            raise NotPlain(f"a key over an unknown column of {name}")
        exact.append(UniqueKey(unique.name, tuple(by_name[c.lower()] for c in unique.columns), unique.opaque))
    exact = _named(exact)
    exact.sort(key=lambda u: u.name != "PRIMARY")
    key = exact[0].columns if exact and exact[0].name == "PRIMARY" else ()
    if any(u.opaque for u in exact if u.name == "PRIMARY"):
        raise NotPlain("a primary key over a prefix")
    required = tuple(msgspec.structs.replace(c, nullable=c.nullable and c.name not in key) for c in columns)
    return SourceTable(name, required, tuple(exact))


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
    if reader.peek() in ("INDEX", "KEY", "UNIQUE", "PRIMARY", "CONSTRAINT", "FOREIGN", "CHECK", "FULLTEXT", "SPATIAL"):
        raise NotPlain(reader.rest())
    column, definition = read_column(reader)
    if definition.primary or definition.unique or definition.automatic or definition.computed:
        raise NotPlain(f"column {column.name} is more than a column")
    if column.column.kind is Kind.TIMESTAMP and not definition.said_null:
        raise NotPlain(f"whether column {column.name} is NOT NULL depends on the server")
    fill = definition.default
    if fill is None and not definition.nullable:
        fill = _implicit(column.column)
    if fill is not None:
        _check_fill(column.column, fill)
    return NewColumn(msgspec.structs.replace(column, nullable=definition.nullable), fill)


def _implicit(column: Column) -> str:
    """Returns what MySQL puts into existing rows for NOT NULL without a default."""
    match column.kind:
        case Kind.INT | Kind.DECIMAL | Kind.FLOAT | Kind.DOUBLE:
            return "0"
        case Kind.TEXT:
            return ""
    raise NotPlain(f"column {column.name} is NOT NULL and has no default")


def _check_fill(column: Column, fill: str) -> None:
    """Checks that both servers read the literal as the same value."""
    match column.kind:
        case Kind.INT:
            plain = fill.removeprefix("-").isdigit()
        case Kind.DECIMAL:
            whole, _, part = fill.removeprefix("-").partition(".")
            plain = (whole + part).isdigit() and len(part) <= column.scale
        case Kind.FLOAT | Kind.DOUBLE:
            plain = fill.removeprefix("-").isdigit() and len(fill) < 8
        case Kind.TEXT:
            plain = fill.isascii() and fill.rstrip(" ") == fill
        case Kind.ENUM:
            plain = fill in column.labels
        case _:
            plain = False
    if not plain:
        raise NotPlain(f"the default of column {column.name}")


def _index(reader: Reader, uniques: list[UniqueKey]) -> bool:
    """Goes past an index or constraint of a table, if one comes next."""
    name = ""
    if reader.take("CONSTRAINT") and reader.peek() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        name = reader.name()
    if reader.take("PRIMARY", "KEY"):
        uniques.append(unique_key(reader, "PRIMARY"))
    elif reader.take("UNIQUE"):
        reader.take("KEY") or reader.take("INDEX")
        if reader.peek() not in ("(", "USING"):
            name = reader.name()
        uniques.append(unique_key(reader, name))
    elif reader.take("CHECK"):
        reader.skip_group()
        reader.take("NOT")
        reader.take("ENFORCED")
    elif reader.peek() in ("KEY", "INDEX", "FULLTEXT", "SPATIAL"):
        reader.next()
        while reader.peek() != "(":
            reader.name()
        reader.skip_group()
        index_options(reader)
    elif reader.take("FOREIGN", "KEY"):
        foreign_key(reader)
    else:
        return False
    return True


def foreign_key(reader: Reader) -> None:
    """Reads a foreign key that the target leaves out.  The target is then less strict than the source, which is safe
    unless the key acts on rows by itself.
    """
    if reader.peek() != "(":
        reader.name()
    reader.skip_group()
    reader.expect("REFERENCES")
    reader.name()
    if reader.take("."):
        reader.name()
    reader.skip_group()
    while reader.take("ON"):
        reader.name()
        if not (reader.take("RESTRICT") or reader.take("NO", "ACTION")):
            raise NotPlain("a foreign key that changes rows")


def unique_key(reader: Reader, name: str) -> UniqueKey:
    if reader.take("USING"):
        reader.name()
    reader.expect("(")
    columns: list[str] = []
    prefix = ""
    while True:
        columns.append(reader.name())
        if reader.take("("):
            reader.number()
            reader.expect(")")
            prefix = "over a prefix of a column"
        reader.take("ASC") or reader.take("DESC")
        if reader.take(")"):
            break
        reader.expect(",")
    index_options(reader)
    return UniqueKey(name, tuple(columns), prefix)


def index_options(reader: Reader) -> None:
    while True:
        if reader.take("USING"):
            reader.name()
        elif reader.take("COMMENT"):
            reader.string()
        elif not (reader.take("VISIBLE") or reader.take("INVISIBLE")):
            return


def _options(reader: Reader) -> None:
    """Goes past engine, character set, partitions and other options that bring no rows."""
    while not reader.ended:
        token = reader.next()
        if token.mark is Mark.WORD and token.upper in _REFUSED:
            raise NotPlain(token.text)


def read_column(reader: Reader) -> tuple[SourceColumn, _Definition]:
    name = reader.name()
    word = reader.next().upper
    column, spelled = column_type(reader, name, word)
    definition = _Definition()
    charset = collation = ""
    while not reader.ended and reader.peek() not in (",", ")", "FIRST", "AFTER"):
        if reader.take("CHARACTER", "SET") or reader.take("CHARSET"):
            charset = reader.name().lower()
        elif reader.take("COLLATE"):
            collation = reader.name().lower()
        else:
            _attribute(reader, definition)
    charset = charset or collation.partition("_")[0]
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
    elif reader.take("DEFAULT"):
        _default(reader, definition)
    elif reader.take("COMMENT"):
        reader.string()
    elif reader.take("AUTO_INCREMENT"):
        definition.automatic = True
    elif reader.take("PRIMARY", "KEY"):
        definition.primary = True
    elif reader.take("UNIQUE"):
        reader.take("KEY")
        definition.unique = True
    elif reader.take("ON", "UPDATE"):
        reader.name()
        if reader.peek() == "(":
            reader.skip_group()
    elif reader.take("CHECK"):
        reader.skip_group()
    elif not (reader.take("VISIBLE") or reader.take("INVISIBLE")):
        raise NotPlain(reader.rest())


def _default(reader: Reader, definition: _Definition) -> None:
    """Reads a default: a literal as text, NULL as None; the value of a function or an expression is not known."""
    definition.default, definition.computed = None, False
    if reader.peek() == "(":
        reader.skip_group()
        definition.computed = True
        return
    sign = "-" if reader.take("-") else ""
    token = reader.next()
    if token.mark in (Mark.STRING, Mark.QUOTED, Mark.NUMBER):
        definition.default = sign + token.text
    elif token.upper in ("TRUE", "FALSE"):
        definition.default = "1" if token.upper == "TRUE" else "0"
    elif token.upper != "NULL":
        definition.computed = True
        if reader.peek() == "(":
            reader.skip_group()
