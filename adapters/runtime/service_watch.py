"""Gives the service manager signs of life of a feed, as long as its apply loops make turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from tidelock.adapters.process.service_manager import ServiceManager


class Turning(Protocol):
    """A loop.  `turns`: how many it has made.  `turning`: it has begun and not ended."""

    @property
    def turns(self) -> int: ...

    @property
    def turning(self) -> bool: ...


class ServiceWatch:
    """The watch on all loops of a process.  While none runs (servers are waited for, the feed is taken over), the event
    loop that the watch itself runs in is what is alive."""

    def __init__(self, manager: ServiceManager, loops: Callable[[], Iterable[Turning]]) -> None:
        self._manager, self._loops = manager, loops
        self._seen: dict[int, int] = {}  # by identity: a loop that is over is not kept, with the rows that it held

    async def run(self) -> None:
        """Looks until it is cancelled; returns at once where the manager asks for no signs of life."""
        while self._manager.beat_seconds is not None:
            self.look()
            await asyncio.sleep(self._manager.beat_seconds)

    def look(self) -> None:
        """Gives a sign of life, unless a loop has made no turn since the last look."""
        now = {id(loop): loop.turns for loop in self._loops() if loop.turning}
        stuck = any(self._seen.get(loop) == turns for loop, turns in now.items())
        self._seen = now
        if not stuck:
            self._manager.alive()
