"""The data source `tidelock`: `spark.dataSource.register(TidelockSource)`, then `spark.readStream.format("tidelock")`.

It reads what a feed has published to its changes topic, or a journal; it never writes, and neither the feed nor its
target notices.  Spark's checkpoint holds places of the source's log, so a stream that is started again goes on exactly
where it was: the same offsets give the same rows, each once.  Rows of one table are in one partition of the log; there
(`log_record`, `log_row`) is their order.

Spark pickles the reader to its executors: they need this package too, and reach the broker by the feed's `log`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast, get_args

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidelock.adapters.spark_stream.columns import schema_of
from tidelock.adapters.spark_stream.log import ChangeLog, ChangesError, LogPlace, Slice, offsets, places
from tidelock.adapters.spark_stream.opening import open_log, shape_of
from tidelock.adapters.spark_stream.rows import Misfits, Rows

FIRST_RECORDS: Final = 100
BATCH_RECORDS: Final = 10_000
OPTIONS = ("feed", "journal", "table", "startingOffsets", "endingOffsets", "maxRecordsPerTrigger", "misfits")


class TidelockSource(DataSource):
    """The data source.

    Options: `feed` (the YAML of a feed with `log: kafka://…`, or with a `journal`) or `journal` (a file); `table`
    (`schema.table` at the target: that table's own columns); `startingOffsets` (`earliest`, the default, `latest`, or
    offsets as JSON); `endingOffsets` (`latest`, or JSON; not of streams); `maxRecordsPerTrigger` (of each partition; a
    record holds some hundred rows; by default few in the first micro-batch after a start, then `BATCH_RECORDS`);
    `misfits` (`fail`, the default, or `null`).
    """

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "tidelock"

    def schema(self) -> StructType:
        """Returns the columns of the stream."""
        known(self.options)
        table = self.options.get("table", "")
        return schema_of(shape_of(self.options, table) if table else None)

    def reader(self, schema: StructType) -> BatchReader:
        """Returns a reader of all changes until now."""
        known(self.options)
        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Returns a reader of the stream."""
        known(self.options)
        if "endingOffsets" in self.options:
            raise ChangesError("a stream has no endingOffsets", "Use spark.read, or .trigger(availableNow=True)")
        return StreamReader(self.options, schema)


class _Reading:
    """The common part of both readers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._log: ChangeLog = open_log(options)
        self._schema = schema
        self._table = options.get("table", "")
        self._misfits: Misfits = _chosen(options.get("misfits", "fail"))
        self._starting = options.get("startingOffsets", "earliest")
        self._ending = options.get("endingOffsets", "latest")
        self._most = _count(options.get("maxRecordsPerTrigger"))

    def first(self) -> dict[int, LogPlace]:
        """Returns where reading begins."""
        match self._starting:
            case "earliest":
                return self._log.first()
            case "latest":
                return self._log.last({}, None)
            case text:
                return _read(text)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Yields the rows of a slice.  Runs in a task of Spark."""
        part: Slice = partition.value
        rows = Rows(self._schema, self._table, self._misfits)
        yield from rows.batches(self._log.read(part), part.partition)


class BatchReader(_Reading, DataSourceReader):
    """Reads the changes from one place to another, once."""

    def partitions(self) -> list[InputPartition]:
        """Returns the slices to read."""
        start = self.first()
        end = self._log.last(start, None) if self._ending == "latest" else _read(self._ending)
        # Spark would make an empty list one partition without a value
        parts = self._log.slices(start, end) if end else []
        return [InputPartition(part) for part in parts] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return super().read(partition) if partition.value is not None else iter(())


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes as a stream.  Offsets are as in `adapters.spark_stream.log`."""

    _goal: dict[int, LogPlace] | None = None
    _begun = False

    def initialOffset(self) -> dict[str, Any]:
        """Returns the offsets where a new stream begins."""
        return offsets(self.first())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns how much one micro-batch reads."""
        return ReadMaxRows(BATCH_RECORDS if self._most is None else self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end, for a stream that stops once it has read what is there now."""
        self._goal = self._log.last({}, None)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns where the next micro-batch ends.  The first one after a start is short, so that something is seen."""
        begin = places(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if not self._begun and self._most is None:
            most = FIRST_RECORDS
        self._begun = True
        end = self._log.last(begin, most)
        if self._goal is not None:
            end = {number: min(place, self._goal.get(number, place), key=_at) for number, place in end.items()}
        return offsets({**begin, **end})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the slices between two offsets."""
        return [InputPartition(part) for part in self._log.slices(places(start), places(end))]


def known(options: Mapping[str, str]) -> None:
    """Checks the options' names, because a typing error must not change what is read.  Raises ChangesError."""
    names = {name.lower() for name in OPTIONS}
    unknown = sorted(name for name in options if name.lower() not in names and name.lower() != "path")
    if unknown:
        raise ChangesError(f"unknown option {unknown[0]}", f"Known: {', '.join(OPTIONS)}")


def _read(text: str) -> dict[int, LogPlace]:
    try:
        return places(json.loads(text))
    except json.JSONDecodeError:
        return places(text)


def _at(place: LogPlace) -> int:
    return place.at


def _chosen(text: str) -> Misfits:
    if text in get_args(Misfits):
        return cast(Misfits, text)
    raise ChangesError(f"misfits is {text!r}", "It is fail or null")


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise ChangesError(f"maxRecordsPerTrigger is {text!r}", "It is a number from 1 on")
    return int(text)
