"""Announcements of the coordinator: news at once, positions twice a second, a sign of life now and then.

The feed's positions are never told lower than before, whoever told them.
"""

from __future__ import annotations

import msgspec

from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState

_POSITION_US = 500_000
_ALIVE_US = 5_000_000


class StatePublisher:
    """Decides when the feed's state is announced.

    `told`: the last announcement, of this coordinator or of the one before.  `told_at`: microseconds.
    """

    def __init__(self, told: FeedState | None) -> None:
        self.told = told
        self.told_at = 0

    def observe(self, now: int, feed: FeedState) -> FeedState | None:
        """Sees the feed as it is now; returns what is to be announced, None if nothing is yet.  `now`: microseconds."""
        before = self.told
        if before is None:
            return self._tell(now, feed)
        feed = msgspec.structs.replace(
            feed,
            resolved=_later(feed.resolved, before.resolved),
            checkpoint=_later(feed.checkpoint, before.checkpoint),
            published=_later(feed.published, before.published),
        )
        return self._tell(now, feed) if now - self.told_at >= _wait(feed, before) else None

    def _tell(self, now: int, feed: FeedState) -> FeedState:
        self.told, self.told_at = feed, now
        return feed


def _wait(feed: FeedState, before: FeedState) -> int:
    if feed == before:
        return _ALIVE_US
    moved = msgspec.structs.replace(
        before, resolved=feed.resolved, checkpoint=feed.checkpoint, published=feed.published
    )
    return _POSITION_US if feed == moved else 0


def _later(position: Position, before: Position) -> Position:
    return before if before.order > position.order else position
