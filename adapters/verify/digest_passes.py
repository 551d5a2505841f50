"""Runs the two passes over a table on Spark: sums of all buckets, and the rows of those whose sums differ.

The first pass hashes each row's text and adds the hashes up by bucket (count, exclusive or, and the sum of a part, so
that rows that occur twice do not cancel out), on both sides at once; only the sums are shuffled.  A differing row is
missed only if both images have the same 64-bit hash.  The second pass brings the rows of the buckets in question to the
driver, ordered by bucket, and holds one bucket in memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tidelock.adapters.spark.comparable_values import normal
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.verify.plan import BUCKET_ROWS, Cut, ReadingPlan
from tidelock.adapters.verify.queries import digest_query, doubles_of, keyed_queries, rows_query
from tidelock.adapters.verify.recheck import Image
from tidelock.adapters.verify.table_pairs import Side
from tidelock.engine.model.records import Row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SOURCE: Final = 1
TARGET: Final = -1
PART_ROWS: Final = 100_000


class Sums(msgspec.Struct, frozen=True):
    """The result of the first pass over a table.  `buckets`: those whose sums differ."""

    source_rows: int
    target_rows: int
    buckets: list[int]


class FoundRow(NamedTuple):
    """A row.  `place`: where it was found, 0 to 1 along its side's pieces."""

    image: Image
    place: float


class Bucket(msgspec.Struct, frozen=True):
    """The rows of one bucket that were asked for."""

    number: int
    source: list[FoundRow]
    target: list[FoundRow]


class AskedRows(msgspec.Struct, frozen=True):
    """Rows to look at: those of whole buckets, or, where there are only a few, those of these keys."""

    buckets: tuple[int, ...] = ()
    keys: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.buckets or self.keys)


class Passes:
    """The passes of one session.  What Spark raises comes out as it is."""

    def __init__(self, spark: SparkSession, plan: ReadingPlan) -> None:
        self._spark = spark
        self._plan = plan

    def sums(self, cut: Cut) -> Sums:
        """Returns the sums of a table."""
        from pyspark.sql import functions as F

        sides = [*self._digests(cut, SOURCE), *self._digests(cut, TARGET)]
        total = _union(sides).groupBy("b").agg(
            F.expr(f"sum(IF(side = {SOURCE}, c, 0))").alias("ours"),
            F.expr(f"sum(IF(side = {TARGET}, c, 0))").alias("theirs"),
            F.expr("bit_xor(x)").alias("x"),
            F.expr("sum(side * s)").alias("s"),
        )
        differs = "CASE WHEN ours <> theirs OR x <> 0 OR s <> 0 THEN b END"
        row = total.agg(F.expr("sum(ours)"), F.expr("sum(theirs)"), F.expr(f"collect_list({differs})")).collect()[0]
        return Sums(row[0] or 0, row[1] or 0, sorted(row[2]))

    def _digests(self, cut: Cut, side: int) -> list[DataFrame]:
        from pyspark.sql import functions as F

        frames = []
        for at, database, pieces in self._sides(cut, side):
            frame = database.read(self._spark, digest_query(at, cut.pair, cut.buckets), pieces)
            # A text longer than the server's packet is NULL: then the row is looked at value by value.
            parts: list[Column] = [F.coalesce(F.col("r"), F.lit(f"too long: {side}"))]
            parts += [F.col(f"d{n}") + F.lit(0.0) for n in range(len(doubles_of(at.cells)))]
            hashed = frame.select(_bucket(cut).alias("b"), F.xxhash64(*parts).alias("h"))
            sums = hashed.groupBy("b").agg(
                F.expr("count(*)").alias("c"), F.expr("bit_xor(h)").alias("x"), F.expr("sum(h >> 34)").alias("s")
            )
            frames.append(sums.withColumn("side", F.lit(side)))
        return frames

    def _sides(self, cut: Cut, side: int) -> list[tuple[Side, Database, tuple[str, ...]]]:
        if side == TARGET:
            return [(cut.pair.target, self._plan.target, cut.target)]
        pairs = zip(cut.pair.sources, cut.sources, strict=True)
        return [(at, self._plan.source, pieces) for at, pieces in pairs]

    def source_rows(self, cut: Cut, asked: AskedRows) -> DataFrame:
        """Returns these rows as they are now: read before this returns, and kept."""
        from pyspark import StorageLevel

        frame = self._rows(cut, SOURCE, asked).persist(StorageLevel.DISK_ONLY)
        frame.count()
        return frame

    def buckets(self, cut: Cut, source: DataFrame, asked: AskedRows) -> Iterator[Bucket]:
        """Yields these rows beside those of the target, read now; rows whose texts are the same have cancelled out."""
        both = source.unionByName(self._rows(cut, TARGET, asked))
        kept = both.groupBy("b", "v").agg({"side": "sum", "place": "max"}).toDF("b", "v", "more", "place")
        # Each part is a job of its own, and only one is in memory.
        parts = 1 + (len(asked.keys) or min(len(asked.buckets) * BUCKET_ROWS, cut.rows)) // PART_ROWS
        rows = kept.where("more <> 0").repartition(parts, "b").sortWithinPartitions("b").toLocalIterator()
        normals = [normal(form) for form in cut.pair.forms]
        for number, group in itertools.groupby(rows, key=itemgetter(0)):
            bucket = Bucket(number, [], [])
            for _, values, more, place in group:
                image = tuple(read(value) for read, value in zip(normals, values, strict=True))
                (bucket.source if more > 0 else bucket.target).extend([FoundRow(image, place)] * abs(more))
            yield bucket

    def _rows(self, cut: Cut, side: int, asked: AskedRows) -> DataFrame:
        from pyspark.sql import functions as F

        frames = []
        values = [f"c{n}" for n in range(len(cut.pair.columns))]
        for at, database, pieces in self._sides(cut, side):
            frame, parts = self._asked(cut, at, database, pieces, asked)
            place = (F.spark_partition_id() + 0.5) / float(parts)
            known = _bucket(cut).alias("b"), F.lit(side).alias("side"), place.alias("place")
            frame = frame.select(*known, F.struct(*values).alias("v"))
            if asked.keys and parts > 1:  # a server may take two keys for one
                frame = frame.dropDuplicates(["b", "v"])
            elif not asked.keys and not cut.pair.integer and _is_share(cut, asked):
                frame = frame.where(f"b IN ({', '.join(map(str, asked.buckets))})")
            frames.append(frame)
        return _union(frames)

    def _asked(
        self, cut: Cut, side: Side, database: Database, pieces: Sequence[str], asked: AskedRows
    ) -> tuple[DataFrame, int]:
        """Returns rows of one table, and in how many parts.  The server finds keys by its index, and buckets of an
        integer too.
        """
        if asked.keys:
            queries = keyed_queries(side, cut.pair, cut.buckets, asked.keys)
            return _union([database.read(self._spark, query, []) for query in queries]), len(queries)
        if cut.pair.integer and _is_share(cut, asked):
            pieces = [f"({piece}) AND k IN ({', '.join(map(str, asked.buckets))})" for piece in pieces]
        return database.read(self._spark, rows_query(side, cut.pair, cut.buckets), pieces), len(pieces)


def _is_share(cut: Cut, asked: AskedRows) -> bool:
    """Returns whether it is worth while to leave out the other buckets."""
    return len(asked.buckets) <= cut.buckets // 2


def _bucket(cut: Cut) -> Column:
    from pyspark.sql import functions as F

    key = F.col("k")
    return key.cast("long") if cut.pair.integer else F.pmod(F.xxhash64(key), F.lit(cut.buckets)).cast("long")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return functools.reduce(lambda one, other: one.unionByName(other), frames)
