"""The control topic of a feed, followed in a thread of its own: what a screen of `tidelock status` would show.

Every state of the feed is compared with the one before it: a checkpoint or watermark that goes back is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Final, Self

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import ControlTopic, News, SeenControl
from tidelock.adapters.kafka.topics import look
from tidelock.engine.protocol.group_reports import FeedState

AGAIN_SECONDS: Final = 0.2


class Watch:
    """Context manager.  `states`: how many of the feed were seen; `backward`: (before, after) of each regress."""

    def __init__(self, feed: Feed) -> None:
        self.states = 0
        self.backward: list[tuple[FeedState, FeedState]] = []
        self._feed = feed
        self._topic: ControlTopic | None = None
        self._last: FeedState | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="control topic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def seen(self) -> SeenControl:
        return self._topic.seen if self._topic is not None else SeenControl()

    def _run(self) -> None:
        self._loop.run_until_complete(self._follow())

    async def _follow(self) -> None:
        while not await self._there():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), AGAIN_SECONDS)
            if self._stop.is_set():
                return
        async with ControlTopic(self._feed) as topic:
            self._topic = topic
            topic.watch(self._hear)
            await self._stop.wait()

    async def _there(self) -> bool:
        """The first worker makes the topic."""
        with contextlib.suppress(LogError):
            return (await look(self._feed.log_url, self._feed.name)).control is not None
        return False

    def _hear(self, news: News) -> None:
        if not isinstance(news, FeedState):
            return
        before, self._last = self._last, news
        self.states += 1
        if before is not None and (
            news.checkpoint.order < before.checkpoint.order or news.resolved.order < before.resolved.order
        ):
            self.backward.append((before, news))
