"""Tells whether the feed's changes topic is gone although the feed has a plan, and what then can be done.

A topic that somebody (or a broker that makes what it is asked for) has made anew has too few partitions.

Where every group's checkpoint is at one place, nothing that the topic held is missed: the publisher begins there again.
Where they differ, some groups lack what only the topic had in their order.
"""

from __future__ import annotations

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import control, topics
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.process.way_out import COPY_ANEW
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning


class LostLog(msgspec.Struct, frozen=True):
    """The changes topic is gone.  `places`: where each group of the plan stands.  `partitions`: of the topic that has
    been made in its place, 0 where there is none.
    """

    topic: str
    partitions: int
    plan: TablePartitioning
    places: dict[int, Position]

    @property
    def place(self) -> Position | None:
        """The place where all groups stand; None: they differ."""
        orders = {place.order for place in self.places.values()}
        return next(iter(self.places.values())) if len(orders) == 1 else None

    @property
    def alarm(self) -> Alarm:
        """Returns what an operator is told."""
        least = min(self.places.values(), key=lambda place: place.order)
        advice = (
            f"Every group stands at {self.place}: `tidelock resume FEED` makes the topic anew and publishes from there"
            if self.place is not None
            else f"Its groups stand at different places: {COPY_ANEW}"
        )
        instead = f": one of {self.partitions} partitions is in its place" if self.partitions else ""
        return Alarm(
            "log", f"the changes topic {self.topic} is gone, with all that it held{instead}", advice, str(least)
        )


async def lost_log(feed: Feed) -> LostLog | None:
    """Returns the loss, if there is one.  Raises LogError, TargetError."""
    there = (await topics.look(feed.log_url, feed.name)).changes
    partitions = there.partitions if there is not None else 0
    plan = (await control.read(feed)).plan
    if plan is None or partitions >= plan.partitions:
        return None
    async with books(feed) as book:
        stored = await book.checkpoints()
    places = {group: stored[group][0] if group in stored else plan.since[group] for group in range(plan.partitions)}
    return LostLog(topics.changes_topic(feed.name), partitions, plan, places)
