"""Values of a table at a MySQL or MariaDB source as its changes bring them to Hive, byte for byte.

The server writes most values as text, as no driver reads any meaning into that; Spark gives them the types of the
stream (`adapters.spark.changes.columns`).  Integers and doubles travel as numbers.  Text in a charset other than
Unicode travels as bytes and is decoded as the log is (`adapters.mysql.charsets`), by Spark where each byte is a
character: a server that is asked for it in another charset writes question marks for what is no text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from adapters.bookkeeping import quote
from adapters.mysql.charsets import decoder, is_utf8, single_byte_table
from adapters.spark.changes.columns import type_of
from adapters.spark.changes.rows import Misfits
from engine.records import Column, Kind, Shape

if TYPE_CHECKING:
    from pyspark.sql import Column as Asked
    from pyspark.sql import DataFrame

NO_CHARACTER: Final = "\ufffe"  # in a charset's table
_AS_BYTES: Final = (Kind.GEOMETRY, Kind.VECTOR)
_NO_YEAR: Final = "0000"  # Spark has such a year, Python and the stream do not


def asked(column: Column) -> str:
    """SQL for what travels of a column of the source table `t`."""
    name = f"t.{quote('mysql', column.name)}"
    match column.kind:
        case Kind.INT | Kind.YEAR | Kind.BIT:
            return f"({name} + 0)"
        case Kind.FLOAT | Kind.DOUBLE:
            return f"CAST({name} AS DOUBLE)"
        case Kind.TEXT if not is_utf8(column.charset):
            return f"CAST({name} AS BINARY)"
        case Kind.TEXT | Kind.BINARY:
            return name
        case kind if kind in _AS_BYTES:
            return f"CAST({name} AS BINARY)"
        case _:
            return f"CAST({name} AS CHAR CHARACTER SET utf8mb4)"


def typed(raw: DataFrame, shape: Shape, misfits: Misfits) -> DataFrame:
    """The rows with the columns of `shape`, named `c0`, `c1`, …, as they are in `raw`.

    A value that its type cannot hold is NULL, or makes the job fail with the table, the key and the value, as `misfits`
    says.
    """
    row = _row(shape)
    columns = []
    for n, column in enumerate(shape.columns):
        name = f"c{n}"
        value = _value(F.col(name), column)
        if misfits == "fail" and value is not None:
            said = F.concat(F.lit(f"{shape.name}, row "), row, F.lit(f", {column.name}: "), F.col(name).cast("string"))
            value = F.when(F.col(name).isNotNull() & value.isNull(), F.raise_error(said)).otherwise(value)
        columns.append((F.col(name) if value is None else value).alias(name))
    return raw.select(columns)


def hive_columns(shape: Shape) -> tuple[tuple[str, str], ...]:
    """(name, type) as Hive has them: it has one type for moments, in UTC here."""
    types = ((column.name, type_of(column).simpleString()) for column in shape.columns)
    return tuple((name, "timestamp" if type == "timestamp_ntz" else type) for name, type in types)


def _value(raw: Asked, column: Column) -> Asked | None:
    """NULL too for what does not fit; None: nothing needs to be done."""
    match type_of(column):
        case spark.StringType() if column.kind is Kind.TEXT and not is_utf8(column.charset):
            return _decoded(raw, column.charset)
        case spark.StringType() | spark.BinaryType() | spark.DoubleType():
            return None
        case spark.DateType():
            return F.when(~raw.startswith(_NO_YEAR), raw.try_cast("date"))
        case spark.TimestampType() | spark.TimestampNTZType():
            return F.when(~raw.startswith(_NO_YEAR), raw.try_cast("timestamp"))
        case wanted:
            return raw.try_cast(wanted)


def _decoded(raw: Asked, charset: str) -> Asked:
    """NULL for bytes without text."""
    table = single_byte_table(charset)
    if table is None:
        return F.udf(_decoder(charset), spark.StringType(), useArrow=False)(raw)
    moved = [(chr(code), character) for code, character in enumerate(table) if chr(code) != character]
    text = F.decode(raw, "ISO-8859-1")  # a character for each byte
    if moved:
        text = F.translate(text, *("".join(characters) for characters in zip(*moved, strict=True)))
    return F.when(~text.contains(NO_CHARACTER), text)


def _decoder(charset: str) -> Callable[[bytes | None], str | None]:
    decode = decoder(charset)

    def text(raw: bytes | None) -> str | None:
        try:
            return None if raw is None else decode(bytes(raw))
        except UnicodeDecodeError:
            return None

    return text


def _row(shape: Shape) -> Asked:
    places = {column.name: n for n, column in enumerate(shape.columns)}
    parts = (F.concat(F.lit(f"{name}="), F.col(f"c{places[name]}").cast("string")) for name in shape.primary_key)
    return F.concat_ws(", ", *parts)
