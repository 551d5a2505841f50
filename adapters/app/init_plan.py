"""`tidelock init`: makes the statements that a feed needs before its first run, only those that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tidelock.adapters.app.planned_statement import PlannedStatement
from tidelock.adapters.app.table_plan import table_plan
from tidelock.adapters.bookkeeping.tables import Lacking, statements_for
from tidelock.adapters.checks.feed import not_yet
from tidelock.adapters.checks.inspection import source_inspected
from tidelock.adapters.checks.source_inspection import SourceView
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.operator.stamps import lacking, stamped_tables
from tidelock.adapters.operator.upgrade import look, tables_of
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import CannotRun, Target
from tidelock.adapters.schema.stamped_table import StampedTable
from tidelock.adapters.wiring.inspection import opened
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sources import keeps_for_us
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName


async def init_plan(feed: Feed, indexes: bool = False) -> list[PlannedStatement]:
    """Returns the statements in the order to run them.  `indexes`: also for tables that are there.  Raises CannotRun
    where a side cannot be used, and TargetError, SourceError, LogError.
    """
    for finding in not_yet(feed):
        raise CannotRun(finding)
    if feed.target_url.scheme == "hive":
        return await _at_source(feed)
    topics = await _topics(feed)
    async with source_inspected(feed) as source, opened(feed.target_url) as target:
        view = source.view
        preparations = await source.preparations(await target.checkpoint(feed.schema, feed.name))
        return [
            *(PlannedStatement("source", p.sql, p.why, p.administrator, p.by_start) for p in preparations),
            *_grants(await target.bookkeeping(feed.schema, tables_of(feed))),
            *_grants(await _table_grants(feed, view, target)),
            *await _bookkeeping(feed, target),
            *await _source_bookkeeping(feed),
            *await table_plan(feed, source, target, indexes),
            *await _stamps(feed, view, target.dialect),
            *topics,
        ]


async def _at_source(feed: Feed) -> list[PlannedStatement]:
    """Returns what a feed to Hive needs at its source; the first run makes the rest.  Raises CannotRun where that is
    all."""
    if not keeps_for_us(feed.source_url):
        raise CannotRun(
            error("target-hive", "a run makes what it needs in Hive by itself", "See `tidelock check FEED`")
        )
    async with source_inspected(feed) as source:
        needed = [p for p in await source.preparations(None) if not p.by_start]
    return [PlannedStatement("source", p.sql, p.why, p.administrator) for p in needed]


async def _topics(feed: Feed) -> list[PlannedStatement]:
    if feed.log_url is None:
        return []
    from tidelock.adapters.checks.log import missing_topics  # with Kafka's client, which an embedded feed does without
    from tidelock.adapters.kafka.topics import look

    return [
        PlannedStatement("log", topic.command, f"topic {topic.name}", administrator=bool(topic.refusal))
        for topic in await missing_topics(feed, await look(feed.log_url, feed.name))
    ]


def _grants(findings: list[Finding]) -> list[PlannedStatement]:
    return [PlannedStatement("target", f.hint.rstrip(";"), f.message, administrator=True) for f in findings]


async def _table_grants(feed: Feed, view: SourceView, target: Target) -> list[Finding]:
    """Returns grants on the tables, also for tables that do not exist yet or that one of the two accounts cannot see.
    """
    wanted = [feed.target_name(name) for name in view.tables]
    there = await target.tables(wanted)
    coming = [Pattern.of(rule.target or rule.source) for rule in feed.tables if "*" in rule.source]
    to_come = [TableName(pattern.schema, pattern.table) for pattern in coming if "*" not in pattern.schema]
    unseen = [Pattern.of(rule.target or rule.source) for rule in feed.tables if "*" not in rule.source]
    single = [TableName(pattern.schema, pattern.table) for pattern in unseen]
    made = [name for name in dict.fromkeys((*wanted, *to_come, *single)) if name not in there]
    details = await target.details(wanted)
    of_tables = [f for d in details.values() for f in d.findings if f.kind == "target-grant"]
    return [*of_tables, *(f for f in await target.making(made) if f.kind == "target-grant")]


async def _bookkeeping(feed: Feed, target: Target) -> list[PlannedStatement]:
    lacking = await target.lacking(feed.schema, tables_of(feed))
    tables, columns = Lacking(lacking.tables, {}, lacking.schema), Lacking((), lacking.columns)
    made = [
        PlannedStatement("target", sql, "tidelock's own tables")
        for sql in statements_for(tables, target.dialect, feed.schema)
    ]
    foreign = not await target.may_add(feed.schema, columns)
    return made + [
        PlannedStatement("target", sql, "tidelock's own tables are of an older version", administrator=foreign)
        for sql in statements_for(columns, target.dialect, feed.schema)
    ]


async def _source_bookkeeping(feed: Feed) -> list[PlannedStatement]:
    """Returns what keeps the name of the source's site there, and the proof that the source logs receipts."""
    if feed.sites is None:
        return []
    async with session(feed.source_url) as source:
        lacking = await look(source, feed.schema)
        return [
            PlannedStatement("source", sql, "tidelock's own tables, with the site's name")
            for sql in statements_for(lacking, source.dialect, feed.schema)
        ]


async def _stamps(feed: Feed, view: SourceView, target: Dialect) -> list[PlannedStatement]:
    """Returns what tables with stamps lack at both sites."""
    tables = stamped_tables(feed, view.tables.values(), view.dialect, target)
    sides: tuple[tuple[Literal["source", "target"], Endpoint, Sequence[StampedTable]], ...] = (
        ("source", feed.source_url, tables.source),
        ("target", feed.target_url, tables.target),
    )
    made = []
    for side, place, of_side in sides:
        if of_side:
            async with session(place) as server:
                lacks = await lacking(server, of_side)
            made += [PlannedStatement(side, sql, lack.what) for lack in lacks for sql in lack.statements]
    return made
