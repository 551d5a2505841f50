"""`tidelock pair status`: each feed of a pair in a few words."""

from __future__ import annotations

import asyncio

import msgspec

from tidelock.adapters.config.pair import Pair, PairFeed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.operator.feed_control import Status
from tidelock.adapters.pair.opening import Opening, opening
from tidelock.adapters.ports.sink import TargetError


class FeedOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A feed of a pair.  `opening`: '' before `init`.  `status`: None where its target cannot be asked, as `error`
    says."""

    feed: str
    source: str
    target: str
    opening: Opening = ""
    status: Status | None = None
    error: str = ""


async def overview(pair: Pair) -> list[FeedOverview]:
    """Returns all feeds, in the pair's order."""
    return list(await asyncio.gather(*map(_of_feed, pair.feeds)))


async def _of_feed(one: PairFeed) -> FeedOverview:
    source, target = one.ends
    try:
        seen, state = await asyncio.gather(feed_control.status(one.feed), opening(one))
    except TargetError as error:
        return FeedOverview(feed=one.name, source=source, target=target, error=f"{error}. {error.hint}")
    return FeedOverview(feed=one.name, source=source, target=target, opening=state, status=seen)
