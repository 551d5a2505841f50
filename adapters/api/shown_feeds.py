"""Feeds as the API shows them: a member of the fleet as plain data, without accounts and secrets."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from tidelock.adapters.api.answers import FeedWithConfig, ShownFeed
from tidelock.adapters.api.shown_config import shown_config
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.fleet.member import Member


def shown_feed(one: Member) -> ShownFeed:
    """Returns a feed as it is now."""
    feed, due = one.file.feed, one.due
    return ShownFeed(
        name=one.name,
        file=one.file.path.name,
        state=one.state,
        words=one.words,
        running=one.running,
        starts=one.starts,
        exit_code=one.code,
        retry_in=None if due is None else max(round(due - time.monotonic(), 1), 0.0),
        source="" if feed is None else _address(feed.source_url),
        target="" if feed is None else _address(feed.target_url),
        tables=() if feed is None else tuple(rule.source for rule in feed.tables),
        kind=_kind(feed),
        sample=one.sample,
    )


def with_config(one: Member) -> FeedWithConfig:
    """Returns a feed with the keys of its file."""
    config = shown_config(one.file.path) if one.file.feed is not None else None
    return FeedWithConfig(**msgspec.structs.asdict(shown_feed(one)), config=config)


def _kind(feed: Feed | None) -> Literal["run", "worker", "hive", ""]:
    if feed is None:
        return ""
    if feed.target_url.scheme == "hive":
        return "hive"
    return "run" if feed.log_url is None else "worker"


def _address(url: Endpoint) -> str:
    return str(msgspec.structs.replace(url, user="", password=""))
