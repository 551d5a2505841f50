"""Tells whether workers have the same `tables` in their files: one that coordinates publishes by its own, so with those
of another file rows would come or not, as who coordinates changes.
"""

from __future__ import annotations

import hashlib

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.membership import members
from tidelock.engine.protocol.group_reports import FeedState


class OtherTables(Exception):
    """The feed is coordinated by a worker whose file has other `tables`."""

    hint = (
        "Have one file on all machines: end all workers, put it on each, start them anew (where it takes more rows "
        "than before, `tidelock status FEED` says what is to be done)"
    )
    exit_code = 1

    def __init__(self, feed: Feed, coordinator: str) -> None:
        super().__init__(
            f"worker {coordinator}, which coordinates feed {feed.name}, has other `tables` in its file than this one"
        )


def digest(feed: Feed) -> str:
    """Returns what tells the `tables` of a feed's file from others."""
    return hashlib.blake2b(msgspec.msgpack.encode(feed.tables), digest_size=8).hexdigest()


async def refuse_other_tables(feed: Feed, state: FeedState | None) -> None:
    """Raises OtherTables before a worker joins others that run with other tables; LogError."""
    other = other_tables(feed, state) if state is not None else None
    if other is not None and await members(feed.log_url, feed.name):
        raise other


def other_tables(feed: Feed, state: FeedState) -> OtherTables | None:
    """Returns the error where the coordinator that told `state` has other tables; older ones do not tell."""
    return OtherTables(feed, state.worker) if state.tables and state.tables != digest(feed) else None
