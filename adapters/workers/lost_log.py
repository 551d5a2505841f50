"""Tells whether the feed's changes topic has lost the log that the feed has published, and what then can be done.

It has lost it where it is gone, where another topic has its name (fewer partitions, or another id), where retention
deleted what a group had not read, or where it ends before what all groups have: a broker lost records, or was put back
to an older state.  Then the source is published again from the least checkpoint, if it still has that:
`adapters.workers.new_log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import control, topics
from tidelock.adapters.kafka.topic_identity import replaced
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.ports.source_errors import SourceError, Unreachable
from tidelock.adapters.wiring.sources import source_of
from tidelock.engine.model.errors import RESYNC, Alarm
from tidelock.engine.model.lineage import server_of
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning


class LostLog(msgspec.Struct, frozen=True):
    """The log that is lost.  `places`: where each group of the plan stands.

    `instead`: what is in the topic's place, in words (`kafka.topic_identity`).  `cut`: partitions that no longer reach
    back to where their groups stand; none if it is the whole topic that is gone.  `short`: where the topic ends, in
    words, if that is before all groups.  `obstacle`: why it cannot be published again, in words; '' where nothing is
    known to be in the way.
    """

    topic: str
    plan: TablePartitioning
    places: dict[int, Position]
    instead: str = ""
    cut: dict[int, Position] = {}
    short: str = ""
    obstacle: str = ""

    @property
    def least(self) -> Position:
        """The place that is to be published from again."""
        return min(self.places.values(), key=lambda place: place.order)

    @property
    def alarm(self) -> Alarm:
        """Returns what an operator is told."""
        if self.short:
            return Alarm(
                "log",
                f"the changes topic {self.topic} ends at {self.short}, and its groups have applied more: its broker "
                "was put back to an older state, or has lost records",
                self._advice,
                str(self.least),
            )
        if not self.cut:
            return Alarm(
                "log",
                f"the changes topic {self.topic} is gone, with all that it held{self.instead}",
                self._advice,
                str(self.least),
            )
        told = ", ".join(f"partition {one} no longer reaches back to {at}" for one, at in sorted(self.cut.items()))
        return Alarm(
            "log",
            f"the changes topic {self.topic} lacks what its groups have not read: {told}; its retention (retention.ms, "
            "retention.bytes) was too short for how long they stood still",
            self._advice,
            str(self.least),
        )

    @property
    def _advice(self) -> str:
        if self.obstacle:
            return f"{self.obstacle}: {RESYNC}"
        if len({place.order for place in self.places.values()}) == 1:
            return f"Every group stands at {self.least}: `tidelock resume FEED` publishes again from there"
        return (
            f"`tidelock resume FEED` publishes again from {self.least}, the least checkpoint; groups that stand "
            "further on pass over what they have already"
        )


async def lost_log(feed: Feed) -> LostLog | None:
    """Returns the loss that the topic itself shows, if there is one.  Raises LogError, TargetError."""
    there = (await topics.look(feed.log_url, feed.name)).changes
    seen = await control.read(feed)
    instead = replaced(there, seen)
    return await lost(feed, seen.plan, instead) if instead is not None and seen.plan is not None else None


async def lost(
    feed: Feed,
    plan: TablePartitioning,
    instead: str = "",
    cut: Mapping[int, Position] = MappingProxyType({}),
    short: str = "",
) -> LostLog:
    """Returns the loss, with where the groups stand now.  Raises TargetError."""
    places = await places_of(feed, plan)
    obstacle = await _obstacle(feed, places)
    if short and len({place.order for place in places.values()}) > 1:
        obstacle = obstacle or _forgotten(places)
    return LostLog(topics.changes_topic(feed.name), plan, places, instead, dict(cut), short, obstacle)


async def places_of(feed: Feed, plan: TablePartitioning) -> dict[int, Position]:
    """Returns the checkpoint of each group of the plan, as the target has it; where its partition begins, if it has
    none.  Raises TargetError.
    """
    async with books(feed) as book:
        stored = await book.checkpoints()
    return {group: stored[group][0] if group in stored else plan.since[group] for group in range(plan.partitions)}


def _forgotten(places: dict[int, Position]) -> str:
    """Tells why groups at different places cannot go on: the plan may be as old as the topic, and give tables to groups
    that have not applied their rows."""
    return f"Which group had which tables is not known any more, and they stand at different places ({_told(places)})"


def _told(places: dict[int, Position]) -> str:
    return ", ".join(f"group {group} at {place}" for group, place in sorted(places.items()))


async def _obstacle(feed: Feed, places: dict[int, Position]) -> str:
    """Returns what keeps the source from being published again from the least place, in words."""
    if len({server for place in places.values() if (server := server_of(place.proof))}) > 1:
        return f"Its groups stand at places of different servers' logs ({_told(places)})"
    least = min(places.values(), key=lambda place: place.order)
    try:
        await asyncio.to_thread(source_of(feed.source_url).require_log_behind, least)
    except Unreachable:
        return ""
    except SourceError as error:
        return error.message
    return ""
