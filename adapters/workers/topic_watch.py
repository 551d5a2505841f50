"""Watches whether the control topic is the one that this worker reads: clients only wait for one that is gone.

With it goes the coordinator, who would notice that the changes topic is gone.  A worker that hears of no coordinator
asks; where the topic is not the one that it was, only a worker that begins anew can make it, or find another log.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.topics import Topic, control_topic, look

LOOK_SECONDS: Final = 20.0


class TopicWatch:
    """The watch of one worker."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._id = ""
        self._looked = 0.0

    async def begin(self) -> None:
        """Notes which topic there is.  Raises LogError."""
        there = await self._there()
        self._id, self._looked = there.id if there is not None else "", time.monotonic()

    async def gone(self, unheard: float) -> str:
        """Returns, in words, what has become of the topic; '' where it is there, or nobody can tell.

        `unheard`: seconds since a coordinator has spoken.
        """
        now = time.monotonic()
        if min(unheard, now - self._looked) < LOOK_SECONDS:
            return ""
        self._looked = now
        with contextlib.suppress(LogError):
            there = await self._there()
            if there is None:
                return f"the topic {control_topic(self._feed.name)} is gone from Kafka"
            if there.id != self._id:
                return f"another topic {control_topic(self._feed.name)} is in the place of the one that was read"
        return ""

    async def _there(self) -> Topic | None:
        return (await look(self._feed.log_url, self._feed.name)).control
