"""Bounds how fast a feed applies (`throttle` in its YAML): by rows a second, and by a figure that the target tells.

The machine is paused and let go on, as an operator would; what is in flight is finished, so the rate is one on average.
A figure that cannot be had counts as too great: the feed holds and says why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.throttle import FeedThrottle
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session
from tidelock.engine.apply.status import ApplyStatus

PACE_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 5.0


class Throttled(Protocol):
    """The shell of a machine."""

    def pace(self, resting: bool) -> None:
        """Has nothing more applied while `resting`: the rate would be too great."""

    def throttle(self, why: str) -> None:
        """Has nothing more applied; with '', goes on."""


class Pace:
    """A rate in rows a second.  What was not used of a second that is over is lost; what was too much is waited for."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._left = float(rate)
        self._rows, self._at = 0, 0.0

    def rests(self, rows: int, now: float) -> bool:
        """Takes the rows that are committed since the beginning, and the time; returns whether to rest."""
        if self._at:
            self._left = min(self._left + (now - self._at) * self._rate, float(self._rate))
        self._left -= rows - self._rows
        self._rows, self._at = rows, now
        return self._left < 0


class Throttle:
    """The throttle of one machine.  `status`: of it."""

    def __init__(self, feed: Feed, shell: Throttled, status: Callable[[], ApplyStatus | None]) -> None:
        self._feed, self._bounds = feed, feed.throttle or FeedThrottle()
        self._shell, self._status = shell, status

    async def run(self) -> None:
        """Goes on until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._bounds.max_rate:
                tasks.create_task(self._pace())
            if self._bounds.query:
                tasks.create_task(self._watch())

    async def _pace(self) -> None:
        pace = Pace(self._bounds.max_rate)
        while True:
            if (seen := self._status()) is not None:
                self._shell.pace(pace.rests(seen.rows, time.monotonic()))
            await asyncio.sleep(PACE_SECONDS)  # until the next look

    async def _watch(self) -> None:
        while True:
            try:
                async with session(self._feed.target_url) as target:
                    while True:
                        self._shell.throttle(await self._reason(target))
                        await asyncio.sleep(LOOK_SECONDS)  # until the next look
            except TargetError as error:
                self._shell.throttle(f"the throttle's query has no answer: {error}")
                await asyncio.sleep(AGAIN_SECONDS)  # back off, not synchronisation

    async def _reason(self, target: TargetSession) -> str:
        """Returns why to hold; '' where the figure is small enough."""
        rows, above = await target.fetch(self._bounds.query), self._bounds.above
        try:
            value = float(rows[0][0])
        except (IndexError, TypeError, ValueError):
            return f"the throttle's query gives no number, but {rows[0][0] if rows and rows[0] else 'no row'}"
        return f"the throttle's query gives {value:g}, above {above:g}" if value > above else ""
