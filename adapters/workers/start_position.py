"""Finds where the log of a scaled-out feed begins, when it has no plan yet.

Where groups have worked before (an embedded run is group 0), it begins at the place that all of them have reached.
What they committed beyond that only their receipts know, and another division of the tables would pass it by: then they
must end cleanly first.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.adoption import proven
from tidelock.adapters.operator.first_place import first_place
from tidelock.adapters.operator.runs import read as read_run
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.way_out import COPY_ANEW
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sources import keeps_for_us, overview_of, start_of
from tidelock.engine.model.records import Position

_POSITION: Final = msgspec.json.Decoder(Position)


async def beginning(feed: Feed) -> Position:
    """Returns the place.  It is stored where a source keeps its log for each feed alone, or it was looked for by its
    time.  Raises SourceError, TargetError."""
    stood = await _where_groups_stand(feed)
    if stood is None:
        source = await asyncio.to_thread(overview_of, feed, first_run=True)
        if not (keeps_for_us(feed.source_url) or feed.starts_at_moment):
            return await proven(feed, start_of(feed, source))
        stood = await first_place(feed, source) or await _where_groups_stand(feed)
    if stood is None:
        raise TargetError(f"feed {feed.name} begins at a place that was removed again just now", "It is tried again")
    return await proven(feed, stood)


async def require_no_run(feed: Feed) -> None:
    """Raises TargetError while an embedded run of the feed is alive: it goes on behind the place that it stands at."""
    async with session(feed.target_url) as target:
        run = await read_run(target, feed.schema, feed.name)
    if run is not None and run.alive:
        raise TargetError(
            f"feed {feed.name} has no plan in Kafka, and is run by an embedded `tidelock run` {run}",
            "End that one in order first (SIGTERM, or it ends by itself where it is told `--until-caught-up`)",
        )


async def _where_groups_stand(feed: Feed) -> Position | None:
    """Returns the place that all groups have reached; None: none of them has worked."""
    async with session(feed.target_url) as target:
        books = f"{quote(target.dialect, feed.schema)}.tidelock_"
        stored = await target.fetch(f"SELECT grp, position FROM {books}checkpoint WHERE feed = %s", feed.name)
        receipts = await target.fetch(f"SELECT count(*) FROM {books}progress WHERE feed = %s", feed.name)
    if not stored:
        return None
    positions = {int(group): _POSITION.decode(words) for group, words in stored}
    begun = positions.pop(COORDINATOR, None)
    places = list(positions.values()) or ([begun] if begun else [])
    if receipts[0][0] or any(place.order != places[0].order for place in places):
        told = ", ".join(f"group {group} at {place}" for group, place in sorted(positions.items()))
        raise TargetError(
            f"feed {feed.name} has no plan in Kafka, and is in the middle of its work at {feed.target_url}: {told}",
            "End the embedded run cleanly first (`tidelock run FEED --until-caught-up`, with `log: embedded`). If it "
            f"was no embedded run, the feed's topics are lost: {COPY_ANEW}",
        )
    return places[0]
