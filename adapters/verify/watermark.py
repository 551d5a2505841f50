"""Finds out from the target's checkpoint whether the feed has applied everything that the source had at some moment.

Where no feed ever ran, the rows came here in some other way and there is nothing to wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator import feed_control
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import Position

POLL_SECONDS = 0.2


def source_position(feed: Feed) -> Position:
    """Returns the end of the source's log.  Raises SourceError."""
    return source_of(feed.source_url).end()[0]


def proven_position(feed: Feed, position: Position) -> Position:
    """Returns the end of the source's log with the proof of which log it is a place of, where the source still tells.
    """
    try:
        return source_of(feed.source_url).witnessed(position)
    except SourceError:
        return position


def confirm_checkpoints(feed: Feed) -> None:
    """Raises OtherHistory where the feed's checkpoint is of another log than the source's."""
    for place in asyncio.run(_checkpoints(feed)):
        source_of(feed.source_url).confirm(place)


async def _checkpoints(feed: Feed) -> list[Position]:
    with contextlib.suppress(TargetError):
        async with feed_control.books(feed) as books:
            return [place for place, _ in (await books.checkpoints()).values()]
    return []


def wait_until_applied(
    feed: Feed, position: Position, seconds: float, tell: Callable[[str], None] = lambda _: None
) -> bool:
    """Returns whether all groups of the feed have passed `position` within `seconds`.  `tell` is told where the last of
    them is.

    Raises TargetError.
    """
    return asyncio.run(_wait(feed, position, seconds, tell))


async def _wait(feed: Feed, position: Position, seconds: float, tell: Callable[[str], None]) -> bool:
    begun = time.monotonic()
    async with feed_control.books(feed) as books:
        while True:
            checkpoints = await books.checkpoints()
            places = [place for group, (place, _) in checkpoints.items() if group != COORDINATOR]
            if places and all(place.order >= position.order for place in places):
                return True
            if time.monotonic() - begun > seconds:
                return False
            tell(f"it is at {min(places, key=lambda place: place.order)}" if places else "it has applied nothing yet")
            await asyncio.sleep(POLL_SECONDS)


def has_run(feed: Feed) -> bool:
    """Returns whether the target knows the feed.  Raises TargetError when it cannot be reached."""
    return asyncio.run(_has_run(feed))


async def _has_run(feed: Feed) -> bool:
    from tidelock.adapters.wiring.session import session

    async with session(feed.target_url):
        pass  # an unreachable target is no feed that never ran
    with contextlib.suppress(TargetError):
        async with feed_control.books(feed) as books:
            return bool(await books.checkpoints())
    return False
