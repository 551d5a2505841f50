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
