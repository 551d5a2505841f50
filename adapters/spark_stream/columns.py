"""The columns of the stream, and values as Spark holds them.

A row is one change.  `before` and `after` are maps from column name to text, exact for every kind of value, or, of one
table, structs of its own columns, each in the narrowest type of Spark that holds *all* values of the column; what has
none (TIME beyond a day, 65 digits) is text.  A value that its type cannot hold after all (a zero date, text with bytes
outside its charset) ends the stream, or is NULL, as `misfits` says.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import types as spark

from tidelock.engine.model.records import Column, Kind, Shape, Value

MOST_DIGITS: Final = 38
_META: Final = (
    spark.StructField("op", spark.StringType(), False),
    spark.StructField("table", spark.StringType()),
    spark.StructField("key", spark.ArrayType(spark.StringType())),
)
_ORIGIN: Final = (
    spark.StructField("statement", spark.StringType()),
    spark.StructField("transaction", spark.StringType()),
    spark.StructField("ordinal", spark.LongType()),
    spark.StructField("committed", spark.TimestampType()),
    spark.StructField("position", spark.StringType(), False),
    spark.StructField("log_partition", spark.IntegerType(), False),
    spark.StructField("log_record", spark.LongType(), False),
    spark.StructField("log_row", spark.IntegerType(), False),
)
_TEXTS: Final = spark.MapType(spark.StringType(), spark.StringType())
_INTEGERS: Final = {1: spark.ByteType(), 2: spark.ShortType(), 3: spark.IntegerType(), 4: spark.IntegerType()}
_WIDER: Final = {1: spark.ShortType(), 2: spark.IntegerType(), 3: spark.IntegerType(), 4: spark.LongType()}
_UNSIGNED_64: Final = spark.DecimalType(20, 0)
_PLAIN: Final[dict[Kind, spark.DataType]] = {
    Kind.YEAR: spark.ShortType(),
    Kind.BOOL: spark.BooleanType(),
    Kind.FLOAT: spark.FloatType(),
    Kind.DOUBLE: spark.DoubleType(),
    Kind.DATE: spark.DateType(),
    Kind.DATETIME: spark.TimestampNTZType(),
    Kind.TIMESTAMP: spark.TimestampType(),
    Kind.BINARY: spark.BinaryType(),
    Kind.GEOMETRY: spark.BinaryType(),
    Kind.VECTOR: spark.BinaryType(),
}


def schema_of(shape: Shape | None) -> spark.StructType:
    """Returns the schema of the whole stream, or of one table's changes."""
    image = _TEXTS if shape is None else row_type(shape)
    images = [spark.StructField(name, image) for name in ("before", "after")]
    return spark.StructType([*_META, *images, *_ORIGIN])


def row_type(shape: Shape) -> spark.StructType:
    """Returns the struct type of a table's rows."""
    return spark.StructType([spark.StructField(column.name, type_of(column)) for column in shape.columns])


def type_of(column: Column) -> spark.DataType:
    """Returns the narrowest type of Spark that holds all values of the column."""
    match column.kind:
        case Kind.INT if column.unsigned:
            return _WIDER.get(column.length, _UNSIGNED_64)
        case Kind.INT:
            return _INTEGERS.get(column.length, spark.LongType())
        case Kind.BIT:
            return spark.LongType() if 0 < column.length < 64 else _UNSIGNED_64
        case Kind.DECIMAL if column.precision <= MOST_DIGITS:
            return spark.DecimalType(column.precision, column.scale)
        case kind:
            return _PLAIN.get(kind, spark.StringType())


def text(value: Value) -> str:
    """Returns the exact text of a value that is not NULL; bytes in hexadecimal.  Raises ValueError: text that does not
    decode.
    """
    return value.hex() if isinstance(value, bytes) else value if isinstance(value, str) else repr(value)


def text_of(kind: Kind) -> Callable[[Value], str]:
    """Returns `text` for values of one kind."""
    return _decoded if kind is Kind.TEXT else text


def reader(column: Column, wanted: spark.DataType) -> Callable[[Value], Any]:
    """Returns the function from a value that is not NULL to one that Arrow takes for `wanted`.  It raises ValueError
    for a value that does not fit.
    """
    match wanted:
        case spark.StringType():
            return text_of(column.kind)
        case spark.BinaryType():
            return lambda value: value if isinstance(value, bytes) else value.encode()
        case spark.DecimalType():
            return _finite if column.type else Decimal
        case spark.BooleanType():
            return bool
        case spark.DateType():
            return datetime.date.fromisoformat
        case spark.TimestampNTZType():
            return datetime.datetime.fromisoformat
        case spark.TimestampType():
            return lambda value: datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
        case spark.FloatType() | spark.DoubleType():
            return float
        case _:
            return int


def _finite(value: Value) -> Decimal:
    """Returns a number of PostgreSQL's, which also has NaN."""
    made = Decimal(str(value))
    if not made.is_finite():
        raise ValueError(f"{value} is no number of a decimal type")
    return made


def _decoded(value: Value) -> str:
    if isinstance(value, bytes):
        raise ValueError("bytes that are no text in the column's charset")
    return str(value)
