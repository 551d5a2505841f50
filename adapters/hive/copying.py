"""Copies existing rows into Hive: Spark reads them in pieces, and tables are loaded beside the log.

`P0` is a place in the log up to which everything is visible (`Source.visible_end`); reading begins after it
was taken.  A row is read as it was at some moment of the reading.  Everything behind P0 is merged by key afterwards,
and the last image wins: so a row that changed meanwhile is right whatever the reader saw of it, and a row that did not
change is right as read.  From `P1` on, where the log ended when the last row had been read, the tables equal the
source's.  Before, they may hold rows of different moments, and are not shown to readers.

A piece is a folder that is complete once Spark says so in it.  A copy that was killed reads only the missing pieces.
Of a piece that two programs have read, one folder is taken; the manifest says which tables are loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.hive.manifest import CopyState, Manifest, Pending
from tidelock.adapters.hive.merger import Broken, moment_of
from tidelock.adapters.hive.opening import OpenedHive
from tidelock.adapters.hive.selection import Selected, pieces_of, selection
from tidelock.adapters.hive.spool import misfits_of
from tidelock.adapters.hive.values import hive_columns, typed
from tidelock.adapters.runtime.progress import Progress
from tidelock.adapters.spark.causes import cause
from tidelock.adapters.spark.jdbc import Form
from tidelock.adapters.spark.session import SparkFailed
from tidelock.adapters.wiring.sources import source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHOLE: Final = "_SUCCESS"
_TOLD_SECONDS: Final = 5.0
_FORMAT: Final = "parquet"  # ORC moves fractions of the last second before 1970
_MISFIT: Final = "USER_RAISED_EXCEPTION"


class Stopped(Exception):
    """The operator ended the run; what was read is kept."""


class _Told:
    """Reports how far the reading of a table is, every few seconds."""

    def __init__(self, progress: Progress, name: str, pending: Pending, there: int) -> None:
        self._progress, self._name, self._pieces = progress, name, len(pending.pieces)
        self._begun = self._last = time.monotonic()
        self._there, self._read, self._rows = there, 0, 0
        kept = f", {there} of them read before" if there else ""
        progress.message(f"copy of {name}: about {pending.rows:,} rows in {self._pieces} pieces{kept}")

    def piece(self, rows: int) -> None:
        """Counts one more piece, of so many rows."""
        self._read += 1
        self._rows += rows
        now = time.monotonic()
        left = self._pieces - self._there - self._read
        if left and now - self._last < _TOLD_SECONDS:
            return
        self._last, seconds = now, now - self._begun
        eta = f", about {seconds / self._read * left:.0f} s left" if left else ""
        self._progress.message(
            f"copy of {self._name}: {self._there + self._read} of {self._pieces} pieces, {self._rows:,} rows, "
            f"{self._rows / seconds:,.0f} rows/s{eta}"
        )


def planned(feed: Feed) -> Manifest:
    """Plans the copy of a new feed.  The tables are looked at after the position was taken, so that no table can be
    made between the two.

    Raises SourceError, Broken.
    """
    start = source_of(feed.source_url).visible_end()
    return Manifest(0, start, copy=CopyState(_token(), asyncio.run(pieces_of(feed, asyncio.run(selection(feed))))))


class HiveCopying:
    """The copy of one feed.  `stopped`: asked between two pieces."""

    def __init__(
        self, feed: Feed, hive: OpenedHive, copy: CopyState, progress: Progress, stopped: Callable[[], bool]
    ) -> None:
        self._feed, self._hive, self._copy, self._progress, self._stopped = feed, hive, copy, progress, stopped
        self._selected = asyncio.run(selection(feed))
        self._token = _token()
        self._place = f"{hive.folder}/copy/{copy.name}"

    def done(self, manifest: Manifest) -> Manifest:
        """Returns the manifest with all tables of the copy loaded.  Raises Stopped, SourceError, SparkFailed, Broken,
        Taken.
        """
        for name, pending in self._copy.pending.items():
            sources = self._selected.tables.get(name, {})
            self._compare(name, pending, [*sources.values()])
            folders = self._read(name, pending)
            begun = time.monotonic()
            manifest = self._hive.merger.load(manifest, name, self._rows(pending, folders))
            self._hive.files.remove(self._folder(name))
            self._progress.message(f"copy of {name}: loaded into its table, {time.monotonic() - begun:.1f} s")
        end, us = source_of(self._feed.source_url).end()
        manifest = self._hive.merger.loaded(manifest, end, moment_of(us))
        self._hive.files.remove(self._place)
        self._progress.message(f"copy: all rows are read; they are shown when the log has been followed to {end}")
        return manifest

    def _compare(self, name: str, pending: Pending, sources: list[Selected]) -> None:
        forms = {(hive_columns(source.shape), source.shape.primary_key) for source in sources}
        if forms != {(pending.columns, pending.key)}:
            raise Broken(
                f"the columns of {name} have changed since its copy began", "Begin anew, with a feed of a new name"
            )

    def _rows(self, pending: Pending, folders: list[str]) -> DataFrame:
        names = [name for name, _ in pending.columns]
        rows = self._hive.spark.read.format(_FORMAT).load(folders).toDF(*names)
        sources = {source for source, _ in pending.pieces}
        return rows if len(sources) == 1 else rows.dropDuplicates(list(pending.key))

    # ------------------------------------------------------------------ pieces

    def _read(self, name: str, pending: Pending) -> list[str]:
        """Returns a folder for each piece."""
        there = self._whole(name)
        missing = [number for number in range(len(pending.pieces)) if number not in there]
        told = _Told(self._progress, name, pending, len(there))
        with ThreadPoolExecutor(self._hive.spark.sparkContext.defaultParallelism, "copy") as pool:
            waiting = {pool.submit(self._piece, name, pending, number) for number in missing}
            for rows in self._finished(waiting):
                told.piece(rows)
        there = self._whole(name)
        return [f"{self._folder(name)}/{there[number]}" for number in range(len(pending.pieces))]

    def _finished(self, waiting: set[Future[int]]) -> Iterator[int]:
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
                if waiting and self._stopped():
                    raise Stopped
        finally:
            for future in waiting:
                future.cancel()

    def _piece(self, name: str, pending: Pending, number: int) -> int:
        """Reads one piece and returns its number of rows."""
        source, predicate = pending.pieces[number]
        selected = self._selected.tables[name][source]
        raw = self._selected.database.read(self._hive.spark, selected.query, [predicate], Form(selected.types))
        counted = Observation()
        rows = typed(raw, selected.shape, selected.asked, misfits_of(self._feed))
        rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        with _explained(source):
            rows.write.format(_FORMAT).save(f"{self._folder(name)}/{number:06}-{self._token}")
        return int(counted.get["rows"])

    def _whole(self, name: str) -> dict[int, str]:
        """Returns the folder's name of each complete piece, by its number."""
        folder, files = self._folder(name), self._hive.files
        whole = [one for one in files.names(folder) if _WHOLE in files.names(f"{folder}/{one}")]
        return {int(one.partition("-")[0]): one for one in whole}

    def _folder(self, name: str) -> str:
        return f"{self._place}/{name}.{_FORMAT}"


def _token() -> str:
    return uuid.uuid4().hex[:6]


@contextlib.contextmanager
def _explained(source: str) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        text = cause(error)
        if _MISFIT in text:
            said = text.partition("]")[2].partition(" SQLSTATE")[0].strip()
            raise Broken(f"{source} cannot be copied: {said}", "The copy goes on when that is corrected") from None
        raise SparkFailed(f"Spark could not copy {source}: {text}") from None
