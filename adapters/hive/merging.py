"""Computes what a batch of changes makes of a table: pure functions of Spark's DataFrames.

`changes` has the columns of the data source (`adapters.spark_stream.columns`), of one table.  Each change is one or two
*marks*: a key that is gone, a key that has a row.  Marks of one key are ordered by their place in the log.  The last
one gives the current state; all of them are the key's history.

*Current state*: the rows before, less every key with a mark, plus the rows of last marks.

*History* (slowly changing dimension, type 2): a version of a row is valid from its change to the key's next one.  Of
one transaction only the last mark of a key counts: nobody saw the marks between.  Open versions are spread by key as
current rows are; closed ones lie by the day they ended, so that old days are never written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET: Final = "tidelock_bucket"
PART: Final = "tidelock_part"
VERSION: Final = ("valid_from", "valid_to", "op")
_EPOCH: Final = "1970-01-01 00:00:00"


def marks(changes: DataFrame, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> DataFrame:
    """Returns the marks of changes.  Columns: `key` (struct), `row` (struct, NULL: gone), `op`, `committed`,
    `transaction`, `place` (struct, ordered).

    A change that moves the key is two marks: the old key is gone, then the new one has the row.
    """
    before, after = (_keys(image, key) for image in ("before", "after"))
    row = F.struct(*(F.col(f"after.{_quoted(name)}").cast(type).alias(name) for name, type in columns))
    nothing = F.lit(None).cast(f"struct<{', '.join(f'{_quoted(name)}:{type}' for name, type in columns)}>")
    left = F.col("before").isNotNull() & (F.col("after").isNull() | ~before.eqNullSafe(after))
    gone = F.when(left, F.struct(F.lit(0).alias("step"), before.alias("key"), nothing.alias("row")))
    put = F.when(F.col("after").isNotNull(), F.struct(F.lit(1).alias("step"), after.alias("key"), row.alias("row")))
    committed = F.coalesce("committed", F.lit(_EPOCH).cast("timestamp"))
    found = changes.where(F.col("op") != "statement").select(
        "op", committed.alias("committed"), "transaction", "log_record", "log_row",
        F.explode(F.filter(F.array(gone, put), lambda mark: mark.isNotNull())).alias("mark"),
    )  # fmt: skip
    place = F.struct("log_record", "log_row", "mark.step").alias("place")
    return found.select("mark.key", "mark.row", "op", "committed", "transaction", place)


def last(marked: DataFrame) -> DataFrame:
    """Returns `key` and `row` after the batch."""
    ended = marked.groupBy("key").agg(F.max_by(F.struct("row"), "place").alias("last"))
    return ended.select("key", "last.row")


def current(old: DataFrame, ended: DataFrame, key: Sequence[str], buckets: int) -> DataFrame:
    """Returns the rows of every bucket that `old` holds completely.  `ended`: `last` of the marks."""
    kept = _without(old.drop(BUCKET), ended, key)
    return bucketed(kept.unionByName(ended.where(F.col("row").isNotNull()).select("row.*")), key, buckets)


def versions(open: DataFrame, marked: DataFrame, key: Sequence[str], buckets: int) -> tuple[DataFrame, DataFrame]:
    """Returns open versions of the buckets that `open` holds completely, and versions that the marks ended, each with
    its part.
    """
    seen = Window.partitionBy("key", "transaction").orderBy(F.desc("place"))
    marked = marked.withColumn("nth", F.row_number().over(seen)).where("nth = 1")
    order = Window.partitionBy("key").orderBy("place")
    ends = F.lead("committed").over(order)
    made = (
        marked.withColumn("ends", ends)
        .where(F.col("row").isNotNull())
        .select("row.*", F.col("committed").alias("valid_from"), F.col("ends").alias("valid_to"), "op")
    )
    first = marked.groupBy("key").agg(F.min_by("committed", "place").alias("ends"))
    stood = open.drop(PART)
    ends = F.col("marked.ends").alias("tidelock_ends")  # a table may have a column of any plainer name
    ended = _joined(stood, first, key, "inner").select("rows.*", ends).drop("valid_to")
    ended = ended.withColumnRenamed("tidelock_ends", "valid_to")
    still = _without(stood, first, key).unionByName(made.where(F.col("valid_to").isNull()))
    closed = ended.unionByName(made.where(F.col("valid_to").isNotNull()))
    return _opened(still, key, buckets), _closed(closed)


def closed_at(open: DataFrame, moment: str) -> DataFrame:
    """Returns every open version, ended, as a TRUNCATE does.  `moment`: `YYYY-MM-DD HH:MM:SS[.f]`, UTC."""
    return _closed(open.drop(PART).withColumn("valid_to", F.lit(moment).cast("timestamp")))


def first_versions(rows: DataFrame, moment: str, key: Sequence[str], buckets: int) -> DataFrame:
    """Returns the first versions of rows that a copy brought.  `moment`: as above; their author and time are not known.
    """
    since = rows.withColumn("valid_from", F.lit(moment).cast("timestamp"))
    open = since.withColumn("valid_to", F.lit(None).cast("timestamp")).withColumn("op", F.lit("copy"))
    return _opened(open, key, buckets)


def bucketed(rows: DataFrame, key: Sequence[str], buckets: int) -> DataFrame:
    """Adds the column of each row's bucket."""
    return rows.withColumn(BUCKET, bucket_of(key, buckets))


def bucket_of(key: Sequence[str], buckets: int, image: str = "") -> Column:
    """Returns the bucket by a hash of the key's text, so that a wider type of a key column changes nothing."""
    columns = [F.col(f"{image}{_quoted(name)}").cast("string") for name in key]
    return F.pmod(F.xxhash64(*columns), F.lit(buckets)).cast("int")


def open_part(bucket: int) -> str:
    """Returns the part that holds a bucket's open versions."""
    return f"open-{bucket:04}"


def _keys(image: str, key: Sequence[str]) -> Column:
    return F.struct(*(F.col(f"{image}.{_quoted(name)}").alias(name) for name in key))


def _without(rows: DataFrame, marked: DataFrame, key: Sequence[str]) -> DataFrame:
    return _joined(rows, marked.select("key"), key, "left_anti")


def _joined(rows: DataFrame, marked: DataFrame, key: Sequence[str], how: str) -> DataFrame:
    """Joins by key; a key column is never NULL."""
    left, right = rows.alias("rows"), marked.alias("marked")
    same = [F.col(f"rows.{_quoted(name)}") == F.col(f"marked.key.{_quoted(name)}") for name in key]
    return left.join(right, same, how)




def _opened(rows: DataFrame, key: Sequence[str], buckets: int) -> DataFrame:
    return rows.withColumn(PART, F.format_string("open-%04d", bucket_of(key, buckets)))


def _closed(rows: DataFrame) -> DataFrame:
    return rows.withColumn(PART, F.date_format("valid_to", "yyyy-MM-dd"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
