"""From a feed's YAML to the parts of a run: mapping rules, options, the capture order, the sink."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.mysql.binlog.source import Source
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.process.frames import Order
from tidelock.engine.apply.machine import Options
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.capture.row_filter import Condition
from tidelock.engine.model.records import Position, TableName

BATCH_ROWS = 4000
ATOMIC_BATCH_ROWS = 1000  # all later transactions wait, open, for the first
COALESCE_ROWS = 256


def rules_of(feed: Feed) -> tuple[Rule, ...]:
    return tuple(
        Rule(
            source=rule.source,
            target=rule.target or rule.source,
            include=rule.columns.include,
            exclude=rule.columns.exclude,
            rename=rule.columns.rename,
            where=_where(rule.where),
        )
        for rule in feed.tables
    )


def _where(text: str) -> Condition | None:
    if not text:
        return None
    from tidelock.adapters.config.row_filter import parse_where

    return parse_where(text)


def start_of(feed: Feed, source: Source) -> Position:
    match feed.start_place:
        case "now":
            return source.now
        case "earliest":
            return source.earliest
        case position:
            return position


def options_of(feed: Feed, tables: Sequence[TableName], stream_idle_us: int | None = None) -> Options:
    """`tables`: the feed's target tables.  `stream_idle_us`: as the owner before said that this one should have it."""
    atomic = feed.consistency == "transaction"
    batch_rows = feed.batch_rows or (ATOMIC_BATCH_ROWS if atomic else BATCH_ROWS)
    weights = {name: weight for name in tables if (weight := _weight(feed, name))}
    options = Options(
        lanes=feed.lanes,
        batch_rows=batch_rows,
        min_rows_per_lane=_filled(batch_rows),
        coalesce_rows=COALESCE_ROWS,
        atomic=atomic,
        weights=weights,
    )
    return options if stream_idle_us is None else msgspec.structs.replace(options, stream_idle_us=stream_idle_us)


def _filled(batch_rows: int) -> int:
    """A tenth less than a batch may have: hashes share rows out unevenly, and a lane's rest would be a batch more."""
    return max(1, batch_rows * 9 // 10)


def _weight(feed: Feed, target: TableName) -> int:
    """Of the first rule that this target table may come from."""
    rules = (rule for rule in feed.tables if Pattern.of(rule.target or rule.source).matches(target))
    return next((rule.weight for rule in rules), 0)


def order_of(feed: Feed, start: Position, *, images: bool = False, further: Sequence[Position] = ()) -> Order:
    target = feed.target_url
    return Order(
        source=feed.source_url,
        server_id=feed.server_id,
        rules=rules_of(feed),
        own=feed.schema,
        node=f"{target.host}:{target.port}",
        start=start,
        images=images,
        further=tuple(further),
    )


def make_sink(feed: Feed, mapping: Mapping, group: int = 0, entry: Entry | None = None) -> Sink:
    """`entry`: the run's name, which its takeover leaves; workers have their own way to share a feed."""
    source = f"{feed.source_url.host}:{feed.source_url.port}"
    if feed.target_url.dialect == "postgres":
        from tidelock.adapters.postgres.target.sink import PostgresSink

        return PostgresSink(
            feed.target_url,
            feed.name,
            group,
            schema=feed.schema,
            lanes=feed.lanes,
            origin=source,
            path=source,
            zero_dates=feed.zero_dates,
            synchronous_commit=feed.synchronous_commit,
            target_name=mapping.target,
            eager=feed.log_url is None,  # workers' groups would hold sessions that they may never need
            entry=entry,
        )
    from tidelock.adapters.mysql.target.sink import MySqlSink

    return MySqlSink(
        feed.target_url,
        feed.name,
        group,
        schema=feed.schema,
        lanes=feed.lanes,
        origin=source,
        path=source,
        zero_dates=feed.zero_dates,
        target_name=mapping.target,
        eager=feed.log_url is None,
        entry=entry,
    )
