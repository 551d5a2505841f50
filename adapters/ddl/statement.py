"""Reads a statement about tables as operations, wholly or not at all: what is not known raises `NotPlain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.ddl.alter import altered, index_dropped, index_made
from tidelock.adapters.ddl.lexer import NotPlain, Reader, tokens, without_settings
from tidelock.adapters.ddl.made_table import read_table
from tidelock.adapters.ddl.operations import CreateLike, CreateTable, DropTable, Operation, RenameTable
from tidelock.adapters.ddl.parser import table_name
from tidelock.adapters.ddl.table_parts import past_wait
from tidelock.adapters.ddl.told import told_operations
from tidelock.engine.model.schema_change import Ddl

_DATABASE_GOES: Final = tuple(
    (*verb, what) for verb in (("DROP",), ("CREATE", "OR", "REPLACE")) for what in ("DATABASE", "SCHEMA")
)
"""Words of statements that `dropped_database` has told the tables of."""


def reader_of(ddl: Ddl, *, lenient: bool = False) -> Reader:
    """Returns a reader at the statement's begin; `lenient` as in `lexer.tokens`.  Raises NotPlain."""
    return Reader(tokens(without_settings(ddl.statement), lenient=lenient))


def plain(ddl: Ddl, *words: str) -> Reader:
    """Returns a reader after `words`, which must begin the statement.  Raises NotPlain."""
    reader = reader_of(ddl)
    reader.expect(*words)
    return reader


def operations(ddl: Ddl) -> Sequence[Operation]:
    """Returns what a statement does other than to make a table of columns or to empty one."""
    if ddl.told is not None:
        return told_operations(ddl.tables[0], ddl.told)
    reader = reader_of(ddl)
    if reader.take("ALTER", "TABLE"):
        return _altered(reader, ddl.schema)
    if reader.take("DROP", "TABLE") or reader.take("DROP", "TABLES"):
        return _dropped(reader, ddl.schema)
    if any(reader.take(*words) for words in _DATABASE_GOES):
        return [DropTable(table) for table in ddl.tables]
    if reader.take("RENAME", "TABLE") or reader.take("RENAME", "TABLES"):
        return _renamed(reader, ddl.schema)
    if reader.take("CREATE", "OR", "REPLACE", "TABLE"):
        made = read_table(reader, ddl.schema)
        return [DropTable(made.table), made]
    if reader.take("CREATE", "TABLE"):
        return [_made(reader, ddl.schema)]
    if reader.take("DROP", "INDEX"):
        return [index_dropped(reader, ddl.schema)]
    if reader.take("CREATE"):
        return [index_made(reader, ddl.schema)]
    raise NotPlain(reader.rest())


def _altered(reader: Reader, schema: str) -> Sequence[Operation]:
    mark = reader.mark()
    if_exists = reader.take("IF", "EXISTS")
    table = table_name(reader, schema)
    past_wait(reader)
    if reader.take("RENAME") and reader.peek() not in ("COLUMN", "INDEX", "KEY"):
        reader.take("TO") or reader.take("AS") or reader.take("=")
        to = table_name(reader, schema)
        if not reader.ended:
            raise NotPlain(reader.rest())
        return [RenameTable(table, to, if_exists)]
    reader.return_to(mark)
    return [altered(reader, schema)]


def _dropped(reader: Reader, schema: str) -> Sequence[Operation]:
    reader.take("IF", "EXISTS")
    made = [DropTable(table_name(reader, schema))]
    while reader.take(","):
        made.append(DropTable(table_name(reader, schema)))
    past_wait(reader)
    reader.take("RESTRICT") or reader.take("CASCADE")
    if not reader.ended:
        raise NotPlain(reader.rest())
    return made


def _renamed(reader: Reader, schema: str) -> Sequence[Operation]:
    if_exists = reader.take("IF", "EXISTS")
    made: list[Operation] = []
    while True:
        name = table_name(reader, schema)
        past_wait(reader)
        reader.expect("TO")
        made.append(RenameTable(name, table_name(reader, schema), if_exists))
        if reader.ended:
            return made
        reader.expect(",")


def _made(reader: Reader, schema: str) -> CreateTable | CreateLike:
    mark = reader.mark()
    reader.take("IF", "NOT", "EXISTS")
    name = table_name(reader, schema)
    grouped = reader.take("(")
    if not reader.take("LIKE"):
        reader.return_to(mark)
        return read_table(reader, schema)
    like = table_name(reader, schema)
    if grouped:
        reader.expect(")")
    if not reader.ended:
        raise NotPlain(reader.rest())
    return CreateLike(name, like)
