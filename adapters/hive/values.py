"""Reads values of a table at a source as its changes bring them to Hive, byte for byte.

The server is asked as for any copy (`adapters.row_copy.columns`); here Spark itself gives the values the types of the
stream (`adapters.spark_stream.columns`).  It also decodes text in charsets where each byte is a character; for others,
and for what is spelled from bytes, it calls Python.  PostgreSQL spells each value in Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as spark

from tidelock.adapters.mysql.charsets import decoder, single_byte_table
from tidelock.adapters.mysql.spellings import SPELLINGS
from tidelock.adapters.row_copy.columns import AskedColumn
from tidelock.adapters.spark_stream.columns import type_of
from tidelock.adapters.spark_stream.rows import Misfits
from tidelock.engine.model.records import Column, Kind, Shape

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

_NO_CHARACTER: Final = "\ufffe"  # in a charset's table
# Of PostgreSQL's; Spark would take what is behind one, as of a year before 1, for nothing.
_DAY: Final = r"^\d{4}-\d{2}-\d{2}$"
_MOMENT: Final = r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?$"
_NO_YEAR: Final = "0000"  # Spark has such a year, Python and the stream do not


def typed(raw: DataFrame, shape: Shape, asked: Sequence[AskedColumn], misfits: Misfits) -> DataFrame:
    """Returns the rows with the columns of `shape`, named `c0`, `c1`, …, as in `raw`, where each is as it was `asked`.

    A value that its type cannot hold is NULL, or makes the job fail with the table, the key and the value, as `misfits`
    says; it fails always in a key.
    """
    shown = [F.hex(f"c{n}") if how.wire == "BINARY" else F.col(f"c{n}").cast("string") for n, how in enumerate(asked)]
    row = _row(shape, shown)
    columns = []
    for n, (column, how) in enumerate(zip(shape.columns, asked, strict=True)):
        name = f"c{n}"
        value = _value(F.col(name), column, how)
        keys = column.name in shape.primary_key
        if value is not None and (keys or misfits == "fail"):
            place = F.lit(f"{shape.name}, row "), row, F.lit(f", {column.name}: ")
            hint = ", and is of the key" if keys else ": `zero_dates: null` makes it NULL"
            said = F.concat(*place, shown[n], F.lit(f" cannot be held by Hive{hint}"))
            value = F.when(F.col(name).isNotNull() & value.isNull(), F.raise_error(said)).otherwise(value)
        columns.append((F.col(name) if value is None else value).alias(name))
    return raw.select(columns)


def hive_columns(shape: Shape) -> tuple[tuple[str, str], ...]:
    """Returns (name, type) of each column as Hive has it: it has one type for moments, in UTC here."""
    types = ((column.name, type_of(column).simpleString()) for column in shape.columns)
    return tuple((name, "timestamp" if type == "timestamp_ntz" else type) for name, type in types)


def _value(raw: Expression, column: Column, how: AskedColumn) -> Expression | None:
    """Returns the typed column, with NULL for what does not fit; None: nothing needs to be done."""
    if how.reading == "logged":
        return _logged(raw, column)
    if how.reading == "charset":
        return _decoded(raw, how.by)
    if how.reading == "spelling":
        return _python(SPELLINGS[Kind(how.by)])(raw)
    if how.reading == "document":
        said = f"{column.name}: a JSON document is longer, as text, than the source's max_allowed_packet: raise it"
        return F.when(raw == "", F.raise_error(F.lit(said))).otherwise(raw)
    match type_of(column):
        case spark.StringType() | spark.BinaryType() | spark.DoubleType():
            return None
        case spark.DateType():
            return F.when(~raw.startswith(_NO_YEAR), raw.try_cast("date"))
        case spark.TimestampType() | spark.TimestampNTZType():
            return F.when(~raw.startswith(_NO_YEAR), raw.try_cast("timestamp"))
        case wanted:
            return raw.try_cast(wanted)


def _logged(raw: Expression, column: Column) -> Expression | None:
    """Returns the typed column of PostgreSQL's text."""
    wanted = type_of(column)
    match wanted:
        case spark.StringType():
            return None
        case spark.BooleanType():
            return F.when(raw == "t", F.lit(True)).when(raw == "f", F.lit(False))
        case spark.BinaryType():
            return F.unhex(raw.substr(F.lit(len("\\x") + 1), F.length(raw)))
        case spark.DateType():
            return F.when(raw.rlike(_DAY), raw.try_cast(wanted))
        case spark.TimestampType() | spark.TimestampNTZType():
            return F.when(raw.rlike(_MOMENT), raw.try_cast("timestamp"))
        case _ if column.kind is Kind.BIT:
            return F.conv(raw, 2, 10).try_cast(wanted)
        case _:
            return raw.try_cast(wanted)


def _decoded(raw: Expression, charset: str) -> Expression:
    """Returns the text of bytes; NULL for bytes that are no text."""
    table = single_byte_table(charset)
    if table is None:
        return _python(decoder(charset))(raw)
    moved = [(chr(code), character) for code, character in enumerate(table) if chr(code) != character]
    text = F.decode(raw, "ISO-8859-1")  # a character for each byte
    if moved:
        text = F.translate(text, *("".join(characters) for characters in zip(*moved, strict=True)))
    return F.when(~text.contains(_NO_CHARACTER), text)


def _python(read: Callable[[bytes], str]) -> Callable[[Expression], Expression]:
    def text(raw: bytes | None) -> str | None:
        try:
            return None if raw is None else read(bytes(raw))
        except UnicodeDecodeError:
            return None

    made: Callable[[Expression], Expression] = F.udf(text, spark.StringType(), useArrow=False)
    return made


def _row(shape: Shape, shown: Sequence[Expression]) -> Expression:
    places = {column.name: n for n, column in enumerate(shape.columns)}
    parts = (F.concat(F.lit(f"{name}="), shown[places[name]]) for name in shape.primary_key)
    return F.concat_ws(", ", *parts)
