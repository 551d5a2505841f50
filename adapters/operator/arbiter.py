"""Has both feeds of a pair name one arbiter of conflicts.

Two feeds that both take the other site for the arbiter, or of which one decides and the other one overwrites, would
make rows unequal and say nothing.  So the first feed that names an arbiter leaves its name in `tidelock_site`, at the
site whose name comes first, in the row of the other site; from then on every run compares.
"""

from __future__ import annotations

from tidelock.adapters.bookkeeping.tables import SITES, quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.sites import SiteRefused
from tidelock.adapters.wiring.session import session

_NO_ARBITER = "*"  # stamps decide


async def require_times(feed: Feed) -> None:
    """Raises SiteRefused where `latest` is to compare the times of commits and the arbiter does not keep them;
    TargetError."""
    if feed.direction != "up" or feed.conflicts is None:
        return
    if not any(feed.conflicts.of(rule.conflicts).by_time for rule in feed.tables):
        return
    async with session(feed.target_url) as server:
        ((kept,),) = await server.fetch("SELECT current_setting('track_commit_timestamp')")
    if kept != "on":
        raise SiteRefused(
            f"the feed {feed.name} compares times of commits (`latest` without a version column), and "
            f"{feed.target_url} does not keep them",
            "Set track_commit_timestamp = on there and restart the server, or name a column (`conflicts: {version: "
            "COLUMN}`)",
        )


async def agree(feed: Feed) -> None:
    """Notes who decides between a feed's sites, or compares; both sites are bound.  Raises SiteRefused, TargetError."""
    sites = feed.sites
    if sites is None or not sites.sister:
        return
    said = (feed.conflicts.arbiter or _NO_ARBITER) if feed.conflicts is not None else ""
    at_source = sites.source < sites.target
    place, other = (feed.source_url, sites.target) if at_source else (feed.target_url, sites.source)
    async with session(place) as server:
        table = f"{quote(server.dialect, feed.schema)}.{SITES}"
        if said:
            await server.execute(f"UPDATE {table} SET arbiter = %s WHERE site = %s AND arbiter IS NULL", said, other)
        ((known,),) = await server.fetch(f"SELECT arbiter FROM {table} WHERE site = %s", other)
    if known is not None and known != said:
        raise SiteRefused(
            f"the feed {feed.name} {_words(said)}, and between {sites.source} and {sites.target} another feed "
            f"{_words(str(known))}",
            "Have both feeds say the same (`conflicts`). To change it for both, stop both, run at "
            f"{place}: UPDATE {table} SET arbiter = NULL WHERE site = '{other}', then start both with the new words",
        )


def _words(said: str) -> str:
    if not said:
        return "decides no conflicts"
    return "has stamps decide conflicts" if said == _NO_ARBITER else f"names {said} as arbiter"
