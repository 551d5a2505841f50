"""Makes the SQL that reads a column, and turns its values into those that the log has (`engine.model.records`).

The server writes nearly all values as text, because no driver interprets text: zero dates, TIME beyond a day, 65 digits
arrive as they are, in the log's own spelling.  Integers and doubles travel as numbers.  Text in a charset other than
Unicode travels as bytes and is decoded by the function that decodes the log (`adapters.mysql.charsets`), since a server
that is asked for other text writes question marks where there is none.  What the log spells from bytes (MariaDB's
addresses) is spelled from them here.

A value may be longer than the source's `max_allowed_packet`, where MariaDB's CAST is NULL and MySQL's text of a JSON
document empty, both without an error.  So long texts and bytes come by CONVERT, which has no such limit, and a document
that is no text is an error.

A PostgreSQL server spells every value as its log does (`adapters.row_copy.postgres_columns`).

Values come and go by column: a list for each, which most columns pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.mysql.charsets import is_utf8, lenient_decoder
from tidelock.adapters.mysql.spellings import SPELLINGS
from tidelock.adapters.row_copy.postgres_columns import reading_of
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.spark.postgres_text import logged_text
from tidelock.engine.model.records import Column, Kind

Wire: TypeAlias = Literal["BIGINT", "DOUBLE", "STRING", "BINARY"]
"""A type of Spark's."""
Values: TypeAlias = list[Any]

_SPELLED = (Kind.UUID, Kind.INET4, Kind.INET6)
_LARGEST = 8  # bytes of an integer


class AskedColumn(msgspec.Struct, frozen=True):
    """One column as it is read.  `sql`: of a column of the source table `t`.  `reading`: the conversion that is still
    to be done, `by` a charset, a kind, or the column's name; of a text as PostgreSQL's log has it, `column` says.
    """

    sql: str
    wire: Wire = "STRING"
    reading: Literal["", "integer", "charset", "spelling", "document", "logged"] = ""
    by: str = ""
    column: Column | None = None


def asked(source: SourceColumn) -> AskedColumn:
    """Returns how a column is read."""
    if source.column.type:  # PostgreSQL's
        name = f"t.{quote('postgres', source.name)}"
        return AskedColumn(logged_text(source.column, name), reading="logged", column=source.column)
    column, name = source.column, f"t.{quote('mysql', source.name)}"
    filled = "zerofill" in source.type
    match column.kind:
        case Kind.INT | Kind.BIT if column.length >= (_LARGEST if column.kind is Kind.INT else 64):
            if column.kind is Kind.INT and not column.unsigned:
                return AskedColumn(name, "BIGINT")
            return AskedColumn(f"CAST({name} + 0 AS CHAR)", "STRING", "integer")
        case Kind.INT if not filled:
            return AskedColumn(name, "BIGINT")
        case Kind.INT | Kind.YEAR | Kind.BIT:
            return AskedColumn(f"({name} + 0)", "BIGINT")
        case Kind.FLOAT | Kind.DOUBLE:
            return AskedColumn(f"CAST({name} AS DOUBLE)", "DOUBLE")
        case Kind.DECIMAL:
            return AskedColumn(f"CAST({name}{' + 0' if filled else ''} AS CHAR)")
        case Kind.TEXT if is_utf8(column.charset):
            return AskedColumn(name)
        case Kind.TEXT:
            return AskedColumn(f"CONVERT({name} USING binary)", "BINARY", "charset", column.charset)
        case Kind.BINARY:
            return AskedColumn(name, "BINARY")
        case Kind.GEOMETRY:
            return AskedColumn(f"CONVERT({name} USING binary)", "BINARY")
        case Kind.VECTOR:
            return AskedColumn(f"CAST({name} AS BINARY)", "BINARY")
        case Kind.JSON:
            return AskedColumn(f"CONVERT({name} USING utf8mb4)", "STRING", "document", source.name)
        case kind if kind in _SPELLED:
            return AskedColumn(f"CAST({name} AS BINARY)", "BINARY", "spelling", kind)
        case _:
            return AskedColumn(f"CAST({name} AS CHAR CHARACTER SET utf8mb4)")


class TooLong(ValueError):
    """A value that the source cannot write: `args[0]` names the column and says what to do."""


def reader(of: AskedColumn) -> Callable[[Values], Values] | None:
    """Returns the function that makes canonical values of those that came, or raises TooLong; None: they are canonical.
    """
    match of.reading:
        case "":
            return None
        case "integer":
            return _each(int)
        case "charset":
            return _each(lenient_decoder(of.by))
        case "spelling":
            return _each(SPELLINGS[Kind(of.by)])
        case "document":
            return _documents(of.by)
        case "logged":
            assert of.column is not None
            read = reading_of(of.column)
            return _each(read) if read is not None else None


def _each(read: Callable[[Any], Any]) -> Callable[[Values], Values]:
    return lambda values: [None if value is None else read(value) for value in values]


def _documents(column: str) -> Callable[[Values], Values]:
    def read(values: Values) -> Values:
        if "" in values:
            raise TooLong(
                f"column {column}: a JSON document is longer, as text, than the source's max_allowed_packet: raise it"
            )
        return values

    return read
