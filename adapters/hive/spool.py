"""Collects changes for a merge: writes batches of the log as one Parquet file for each table.

A *stretch* is the log between two merges.  Its files have the data source's columns already, so Spark reads them as it
would read the stream.  The files are temporary: a stretch that was not merged is read from the source again.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec
import pyarrow
from pyarrow import parquet
from pyspark.sql.types import StructType

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.hive.merger import Broken
from tidelock.adapters.hive.values import hive_columns
from tidelock.adapters.spark_stream.columns import schema_of
from tidelock.adapters.spark_stream.rows import Misfits, Rows
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Shape

GROUP_ROWS: Final = 20_000


def misfits_of(feed: Feed) -> Misfits:
    """Returns what becomes of values that Hive cannot hold."""
    return "null" if feed.zero_dates == "null" else "fail"


class NoKey(Exception):
    """A table has rows and no primary key, so nothing tells them apart."""


class Spooled(msgspec.Struct, frozen=True):
    """The file of one table.  `columns`: (name, type) as Hive has them."""

    path: Path
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]


class Spool:
    """The stretch behind `since`; its files are in `folder`.  `last`: where it ends so far, `end_us`: source time of
    that.
    """

    def __init__(self, folder: Path, since: Position, misfits: Misfits) -> None:
        self.since = self.last = since
        self.rows = self.end_us = 0
        self._folder, self._misfits = folder, misfits
        self._shapes: dict[int, Shape] = {}
        self._tables: dict[str, _Table] = {}
        self._number = 0
        folder.mkdir()

    def add(self, batch: LogBatch, shapes: dict[int, Shape]) -> None:
        """Adds a batch.  `shapes`: of all tables that the batch uses.  Raises ChangesError, NoKey,
        Broken."""
        self._number += 1
        whole = msgspec.structs.replace(batch, shapes=shapes)
        for number in dict.fromkeys(row.table for row in batch.rows):
            shape = shapes[number]
            table = self._tables.get(str(shape.name)) or self._open(shape)
            table.add(self._number, whole)
        self.rows += len(batch.rows)
        self.last = batch.last
        self.end_us = max(self.end_us, batch.end_us)

    def close(self) -> dict[str, Spooled]:
        """Closes the files and returns them by table."""
        return {name: table.close() for name, table in self._tables.items()}

    def remove(self) -> None:
        """Removes the files, once they are merged."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, shape: Shape) -> _Table:
        if not shape.primary_key:
            raise NoKey(str(shape.name))
        path = self._folder / f"{len(self._tables)}.parquet"
        table = self._tables[str(shape.name)] = _Table(path, shape, self._misfits)
        return table


class _Table:
    def __init__(self, path: Path, shape: Shape, misfits: Misfits) -> None:
        schema: StructType = schema_of(shape)
        self._path, self._shape = path, shape
        self._rows = Rows(schema, str(shape.name), misfits)
        self._waiting: list[pyarrow.RecordBatch] = []
        self._count = 0
        self._writer: parquet.ParquetWriter | None = None

    def add(self, number: int, batch: LogBatch) -> None:
        """Writes the table's changes of a batch."""
        for made in self._rows.batches([(number, batch)], 0):
            self._require_keys(made, batch.last)
            self._waiting.append(made)
            self._count += made.num_rows
        if self._count >= GROUP_ROWS:
            self._flush()

    def _require_keys(self, made: pyarrow.RecordBatch, place: Position) -> None:
        """Passes where each row has its key: one that is NULL in place of a value would be many rows' key."""
        for name in ("before", "after"):
            images = made.column(name)
            for key in self._shape.primary_key:
                values = images.flatten()[images.type.get_field_index(key)]
                if values.null_count > images.null_count:
                    said = f"{self._shape.name}, before {place}: {key}, of the key, has a value that Hive cannot hold"
                    raise Broken(said, "Leave the table out of the feed")

    def close(self) -> Spooled:
        """Closes the file."""
        self._flush()
        assert self._writer is not None, "a table is opened with its first rows"
        self._writer.close()
        return Spooled(self._path, hive_columns(self._shape), self._shape.primary_key)

    def _flush(self) -> None:
        if self._waiting:
            table = pyarrow.Table.from_batches(self._waiting)
            self._writer = self._writer or parquet.ParquetWriter(self._path, table.schema, compression="zstd")
            self._writer.write_table(table)
        self._waiting, self._count = [], 0
