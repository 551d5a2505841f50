"""`tidelock check`: judges a feed by the kind of its target, a database or a Hive warehouse."""

from __future__ import annotations

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.finding import CheckReport


async def check(feed: Feed) -> CheckReport:
    """Lists everything that can be known before a first run."""
    if feed.target_url.scheme == "hive":
        from tidelock.adapters.hive.checking import check as check_warehouse

        return await check_warehouse(feed)
    from tidelock.adapters.checks.feed import check as check_databases

    return await check_databases(feed)
