"""`tidelock run` with a Hive target: source log → capture machine → spool → merges by Spark, in one process tree.

With `start: copy` existing rows come first (`adapters.hive.copying`).

While one stretch is merged the next one is collected.  A merge begins when its time has come, never inside a source
transaction.  All state is in the manifest, so a run that was killed goes on behind the last merge, whatever it had
collected.  A statement of the log is handled between two merges: a new table and a new column come with their rows,
TRUNCATE is a merge of its own, and anything else ends the run with the tables as they were before it.

A source that keeps its log for the feed alone (PostgreSQL) is told of each manifest, once that is on the disk.  A
manifest holds the forms of its tables, so that a change of which the log has no statement is told by the next run.
"""

from __future__ import annotations

import asyncio
import errno
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.hive.checking import check
from tidelock.adapters.hive.copying import HiveCopying, Stopped, planned
from tidelock.adapters.hive.durable import secure
from tidelock.adapters.hive.manifest import Manifest
from tidelock.adapters.hive.merger import Broken, Stretch, TableChanges
from tidelock.adapters.hive.opening import OpenedHive, opened
from tidelock.adapters.hive.spool import NoKey, Spool, misfits_of
from tidelock.adapters.hive.values import hive_columns
from tidelock.adapters.ports.capture_messages import Failed
from tidelock.adapters.ports.finding import Finding
from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.ports.table_form import KnownForms
from tidelock.adapters.process.gc_tuning import tidy
from tidelock.adapters.process.own_folder import own_folder
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.process.signals import heard
from tidelock.adapters.process.way_out import FILL_ANEW, of_hive
from tidelock.adapters.runtime.progress import Progress
from tidelock.adapters.runtime.service_watch import ServiceWatch
from tidelock.adapters.spark_stream.log import ChangesError, UntoldValue
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.wiring.sources import keeps_for_us, overview_of, source_of, start_of
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, Shape, TableName
from tidelock.engine.model.schema_change import Ddl, DdlKind, ToldChange

OK: Final = 0
MOST_ROWS: Final = 1_000_000  # of a stretch
IDLE_SECONDS: Final = 600.0  # then the position is kept though nothing happened: the source removes old logs
AGAIN_SECONDS: Final = 2.0
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DEFAULT: Final = re.compile(r"\bDEFAULT\b(?!\s+NULL\b)", re.IGNORECASE)


class NoRoom(OperatorError):
    """A disk of ours is full."""


@contextmanager
def has_room(feed: Feed) -> Iterator[None]:
    """Raises NoRoom where what is done finds no room on a disk.  A merge is there once its manifest is, so one that was
    cut short is made anew."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in _FULL:
            raise
        raise NoRoom(
            f"{feed.target_url}: a file of the warehouse, or of the folder for temporary files "
            f"({tempfile.gettempdir()}), cannot be written: {problem}",
            "Make room there, then `tidelock run FEED`: it goes on behind the last merge",
        ) from problem


def run(feed: Feed, until_caught_up: bool, progress: Progress, manager: ServiceManager) -> int:
    """Runs the feed and returns its exit code (design 9).  `manager`: is told of the run.

    Raises Missing, SparkFailed, SourceError, Broken, Taken, NoRoom.
    """
    with has_room(feed), opened(feed) as hive, own_folder("spools") as folder:
        hive.unstage()  # of a run that was killed
        tidy()
        return asyncio.run(_watched(Follower(feed, hive, folder, progress, manager), until_caught_up, manager))


async def _watched(follower: Follower, until_caught_up: bool, manager: ServiceManager) -> int:
    """Runs with signs of life: here the event loop is what is alive, as merges are in threads."""
    signs = asyncio.get_running_loop().create_task(ServiceWatch(manager, tuple).run())
    try:
        return await follower.run(until_caught_up)
    finally:
        signs.cancel()


class FirstRunRefused(Exception):
    """A first run does not begin; the text is what `check` says."""

    exit_code = 1

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))


class Follower:
    """Follows one feed into one warehouse.  Raises SourceError, Broken, Taken."""

    def __init__(
        self, feed: Feed, hive: OpenedHive, folder: Path, progress: Progress, manager: ServiceManager | None = None
    ) -> None:
        self._manager = manager or ServiceManager({})
        self._feed, self._hive, self._folder, self._progress = feed, hive, folder, progress
        self._mapping = Mapping(rules_of(feed), feed.schema)
        self._stopped = asyncio.Event()
        self._merging: asyncio.Task[None] | None = None
        self._spools = 0
        self._shapes: dict[int, Shape] = {}
        self._capture: CaptureProcess | None = None
        self._stored: Position | None = None  # what a source that keeps its log for us may know of
        self._secured = -1
        self._forms = KnownForms()  # a manifest keeps those in force at its place
        self._has_looked = not keeps_for_us(feed.source_url)  # at the tables, after which it can have caught up

    async def run(self, until_caught_up: bool) -> int:
        """Runs until stopped or caught up; returns the exit code."""
        source = await asyncio.to_thread(overview_of, self._feed, first_run=True)
        with heard(self._stop):
            self._manifest = await asyncio.to_thread(self._hive.merger.begin, lambda: self._first(source))
            if not await asyncio.to_thread(self._copied):
                return OK
            self._progress.message(f"feed {self._feed.name} goes on from {self._manifest.position}")
            await asyncio.to_thread(self._store)
            self._manager.ready()
            self._goal = self._goal_of(source) if until_caught_up else None
            self._forms = KnownForms(self._manifest.forms)
            self._begin(self._manifest.position)
            self._copy = self._manifest.copy
            while not self._stopped.is_set():
                if await self._read():
                    break
        await self._merged()
        return OK

    def _stop(self) -> None:
        self._manager.stopping()
        self._stopped.set()

    # ------------------------------------------------------------------ rows that were there before

    def _first(self, source: Overview) -> Manifest:
        """Starts a new feed, which must pass `check`."""
        errors = asyncio.run(check(self._feed)).errors
        if errors:
            raise FirstRunRefused(errors)
        tables = [name for name in source.tables if self._mapping.selects(name)]
        keep = source_of(self._feed.source_url).keep_log
        beginning = keep(tables, start_of(self._feed, source), kept=self._feed.starts_where_kept)
        first = planned(self._feed) if self._feed.start == "copy" else Manifest(0, beginning.place)
        return replace(first, forms=beginning.forms)

    def _copied(self) -> bool:
        """Copies what remains; returns False where we are to stop before all is copied."""
        copy = self._manifest.copy
        if copy is None or copy.end is not None:
            return True
        try:
            copying = HiveCopying(self._feed, self._hive, copy, self._progress, self._stopped.is_set)
            self._manifest = copying.done(self._manifest)
        except Stopped:
            return False
        return True

    def _goal_of(self, source: Overview) -> Position:
        copy = self._manifest.copy
        ends = [source.now, *([copy.end] if copy and copy.end else [])]
        return max(ends, key=lambda position: position.order)

    async def _read(self) -> bool:
        """Reads during one life of the capture process; returns True once the goal is reached."""
        capture = CaptureProcess(self._feed.source_url)
        try:
            place = self._spool.last
            self._forms.forget_behind(place)
            await capture.begin(order_of(self._feed, place, stored=self._stored, forms=self._forms.all))
            self._capture = capture
            chain = Chain(place)
            while (batch := await self._next(capture)) is not None:
                if isinstance(batch, Failed):
                    if not batch.retryable:
                        raise Broken(batch.message, of_hive(batch.hint))
                    self._progress.message(f"{batch.message}; reading begins anew")
                    await asyncio.sleep(AGAIN_SECONDS)  # back off, not synchronisation
                    return False
                self._learn(capture)
                if chain.judge(batch.prev, batch.last, 0, resent=batch.resent) is not Verdict.NEXT:
                    raise Broken(
                        f"the log has a gap: behind {chain.last} comes {batch.prev}",
                        f"`tidelock run FEED` tries once more; if it stops here again, {FILL_ANEW}",
                    )
                if await self._take(batch):
                    return True
            return False
        finally:
            self._capture = None
            await capture.stop()

    def _learn(self, capture: CaptureProcess) -> None:
        """Takes the forms of tables that the reader has learned, and waits for what its look at the catalogue shows
        before all is caught up."""
        self._forms.learn(capture.learned)
        capture.learned.clear()
        if self._goal is not None and keeps_for_us(self._feed.source_url):
            self._has_looked = self._has_looked or capture.looked is not None
            if capture.looked is not None:
                self._goal = max(self._goal, capture.looked, key=lambda place: place.order)

    async def _next(self, capture: CaptureProcess) -> LogBatch | Failed | None:
        """Returns the next batch; None: we are to stop."""
        reading = asyncio.ensure_future(capture.next())
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            for task in (reading, stopping):
                task.cancel()
            await asyncio.gather(reading, stopping, return_exceptions=True)

    async def _take(self, batch: LogBatch) -> bool:
        self._shapes.update(batch.shapes)
        if batch.ddl is not None and batch.ddl.kind is not DdlKind.UNRELATED and not batch.ddl.optional:
            await self._statement(batch, batch.ddl)
        else:
            await self._collect(batch)
        caught_up = self._goal is not None and self._has_looked and batch.last.order >= self._goal.order
        if batch.last.rows == 0 and (caught_up or self._due() or self._ends_copy()):
            await self._cut()
        return caught_up and batch.last.rows == 0

    async def _collect(self, batch: LogBatch) -> None:
        try:
            await asyncio.to_thread(self._spool.add, batch, self._shapes)
        except UntoldValue as error:
            hint = f"ALTER TABLE … REPLICA IDENTITY FULL at the source, then {FILL_ANEW}"
            raise Broken(error.message, hint) from None
        except ChangesError as error:
            raise Broken(error.message, "`zero_dates: null` in the feed makes such a value NULL") from None
        except NoKey as error:
            raise Broken(f"{error} has no primary key", "Give it one, or leave it out of the feed") from None

    def _ends_copy(self) -> bool:
        """Returns whether the stretch so far reaches the place that the copy still needs."""
        copy = self._copy
        if copy is None or not copy.ends(self._spool.last):
            return False
        self._copy = None
        return True

    def _due(self) -> bool:
        """Tells whether the next merge begins: not while one is under way, so that merges grow until they keep up."""
        if self._spool.rows >= MOST_ROWS:
            return True
        if self._merging is not None:
            if not self._merging.done():
                return False
            if self._merging.exception() is not None:
                return True
        patience = self._feed.hive.merge_seconds if self._spool.rows else IDLE_SECONDS
        return time.monotonic() - self._begun > patience

    # ------------------------------------------------------------------ merges

    def _begin(self, position: Position) -> None:
        self._spools += 1
        self._spool = Spool(self._folder / str(self._spools), position, misfits_of(self._feed))
        self._begun = time.monotonic()

    async def _cut(self) -> None:
        """Merges what is collected, while the next stretch begins."""
        spool = self._spool
        await self._merged()
        self._begin(spool.last)
        self._merging = asyncio.create_task(self._merge_and_tell(spool))

    async def _merged(self) -> None:
        task, self._merging = self._merging, None
        if task is not None:
            await task

    async def _merge_and_tell(self, spool: Spool) -> None:
        await asyncio.to_thread(self._merge, spool)
        await self._tell()

    async def _tell(self) -> None:
        """Tells a source that keeps its log for us how far the warehouse holds it for good."""
        await asyncio.to_thread(self._store)
        if self._capture is not None and self._stored is not None:
            self._capture.tell_stored(self._stored)

    def _store(self) -> None:
        """Puts on the disk what the manifest says that there is."""
        if keeps_for_us(self._feed.source_url):
            manifest = self._manifest
            secure(self._feed.target_url, manifest, self._secured)
            self._secured, self._stored = manifest.number, manifest.position

    def _known_at(self, place: Position) -> Manifest:
        """The manifest with the forms that the source's tables have at a place."""
        return replace(self._manifest, forms=self._forms.at(place))

    def _merge(self, spool: Spool) -> None:
        begun = time.monotonic()
        batches = {name: TableChanges(table.columns, table.key, table.path) for name, table in spool.close().items()}
        stretch = Stretch(spool.since, spool.last, spool.rows, spool.end_us)
        self._manifest = self._hive.merger.merge(self._known_at(spool.last), stretch, batches)
        self._hive.unstage()
        spool.remove()
        if spool.rows:
            self._progress.message(
                f"merge {self._manifest.number}: {spool.rows} changes of {len(batches)} tables up to {spool.last}, "
                f"{time.monotonic() - begun:.1f} s, {self._hive.merger.settled_seconds:.1f} s of them the metastore"
            )

    async def _statement(self, batch: LogBatch, ddl: Ddl) -> None:
        tables = [self._mapping.target(name) for name in ddl.tables if self._mapping.selects(name)]
        await self._cut()
        await self._merged()
        if ddl.kind is DdlKind.OTHER or (ddl.kind is DdlKind.ALTERED and not _is_bare(ddl)) or (tables and _fills(ddl)):
            raise Broken(
                f"at {batch.prev} the source ran a statement that is not known how to follow in Hive: {ddl.statement}",
                "The tables are as they were before it. Fill them anew with a feed of a new name",
            )
        self._spool.last = batch.last
        if ddl.kind is DdlKind.TRUNCATE and tables:
            await asyncio.to_thread(self._truncate, tables, batch)
        elif ddl.added and tables:
            await asyncio.to_thread(self._widen, ddl, batch.last)
        else:
            return
        self._begin(batch.last)
        await self._tell()

    def _truncate(self, tables: Sequence[TableName], batch: LogBatch) -> None:
        moment = datetime.fromtimestamp(batch.end_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        names = list(map(str, tables))
        self._manifest = self._hive.merger.truncate(self._known_at(batch.last), batch.last, names, moment)

    def _widen(self, ddl: Ddl, place: Position) -> None:
        """Adds columns that a log without statements tells of; they would not be told again."""
        added = Shape(ddl.tables[0], tuple(one.column for one in ddl.added), ())
        mapped = self._mapping.table(added)
        if mapped is not None:
            shape = mapped.shape
            self._manifest = self._hive.merger.widen(
                self._known_at(place), place, str(shape.name), hive_columns(shape)
            )


def _is_bare(ddl: Ddl) -> bool:
    """Tells whether a statement changes nothing but which values rows may have: unique indexes, and NULL."""
    told = ddl.told
    if told is None or ddl.added or told != ToldChange(retyped=told.retyped, uniques=told.uniques):
        return False
    return all(before.column == after.column for before, after in told.retyped)


def _fills(ddl: Ddl) -> bool:
    """Tells whether a statement gives rows that are there a value in a new column."""
    if ddl.added:
        return any(one.fill is not None for one in ddl.added)
    return ddl.kind is DdlKind.ADD_COLUMN and _DEFAULT.search(ddl.statement) is not None
