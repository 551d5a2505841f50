"""Gives a stored position without a proof the proof of the log that the source has now.

An older version stored it, or the feed begins here.  The proof is stored at once: until the next row comes, which may
take days, nothing else would show a log that was reset meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import TakenOver


async def proven(feed: Feed, place: Position) -> Position:
    """Returns the place with its proof; unchanged where the source cannot tell, which reading there then reports."""
    if place.proof:
        return place
    try:
        return await asyncio.to_thread(source_of(feed.source_url).witnessed, place)
    except SourceError:
        return place


async def adopted(feed: Feed, sink: Sink, taken: TakenOver, start: Position, tell: Callable[[str], None]) -> Position:
    """Returns the checkpoint with its proof, stored.  `tell`: reports it, where it is not the `start` that was given
    just now.
    """
    place = await proven(feed, taken.checkpoint)
    if place.proof and not taken.checkpoint.proof:
        await sink.save_checkpoint(SaveCheckpoint(EffectId(taken.epoch, 0), place, ()))
        if place != start:
            tell(told(feed, place))
    return place


def told(feed: Feed, place: Position) -> str:
    """Returns the message about a position that got its proof."""
    return (
        f"feed {feed.name}: the stored position {place} does not say which log it belongs to, as older versions stored "
        f"it; taken as a place of the log that {feed.source_url.host}:{feed.source_url.port} has now"
    )
