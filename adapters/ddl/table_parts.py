"""Reads what stands beside the columns of a table's definition: keys, indexes, constraints, options, partitions.

What is not known raises `NotPlain`, as everywhere in this grammar.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.ddl.lexer import Mark, NotPlain, Reader
from tidelock.adapters.ports.definition import IndexPart, PlainIndex
from tidelock.engine.model.schema import UniqueKey

_CONSTRAINTS: Final = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK")
_SORTS: Final = ("FULLTEXT", "SPATIAL", "VECTOR")
PLAIN_INDEXES: Final = ("KEY", "INDEX", *_SORTS)
"""Words with which an index begins that is not unique."""
# START TRANSACTION: a CREATE TABLE … SELECT of MySQL.  BINARY: a character set that makes text columns bytes.
_REFUSED: Final = frozenset((
    "SELECT", "AS", "LIKE", "UNION", "IGNORE", "REPLACE", "TABLE", "VALUES", "START", "SYSTEM", "WITH", "BINARY",
))  # fmt: skip


def table_part(reader: Reader, indexes: list[UniqueKey | PlainIndex]) -> bool:
    """Goes past an index or a constraint, if one comes next; adds an index that is understood to `indexes`."""
    name = ""
    if reader.take("CONSTRAINT") and reader.peek() not in _CONSTRAINTS:
        name = reader.name()
    if reader.take("PRIMARY", "KEY"):
        indexes.append(primary_key(reader))
    elif reader.take("UNIQUE"):
        reader.take("KEY") or reader.take("INDEX")
        reader.take("IF", "NOT", "EXISTS")
        if reader.peek() not in ("(", "USING"):
            name = reader.name()
        indexes.append(unique_key(reader, name))
    elif reader.take("CHECK"):
        past_check(reader)
    elif reader.peek() in PLAIN_INDEXES and not is_column(reader):
        if (index := plain_index(reader)) is not None:
            indexes.append(index)
    elif reader.take("FOREIGN", "KEY"):
        foreign_key(reader)
    else:
        return False
    return True


def is_column(reader: Reader) -> bool:
    """Tells whether VECTOR is a column's name here, as MySQL allows."""
    return reader.peek() == "VECTOR" and reader.peek(1) not in ("KEY", "INDEX")


def plain_index(reader: Reader) -> PlainIndex | None:
    """Reads an index that is not unique; '' is the name of one without.  One that is not understood is gone past, and
    None: a target need not have it."""
    method = index_method(reader)
    reader.take("INDEX") or reader.take("KEY")
    reader.take("IF", "NOT", "EXISTS")
    name = reader.name() if reader.peek() not in ("(", "USING") else ""
    return index_behind(reader, name, method)


def index_method(reader: Reader) -> str:
    """Reads the sort of an index, in lower case."""
    return next((word.lower() for word in _SORTS if reader.take(word)), "btree")


def index_behind(reader: Reader, name: str, method: str) -> PlainIndex | None:
    """Reads the rest of an index that is not unique, behind its name; None: it is not understood."""
    mark = reader.mark()
    try:
        if reader.take("USING"):
            reader.name()
        parts = index_parts(reader)
        index_options(reader)
    except NotPlain:
        parts = ()
    if parts and (reader.ended or reader.peek() in (",", ")", "ALGORITHM", "LOCK", "WAIT", "NOWAIT")):
        return PlainIndex(name, parts, method)
    reader.return_to(mark)
    while not reader.ended and reader.peek() not in (",", ")"):
        if reader.peek() == "(":
            reader.skip_group()
        else:
            reader.next()
    return None


def past_wait(reader: Reader) -> None:
    """Goes past MariaDB's word on how long to wait for a table."""
    if reader.take("WAIT"):
        reader.number()
    reader.take("NOWAIT")


def past_check(reader: Reader) -> None:
    """Goes past a CHECK, which the target leaves out."""
    reader.skip_group()
    if reader.take("NOT"):
        reader.expect("ENFORCED")
    else:
        reader.take("ENFORCED")


def foreign_key(reader: Reader) -> None:
    """Reads a foreign key that the target leaves out.  The target is then less strict than the source, which is safe
    unless the key acts on rows by itself.
    """
    if reader.peek() != "(":
        reader.name()
    reader.skip_group()
    references(reader)


def references(reader: Reader) -> None:
    """Reads what a foreign key refers to.  Raises NotPlain for one that acts on rows."""
    reader.expect("REFERENCES")
    reader.name()
    if reader.take("."):
        reader.name()
    if reader.peek() == "(":
        reader.skip_group()
    if reader.take("MATCH"):
        reader.name()
    while reader.take("ON"):
        reader.name()
        if not (reader.take("RESTRICT") or reader.take("NO", "ACTION")):
            raise NotPlain("a foreign key that changes rows")


def primary_key(reader: Reader) -> UniqueKey:
    """Reads a primary key behind its words; a name that it is given means nothing."""
    reader.take("IF", "NOT", "EXISTS")
    if reader.peek() not in ("(", "USING"):
        reader.name()
    return unique_key(reader, "PRIMARY")


def unique_key(reader: Reader, name: str) -> UniqueKey:
    """Reads the columns of a unique index."""
    if reader.take("USING"):
        reader.name()
    parts = index_parts(reader)
    index_options(reader)
    opaque = "over a prefix of a column" if any(part.prefix for part in parts) else ""
    opaque = "over an expression" if any(part.expression for part in parts) else opaque
    columns = tuple(part.column for part in parts if part.column)
    return UniqueKey(name or ("" if columns else "functional_index"), columns, opaque)


def index_parts(reader: Reader) -> tuple[IndexPart, ...]:
    """Reads the parts of an index, in their parentheses."""
    reader.expect("(")
    parts: list[IndexPart] = []
    while True:
        column, prefix, expression = "", 0, ""
        if reader.peek() == "(":
            expression = reader.rest()
            reader.skip_group()
        else:
            column = reader.name()
            if reader.take("("):
                prefix = reader.number()
                reader.expect(")")
        reader.take("ASC")
        parts.append(IndexPart(column, prefix, reader.take("DESC"), expression))
        if reader.take(")"):
            return tuple(parts)
        reader.expect(",")


def index_options(reader: Reader) -> None:
    """Goes past options of an index, which change nothing that it refuses."""
    while True:
        if reader.take("USING") or reader.take("WITH", "PARSER"):
            reader.name()
        elif reader.take("COMMENT"):
            reader.past_string()
        elif reader.take("KEY_BLOCK_SIZE"):
            reader.take("=")
            reader.number()
        elif reader.take("ENGINE_ATTRIBUTE") or reader.take("SECONDARY_ENGINE_ATTRIBUTE"):
            reader.take("=")
            reader.past_string()
        elif reader.take("M") or reader.take("DISTANCE"):
            reader.take("=")
            reader.next()
        elif reader.take("NOT"):
            reader.expect("IGNORED")
        elif not (reader.take("VISIBLE") or reader.take("INVISIBLE") or reader.take("IGNORED")):
            return


def options(reader: Reader) -> None:
    """Goes past engine, character set, partitions and other options that bring no rows."""
    while not reader.ended:
        if reader.take("VALUES", "LESS", "THAN") or reader.take("VALUES", "IN"):
            continue
        token = reader.next()
        if token.mark is Mark.WORD and token.upper in _REFUSED:
            raise NotPlain(token.text)
