"""Options of an apply machine, from a feed's YAML: lanes, the size of batches, atomic or not, the order of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.conflict_options import CommitClock, TableWords
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import TableName
from tidelock.engine.model.stamp_columns import StampColumns

BATCH_ROWS = 4000
ATOMIC_BATCH_ROWS = 1000  # all later transactions wait, open, for the first
COALESCE_ROWS = 256
# Of a source whose log holds our own checkpoints too, where we write into it: two idle feeds that store each other's
# would wake each other as often.
IDLE_CHECKPOINT_US = 60_000_000
IDLE_CHECKPOINT_BYTES = 64 << 20


def options_of(
    feed: Feed,
    tables: Sequence[TableName],
    stream_idle_us: int | None = None,
    left_behind: tuple[TableName, ...] = (),
) -> Options:
    """`tables`: the feed's target tables.  `stream_idle_us`: as the owner before said that this one should have it.
    `left_behind`: as in the options."""
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
        verify=feed.verify,
        versions={name: column for name in tables if (column := version_of(feed, name))},
        replace=feed.on_conflict == "replace",
        left_behind=left_behind,
    )
    if feed.conflicts is not None and feed.conflicts.stamp is not None:
        stamp = feed.conflicts.stamp
        options = msgspec.structs.replace(options, stamp=StampColumns(stamp.time, stamp.site))
    elif feed.conflicts is not None:
        clock = CommitClock(feed.sites.source, feed.sites.target) if feed.sites and feed.direction == "up" else None
        policies = policies_of(feed, tables)
        options = msgspec.structs.replace(options, direction=feed.direction, policies=policies, clock=clock)
    if feed.sites is not None:
        options = msgspec.structs.replace(options, coalesce_rows=0)  # a table waits for changes of one origin alone
    if feed.source_url.dialect == "postgres" or feed.sites is not None:
        options = msgspec.structs.replace(
            options, idle_checkpoint_us=IDLE_CHECKPOINT_US, idle_checkpoint_bytes=IDLE_CHECKPOINT_BYTES
        )
    return options if stream_idle_us is None else msgspec.structs.replace(options, stream_idle_us=stream_idle_us)


def _filled(batch_rows: int) -> int:
    """A tenth less than a batch may have: hashes share rows out unevenly, and a lane's rest would be a batch more."""
    return max(1, batch_rows * 9 // 10)


def _weight(feed: Feed, target: TableName) -> int:
    """Returns the weight of the first rule that this target table may come from."""
    return next((rule.weight for rule in _rules(feed, target)), 0)


def version_of(feed: Feed, target: TableName) -> str:
    """Returns the version column of the first rule that this target table may come from; '' where it has none."""
    return next((rule.version for rule in _rules(feed, target)), "")


def policies_of(feed: Feed, tables: Iterable[TableName]) -> dict[TableName, TableWords]:
    """Returns the policies of target tables, by the first rule that each may come from; none without an arbiter."""
    if feed.conflicts is None:
        return {}
    found = ((name, next(_rules(feed, name), None)) for name in tables)
    return {name: feed.conflicts.of(rule.conflicts) for name, rule in found if rule is not None}


def _rules(feed: Feed, target: TableName) -> Iterator[TableRule]:
    return (rule for rule in feed.tables if Pattern.of(rule.target or rule.source).matches(target))
