"""`tidelock verify`: checks whether both ends hold the same rows, also while they change.

First all buckets of all tables are summed up at both ends (`adapters.verify.digest_passes`; of a table of few rows
without Spark, `adapters.verify.small`).  Where the sums differ, rows may really differ or be on their way: the rows of
those buckets are read at the source, the feed is given time to pass the end of the log as it then was, and only then
they are read at the target.  That is repeated, for fewer and fewer buckets, until every row is equal or known to differ
(`adapters.verify.recheck`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from tidelock.adapters.config.apply_options import IDLE_CHECKPOINT_US
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.spark.causes import cause
from tidelock.adapters.spark.session import SparkFailed, session
from tidelock.adapters.spark.vigil import Vigil, end_java
from tidelock.adapters.verify.catalogues import paired
from tidelock.adapters.verify.changed_keys import Changed, Since, changed, since
from tidelock.adapters.verify.digest_passes import AskedRows, Bucket, Passes, Sums
from tidelock.adapters.verify.plan import Cut, ReadingPlan, plan
from tidelock.adapters.verify.recheck import ROUNDS, Recheck, RowKey, SeenRow, compared
from tidelock.adapters.verify.report import FORMAT, TableReport, VerifyReport, difference
from tidelock.adapters.verify.small import Small
from tidelock.adapters.verify.watermark import (
    confirm_checkpoints,
    has_run,
    proven_position,
    source_position,
    wait_until_applied,
)
from tidelock.engine.model.records import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_RECHECKED = 200_000
IDLE_SECONDS = IDLE_CHECKPOINT_US / 1e6
"""How much later a feed tells of its place where nothing happens in its source's log but what others write there."""
MOST_KEYS = 20_000
VerifyPhase: TypeAlias = Literal["starting Spark", "reading the log", "reading", "waiting", "rechecking"]


class VerifyStep(msgspec.Struct, frozen=True):
    """The present step.  `table`: '' for all.  `rows`: about how many there are to read, 0 where that says nothing.
    `until`: what is waited for.
    """

    phase: VerifyPhase
    table: str = ""
    rows: int = 0
    until: str = ""

    def __str__(self) -> str:
        rows = f", about {self.rows:,} rows" if self.rows else ""
        return " ".join(filter(None, (self.phase, self.table, self.until))) + rows


class VerifyProgress(Protocol):
    """A receiver of progress.  It is told of each step; while Spark works, it may ask `spark` how far it is."""

    def begin(self, step: VerifyStep) -> None:
        """Takes a new step."""

    def attach(self, spark: SparkSession) -> None:
        """Takes the session of Spark."""

    def tell(self, text: str) -> None:
        """Takes words on how far the present step is."""


class TableReading(Protocol):
    """A reader of one table.  The result of `source_rows` is kept until it is told to `unpersist()`."""

    def sums(self, cut: Cut) -> Sums:
        """Returns the sums of a table."""

    def source_rows(self, cut: Cut, asked: AskedRows) -> Any:
        """Reads rows of the source."""

    def buckets(self, cut: Cut, source: Any, asked: AskedRows) -> Iterator[Bucket]:
        """Yields rows of the source beside those of the target, by bucket."""


class TableVerification:
    """The state of one table.  `asked`: rows to read in the next round.  `complete`: all differences are held."""

    def __init__(self, cut: Cut, sums: Sums, seconds: float) -> None:
        self.cut, self.sums, self.seconds = cut, sums, seconds
        self.recheck = Recheck()
        self.places: dict[RowKey, float] = {}
        self.asked = AskedRows(tuple(sums.buckets), cut.keys or ())
        self.complete = True

    def collect(self, buckets: Iterable[Bucket]) -> dict[RowKey, SeenRow]:
        """Returns the rows among these that are not the same at both ends; not all of them if they are too many."""
        found: dict[RowKey, SeenRow] = {}
        for bucket in buckets:
            source, target = ([row.image for row in rows] for rows in (bucket.source, bucket.target))
            differs = compared(self.cut.pair.key, bucket.number, source, target)
            if differs:
                found |= differs
                self._note(bucket, differs)
            if len(found) > MOST_RECHECKED:
                self.complete = False
                break
        return found

    def narrow(self, found: dict[RowKey, SeenRow]) -> None:
        """Prepares the first round: only rows that differ now are asked for, unless they are too many to be held."""
        if self.complete:
            self.asked = self._asked(found)
        self.complete = True

    def judge(self, found: dict[RowKey, SeenRow], quiet: bool) -> None:
        """Ends a round.  `quiet`: nothing was written at the source meanwhile, so a row that differs counts as a
        difference.
        """
        self.recheck.look(found, final=quiet or not self.complete)
        self.asked = self._asked(self.recheck.watched)

    def _asked(self, rows: Mapping[RowKey, SeenRow]) -> AskedRows:
        """Returns what to ask for: keys, unless they are many or one has no key that can be written."""
        buckets = tuple(sorted({seen.bucket for seen in rows.values()}))
        keys = self.cut.pair.canonical(rows) if len(rows) <= MOST_KEYS else ()
        return AskedRows(buckets, keys or self.cut.keys or ()) if buckets else AskedRows()

    def _note(self, bucket: Bucket, differs: dict[RowKey, SeenRow]) -> None:
        """Notes a row's place where it was seen first: rows that are asked for by key have none."""
        for image, place in (*bucket.target, *bucket.source):
            key = image[: self.cut.pair.key] if self.cut.pair.key else image
            if key in differs:
                self.places.setdefault(key, self._exact_place(key, place))

    def _exact_place(self, key: RowKey, place: float) -> float:
        low, high = self.cut.low, self.cut.high
        if low is None or high is None or high == low:
            return place
        return min(max((int(key[0]) - low) / (high - low), 0.0), 1.0)


class Verification:
    """One run over all tables.  `spark`: None where the plan needs none.  `note`: why the feed was not known to be up
    to date, or ''.
    """

    def __init__(
        self, feed: Feed, made: ReadingPlan, spark: SparkSession | None, wait_seconds: float, progress: VerifyProgress
    ) -> None:
        self.note = "" if has_run(feed) else "the feed has never run, so nothing was waited for"
        self._feed, self._plan = feed, made
        self._small = Small(made)
        self._passes = Passes(spark, made) if spark is not None else None
        self._wait_seconds, self._progress = wait_seconds, progress

    def _reading(self, cut: Cut) -> TableReading:
        if cut.small:
            return self._small
        assert self._passes is not None, "the plan needs Spark"
        return self._passes

    def judged(self) -> list[TableVerification]:
        """Compares all tables and returns them.  What Spark raises comes out as SparkFailed."""
        with _explained(), self._small:
            tables = [self._summed(cut) for cut in self._plan.tables]
            self._narrow([table for table in tables if table.asked])
            for _ in range(ROUNDS):
                asked = [table for table in tables if table.asked]
                if not asked:
                    break
                self._round(asked)
        return tables

    def tables(self) -> tuple[TableReport, ...]:
        """Compares all tables and returns their reports."""
        tables = self.judged()
        failed = asyncio.run(_failed_rows(self._feed)) if not self.note else {}
        return tuple(_report(table, failed) for table in tables)

    def _summed(self, cut: Cut) -> TableVerification:
        if cut.keys is not None:
            return TableVerification(cut, Sums(len(cut.keys), len(cut.keys), []), 0.0)
        begun = time.monotonic()
        self._progress.begin(VerifyStep("reading", str(cut.pair.name), cut.rows))
        sums = self._reading(cut).sums(cut)
        return TableVerification(cut, sums, time.monotonic() - begun)

    def _narrow(self, tables: Sequence[TableVerification]) -> None:
        """Leaves out rows that both servers only spell differently, and rows that were on their way while the sums were
        made.
        """
        for table in tables:
            frame = self._source_rows(table)
            table.narrow(table.collect(self._reading(table.cut).buckets(table.cut, frame, table.asked)))
            frame.unpersist()

    def _round(self, tables: Sequence[TableVerification]) -> None:
        before = source_position(self._feed)
        frames = [(table, self._source_rows(table)) for table in tables]
        applied = self._applied(source_position(self._feed))
        for table, frame in frames:
            begun = time.monotonic()
            self._progress.begin(VerifyStep("rechecking", str(table.cut.pair.name)))
            found = table.collect(self._reading(table.cut).buckets(table.cut, frame, table.asked))
            frame.unpersist()
            quiet = applied and before.order == source_position(self._feed).order
            table.judge(found, quiet)
            table.seconds += time.monotonic() - begun

    def _source_rows(self, table: TableVerification) -> Any:
        begun = time.monotonic()
        self._progress.begin(VerifyStep("rechecking", str(table.cut.pair.name)))
        frame = self._reading(table.cut).source_rows(table.cut, table.asked)
        table.seconds += time.monotonic() - begun
        return frame

    def _applied(self, position: Position) -> bool:
        """Returns whether the feed has passed `position`.  It is waited for, until it has failed to once."""
        if self.note:
            return False
        self._progress.begin(VerifyStep("waiting", until=f"for the feed to pass {position}"))
        seconds = self._wait_seconds + (IDLE_SECONDS if self._feed.source_url.dialect == "postgres" else 0)
        if not wait_until_applied(self._feed, position, seconds, self._progress.tell):
            self.note = (
                f"the feed has not passed {position}, where the source's log ended, within {seconds:g} s: "
                "is it running? (`tidelock status`)"
            )
        return not self.note


def verify(
    feed: Feed, tables: Sequence[str], wait_seconds: float, progress: VerifyProgress, when: str = ""
) -> VerifyReport:
    """Compares both sides.

    `tables`: source tables, all if empty.  `wait_seconds`: how long the feed may take to pass a position.  `when`: only
    rows that changed since (`adapters.verify.changed_keys`); '' all.  Raises NotComparable, BadReport, Refused,
    Missing, SparkFailed, SourceError, TargetError.
    """
    first = since(feed, when, datetime.now(UTC)) if when else None
    if first is not None:
        confirm_checkpoints(feed)  # the log tells what changed, if it is the feed's
    position = proven_position(feed, source_position(feed))
    made = asyncio.run(plan(feed, tables, _changed(feed, tables, first, position, progress) if first else None))
    if not made.tables:
        report = _told(feed, (), "", datetime.now(UTC), 0.0)
    else:
        with spark_for(feed, made, progress) as spark:
            report = examine(feed, made, spark, wait_seconds, progress)
    return msgspec.structs.replace(report, position=position, since=str(first.position) if first else "")


@contextlib.contextmanager
def spark_for(feed: Feed, made: ReadingPlan, progress: VerifyProgress) -> Iterator[SparkSession | None]:
    """Opens a session of Spark, where the plan needs one.

    Raises Missing, SparkFailed; also SparkFailed in place of an error inside the block that came because a database
    fell silent.
    """
    if not made.needs_spark:
        yield None
        return
    progress.begin(VerifyStep("starting Spark"))
    with session(feed.spark, feed.name) as spark, Vigil((feed.source_url, feed.target_url), end_java) as vigil:
        progress.attach(spark)
        try:
            yield spark
        except Exception:
            if vigil.silent:
                raise SparkFailed(vigil.silent) from None
            raise


def _changed(feed: Feed, tables: Sequence[str], first: Since, end: Position, progress: VerifyProgress) -> Changed:
    keys = {pair.name: pair.columns[: pair.key] for pair in asyncio.run(paired(feed, tables))}
    progress.begin(VerifyStep("reading the log"))
    return changed(feed, first, end, keys, progress.tell)


def examine(
    feed: Feed, made: ReadingPlan, spark: SparkSession | None, wait_seconds: float, progress: VerifyProgress
) -> VerifyReport:
    """Compares by a plan, in a session that is open, if one is needed.  Raises SparkFailed, SourceError, TargetError.
    """
    begun, clock, position = datetime.now(UTC), time.monotonic(), source_position(feed)
    run = Verification(feed, made, spark, wait_seconds, progress)
    tables = run.tables()
    return msgspec.structs.replace(_told(feed, tables, run.note, begun, time.monotonic() - clock), position=position)


def _told(feed: Feed, tables: tuple[TableReport, ...], note: str, begun: datetime, seconds: float) -> VerifyReport:
    return VerifyReport(
        feed=feed.name,
        source=str(feed.source_url),
        target=str(feed.target_url),
        begun=begun.isoformat(timespec="seconds"),
        seconds=round(seconds, 2),
        rows_per_second=round(sum(table.source_rows for table in tables) / max(seconds, 0.001)),
        settled=not note,
        note=note,
        tables=tables,
        format=FORMAT,
    )


def _report(table: TableVerification, failed: dict[str, int]) -> TableReport:
    pair, sums, judged = table.cut.pair, table.sums, table.recheck
    listed = [difference(pair, key, seen, table.places.get(key, 0.0)) for key, seen in judged.differences.items()]
    counts = {kind: sum(d.rows for d in listed if d.kind == kind) for kind in ("missing", "extra", "different")}
    matched = sums.source_rows - counts["missing"] - counts["different"] - judged.still_changing
    matched -= counts["extra"] if table.cut.keys is not None else 0
    return TableReport(
        table=str(pair.name),
        source=pair.source_names,
        columns=len(pair.columns),
        key=pair.columns[: pair.key],
        source_rows=sums.source_rows,
        target_rows=sums.target_rows,
        matched=max(matched, 0),
        **counts,
        still_changing=judged.still_changing,
        failed_rows=failed.get(str(pair.name), 0),
        pieces=table.cut.pieces,
        seconds=round(table.seconds, 2),
        complete=table.complete,
        differences=tuple(sorted(listed, key=lambda d: (d.place, d.kind))),
    )


async def _failed_rows(feed: Feed) -> dict[str, int]:
    async with feed_control.books(feed) as books:
        return {table.table: table.rows for table in await books.failed_tables()}


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Replaces Spark's error by its last cause, which is the database's, and not a page of Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise SparkFailed(f"Spark could not read the tables: {cause(error)}") from None
