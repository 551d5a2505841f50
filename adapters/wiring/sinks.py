"""The sink of a feed, whichever database its target is."""

from __future__ import annotations

from importlib import import_module

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.capture.mapping import Mapping


def load_sink(feed: Feed) -> None:
    """Imports what the feed's sink takes, while servers are waited for.  A log that is read from the past on begins
    with the statements that made its tables."""
    import_module(f"tidelock.adapters.{feed.target_url.dialect}.target.sink")
    if feed.starts_where_kept:
        import_module("tidelock.adapters.ddl.translate")


def make_sink(feed: Feed, mapping: Mapping, group: int = 0, entry: Entry | None = None) -> Sink:
    """`entry`: the run's name, which its takeover leaves; workers have their own way to share a feed."""
    source = f"{feed.source_url.host}:{feed.source_url.port}"
    options = SinkOptions(
        feed.name,
        group,
        schema=feed.schema,
        lanes=feed.lanes,
        origin=source,
        path=source,
        sites=feed.sites.as_rule if feed.sites else None,
        zero_dates=feed.zero_dates,
        synchronous_commit=feed.synchronous_commit,
        replace=feed.on_conflict == "replace",
        stamps=feed.conflicts is not None and feed.conflicts.stamp is not None,
        arbitrates=feed.direction == "up",
        displaces=feed.direction == "down",
        target_name=mapping.target,
        ddl=DdlRules(feed.ddl, feed.select),
        eager=feed.log_url is None,  # workers' groups would hold sessions that they may never need
        entry=entry,
    )
    if feed.target_url.dialect == "postgres":
        from tidelock.adapters.postgres.target.sink import PostgresSink

        return PostgresSink(feed.target_url, options)
    from tidelock.adapters.mysql.target.sink import MySqlSink

    return MySqlSink(feed.target_url, options)
