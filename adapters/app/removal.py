"""`tidelock remove`: what a feed has left at its source, in its log and at its target, and the statements that undo it.

The rows that it has replicated stay.  A PostgreSQL source comes first: a slot that nobody reads fills the server's
disk.  Its bookkeeping goes as a whole.  What is interrupted is done by another `remove`, which lists what is left.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.app.no_workers import still_workers
from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import SITES, TABLES, quote
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.copies import staged_tables
from tidelock.adapters.operator.runs import read
from tidelock.adapters.operator.store import Books
from tidelock.adapters.operator.upgrade import look
from tidelock.adapters.ports.finding import error
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.adapters.wiring.sources import keeps_for_us

_FAILED: Final = "tidelock_parked"


async def removal_plan(feed: Feed) -> list[PlannedStatement]:
    """Returns the statements in the order to run them.  Raises CannotRun while the feed runs; SourceError, TargetError,
    LogError."""
    if feed.target_url.scheme == "hive":
        return await _at_source(feed)
    if workers := await still_workers(feed, lambda _: None):
        raise CannotRun(error("feed-runs", workers, "End all of them (SIGTERM), then remove again"))
    async with session(feed.target_url) as target:
        there = await _bookkeeping(feed, target)
        async with source_inspected(feed) as source:
            removals = await source.removals()
    return [
        *(PlannedStatement("source", r.sql, r.why, r.administrator) for r in removals),
        *_log(feed),
        *there,
    ]


async def _at_source(feed: Feed) -> list[PlannedStatement]:
    """Returns what undoes a feed to Hive at a source that keeps its log for it.  Raises CannotRun for any other."""
    if not keeps_for_us(feed.source_url):
        raise CannotRun(error("target-hive", "a feed to Hive keeps its place beside the tables", "Delete its folder"))
    async with source_inspected(feed) as source:
        return [PlannedStatement("source", r.sql, r.why, r.administrator) for r in await source.removals()]


def _log(feed: Feed) -> list[PlannedStatement]:
    if feed.log_url is None:
        return []
    from tidelock.adapters.kafka.topics import changes_topic, control_topic

    command = f"kafka-topics.sh --bootstrap-server {','.join(feed.log_url.servers)} --delete --topic"
    return [
        PlannedStatement("log", f"{command} {topic}", f"topic {topic}")
        for topic in (changes_topic(feed.name), control_topic(feed.name))
    ]


async def _bookkeeping(feed: Feed, target: TargetSession) -> list[PlannedStatement]:
    lacking = await look(target, feed.schema)
    present = [table for table in TABLES if table not in lacking.tables and table != SITES]  # that is other feeds' too
    if "tidelock_runs" in present and "tidelock_runs" not in lacking.columns:
        run = await read(target, feed.schema, feed.name)
        if run is not None and run.alive:
            raise CannotRun(error("feed-runs", f"the feed {feed.name} runs, {run}", "End it first"))
    made = []
    for table in present:
        place = f"{quote(target.dialect, feed.schema)}.{table}"
        ((rows,),) = await target.fetch(f"SELECT count(*) FROM {place} WHERE feed = %s", feed.name)
        if rows:
            lost = f", whose {rows} failed rows are lost with it" if table == _FAILED else ""
            made.append(
                PlannedStatement("target", f"DELETE FROM {place} WHERE feed = '{feed.name}'", f"its bookkeeping{lost}")
            )
    staged = await _staged(feed, target) if "tidelock_owner" in present else []
    return [*staged, *_as_a_whole(made)]


def _as_a_whole(made: list[PlannedStatement]) -> list[PlannedStatement]:
    """Returns the statements as one transaction: a run that finds a checkpoint without its receipts applies rows twice,
    and one that finds chunks without a checkpoint takes its tables for copied."""
    if not made:
        return []
    begin = PlannedStatement("target", "BEGIN", "a part of the bookkeeping would mislead a run")
    return [begin, *made, PlannedStatement("target", "COMMIT", "its bookkeeping is gone")]


async def _staged(feed: Feed, target: TargetSession) -> list[PlannedStatement]:
    """Returns what drops the chunks of copies that a killed run has left."""
    book = Books(feed, target)
    groups = [group for group in await book.owners() if group != COORDINATOR]
    return [
        PlannedStatement("target", f"DROP TABLE IF EXISTS {book.table(quote(target.dialect, name))}", "copied chunks")
        for name in await staged_tables(book, groups)
    ]
