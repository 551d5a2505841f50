"""Clocks of sites whose rows are compared by stamps: how far each is ahead of the slowest.

A clock that is wrong costs fairness alone: its site wins conflicts that it should not, or loses them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from tidelock.adapters.config.pair import Pair
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.operator.stamps import clock, stamps_of
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import session

_MICROSECONDS: Final = 1_000_000


async def ahead(pair: Pair) -> dict[str, float]:
    """Returns the seconds by site, exact to half of what a question takes; nothing of a pair without stamps, or of a
    site that cannot be asked."""
    places = {
        site: place
        for one in pair.feeds
        if stamps_of(one.feed) is not None
        for site, place in zip(one.ends, (one.feed.source_url, one.feed.target_url), strict=True)
    }
    found = dict(zip(places, await asyncio.gather(*map(_against_ours, places.values())), strict=True))
    known = {site: seconds for site, seconds in found.items() if seconds is not None}
    return {site: round(seconds - min(known.values()), 3) for site, seconds in known.items()}


async def _against_ours(place: Endpoint) -> float | None:
    """Returns how far a server's clock is ahead of this machine's."""
    try:
        async with session(place) as server:
            begun = time.time()
            told = await clock(server)
            return told / _MICROSECONDS - (begun + time.time()) / 2
    except TargetError:
        return None
