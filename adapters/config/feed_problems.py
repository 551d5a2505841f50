"""Problems of the values of a feed whose keys are known, each as a path of keys and the words for it.

The reader of a feed stops at the first problem: a later one is told only where there is none before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tidelock.adapters.config import conflicts
from tidelock.adapters.config.feed import EMBEDDED, Columns, Feed
from tidelock.adapters.config.moments import start_moment
from tidelock.adapters.config.permit import LEAST_AFTER_US
from tidelock.adapters.config.rule_problems import Problem, rule_problems
from tidelock.engine.capture.pattern import Pattern

_START = re.compile(r"now|earliest|copy|gtid:.+|.+\.\d+:\d+")
_POSTGRES_START = re.compile(r"now|earliest|copy|[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^:\s]+):\d{1,5}")


def problems_of(feed: Feed, given: Collection[str]) -> Iterator[Problem]:
    """Yields the problems.  `given`: the keys that the document has."""
    yield from _unsupported(feed)
    yield from _values(feed)
    yield from _hive(feed, given)
    yield from _log(feed)
    yield from _sites(feed)
    yield from _permit(feed)
    yield from _conflicts(feed)
    yield from rule_problems(feed)


def _unsupported(feed: Feed) -> Iterator[Problem]:
    for key, url in (("source", feed.source_url), ("target", feed.target_url)):
        if url.scheme == "hive" and key == "source":
            yield (key,), "hive:// can only be a target"
        if url.scheme == "kafka":
            yield (key,), f"kafka:// is not supported as a {key} yet; it can hold the `log`"


def _values(feed: Feed) -> Iterator[Problem]:
    yield from _start(feed)
    if feed.http and not (_ADDRESS.fullmatch(feed.http) and int(feed.http.rpartition(":")[2]) < 65536):
        yield ("http",), f"{feed.http!r} is not HOST:PORT, for example 127.0.0.1:8470"
    for key, url in (("source", feed.source_url), ("target", feed.target_url)):
        if url.dialect == "postgres" and not url.database:
            yield (key,), "a PostgreSQL URL names its database: postgresql://user@host:5432/DATABASE"
    for key, url in (("source", feed.source_url), ("target", feed.target_url)):
        if not url.user and url.scheme != "hive":
            yield (key,), "the URL names no user: scheme://USER:password@host:port"

    for name in feed.spark.settings:
        if not name.startswith("spark."):
            yield ("spark", "settings", name), "Spark's settings begin with spark."

    if feed.verify == "version" and feed.on_conflict == "replace":
        words = "replace does not go with `verify: version`: an older row would take a newer one away"
        yield ("on_conflict",), words


def _start(feed: Feed) -> Iterator[Problem]:
    moment = start_moment(feed.start)
    if feed.source_url.dialect == "postgres":
        if moment is not None:
            yield ("start",), (
                "a PostgreSQL source keeps its log for the feed's own slot, from when that is made on, so none goes "
                "back to a time. Use copy, which has the rows that are there too, or now"
            )
        elif not _POSTGRES_START.fullmatch(feed.start):
            yield ("start",), f"{feed.start!r} is not now, copy, earliest, or an LSN such as 0/16B3748"
    elif moment is None and not _START.fullmatch(feed.start):
        known = "now, earliest, copy, FILE:OFFSET (log.000001:4), gtid:SET, a time (2026-11-20T12:00Z) or an age"
        yield ("start",), f"{feed.start!r} is not {known} (2h ago)"


def _hive(feed: Feed, given: Collection[str]) -> Iterator[Problem]:
    if feed.target_url.scheme != "hive":
        if "hive" in given:
            yield ("hive",), "these keys are for a target hive://…"
        return
    if feed.log_url is not None:
        yield ("log",), f"a Hive target is filled by one process: log: {EMBEDDED}"
    if feed.journal:
        yield ("journal",), "there is none of a Hive target"
    for key, default in (("verify", "off"), ("on_conflict", "dead_letter")):
        if getattr(feed, key) != default:
            yield (key,), f"a Hive target has no rows to look at; use {default}"
    if feed.http:
        yield ("http",), "a Hive target serves no metrics yet"
    if feed.traces is not None:
        yield ("traces",), "a Hive target is merged, and has no batches"
    if feed.throttle is not None:
        yield ("throttle",), "a Hive target is merged at its own pace: `hive: {merge_seconds: …}`"


def _log(feed: Feed) -> Iterator[Problem]:
    if feed.log_url is None:
        if feed.partitions:
            yield ("partitions",), "only a log in Kafka has partitions: log: kafka://host:port"
        return
    if feed.log_url.scheme != "kafka":
        yield ("log",), f"use {EMBEDDED} or kafka://host:port"
    if feed.consistency == "transaction" and feed.partitions > 1:
        yield ("partitions",), "consistency: transaction keeps all tables in one group, so use 1 or 0"


def _sites(feed: Feed) -> Iterator[Problem]:
    if feed.ddl.made_at is not None and feed.sites is None:
        yield ("ddl", "from"), "it names a site: `sites: {source: …, target: …}`"
    if feed.sites is None:
        return
    if feed.sites.source == feed.sites.target:
        yield ("sites", "target"), "the two sites have one name; each server has its own"
    if feed.sites.sister == feed.name:
        yield ("sites", "sister"), "that is this feed; the sister goes the other way"
    if feed.log_url is not None:
        yield ("sites",), f"feeds of workers cannot name sites yet: log: {EMBEDDED}"
    if feed.target_url.scheme == "hive":
        yield ("sites",), "nothing comes back from Hive: leave them out"


def _permit(feed: Feed) -> Iterator[Problem]:
    if feed.permit is None:
        return
    if feed.sites is None or not feed.sites.sister:
        yield ("permit",), "it watches the feed that goes the other way: `sites: {…, sister: NAME}`"
    if feed.permit.limits.after_us < LEAST_AFTER_US:
        yield ("permit", "after"), "a feed tells of itself once a second: at least 3s"


def _conflicts(feed: Feed) -> Iterator[Problem]:
    ends = (feed.source_url, feed.target_url)
    why = conflicts.untimed(*(ends if feed.direction == "down" else ends[::-1]))
    for i, rule in enumerate(feed.tables):
        for path, problem in conflicts.table_problems(rule.conflicts, feed.conflicts, why):
            yield ("tables", i, "conflicts", *path), problem
    if feed.conflicts is None:
        return
    for path, problem in conflicts.feed_problems(feed.conflicts, feed.sites):
        yield ("conflicts", *path), problem
    if feed.verify != "off":
        yield ("verify",), "a feed with `conflicts` looks at each row already: leave it out"
    if feed.on_conflict != "dead_letter":
        yield ("on_conflict",), "policies of `conflicts` say it: leave it out"
    if feed.consistency == "transaction":
        yield ("consistency",), "conflicts are decided row by row: use row"
    if feed.conflicts.stamp is not None:
        yield from _stamped(feed)


def _stamped(feed: Feed) -> Iterator[Problem]:
    if feed.copy.existing != "refuse":
        yield ("copy", "existing"), "rows with stamps are copied into empty tables alone: use refuse"
    for i, rule in enumerate(feed.tables):
        if rule.where:
            yield ("tables", i, "where"), "stamps compare whole tables: a row that leaves the filter has none"
        if rule.columns != Columns():
            yield ("tables", i, "columns"), "stamps are of whole rows: give all sites the same columns"
        if rule.target and not Pattern.of(rule.target).bound_to(Pattern.of(rule.source)):
            yield ("tables", i, "target"), "rows of several tables would share tombstones: use as many *"
