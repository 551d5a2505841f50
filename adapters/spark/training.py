"""A little of all that we ask of Spark, in one session, so that Java writes down what classes that takes.

Run as `python -m tidelock.adapters.spark.training FILE` by `adapters.spark.kept_classes`.  Java writes FILE when it
ends, which takes longer than a session waits.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS: Final = 600.0
_COLUMNS: Final = "id bigint, after map<string,string>, committed timestamp"
_ROWS: Final = 10


class Numbers(DataSource):
    """A data source of some rows, as a stream."""

    def schema(self) -> str:
        """Returns the columns."""
        return _COLUMNS

    def streamReader(self, schema: StructType) -> NumbersReader:
        """Returns a reader of the stream."""
        return NumbersReader()


class NumbersReader(DataSourceStreamReader):
    """Reads the rows."""

    def initialOffset(self) -> dict[str, Any]:
        """Returns the place before all rows."""
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the place behind them."""
        return {"at": _ROWS}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns one partition a row."""
        return [InputPartition(number) for number in range(start["at"], end["at"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yields the row."""
        yield partition.value, {"id": str(partition.value)}, None


def main() -> None:
    """Runs the session until Java has written the file."""
    with session(Spark(), "classes", f"-XX:ArchiveClassesAtExit={sys.argv[1]}") as spark:
        _compare(spark)
        _stream(spark)
        gateway = SparkContext._gateway
        assert gateway is not None
        process = gateway.proc
        process.stdin.close()
        process.wait(SECONDS)


def _compare(spark: SparkSession) -> None:
    """Reads and writes by JDBC, joins, hashes, and hands rows to Python."""
    numbers = spark.range(100).selectExpr("id", "xxhash64(id) AS hash", "CAST(id AS STRING) AS text")
    numbers.createOrReplaceTempView("numbers")
    joined = numbers.join(numbers.groupBy("id").count(), "id", "full_outer").orderBy("id")
    assert joined.count() == 100
    assert len(joined.where("text LIKE '1%' AND hash IS NOT NULL").limit(5).collect()) == 5
    url, properties = "jdbc:derby:memory:classes;create=true", {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    numbers.write.jdbc(url, "numbers", properties=properties)
    read = spark.read.jdbc(url, "numbers", predicates=["1 = 1"], properties=properties)
    assert read.rdd.mapPartitions(lambda rows: [len(list(rows))]).sum() == 100


def _stream(spark: SparkSession) -> None:
    """Streams rows of a source in Python into files, and reads the files."""
    spark.dataSource.register(Numbers)
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "rows")
        rows = spark.readStream.format("Numbers").load().selectExpr("id", "after['id'] AS text", "committed")
        stream = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).start(place).awaitTermination()
        assert spark.read.parquet(place).count() == _ROWS


if __name__ == "__main__":
    main()
