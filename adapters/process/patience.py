"""Waits for the answer to a statement for as long as the server works on it.

A statement may take an hour, and a dead connection looks the same.  So after a silence the server is asked on a second
connection whether the session of the first still works.  Where it does not answer, or says twice that the session is
idle or gone, no answer is on its way, and the first connection is given up.  A fixed limit was tried and lost: short,
it cuts ALTER TABLE and the merge of a chunk; long, a proxy that forwards nothing stops a feed for that long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelock.adapters.process.second_look import SECOND_LOOK_SECONDS

log = logging.getLogger(__name__)


class Watch:
    """Watches one connection, one statement at a time, between `begin` and `end`.

    Only in between it refers to what it asks: so a session that is dropped is no circle, which would wait for the
    collector.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._works: Callable[[], Awaitable[bool]] | None = None
        self._give_up: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def begin(self, works: Callable[[], Awaitable[bool]], give_up: Callable[[], None]) -> None:
        """Starts to watch.  `works`: asks the server; an exception of it counts as no.  `give_up`: ends the connection,
        so that its waiter gets an error.
        """
        self._works, self._give_up = works, give_up
        self._rearm()

    def _rearm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._suspect)

    def end(self) -> None:
        """Ends the watch: the answer has come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        self._works = self._give_up = None

    def _suspect(self) -> None:
        self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        if await self._answers() or (await asyncio.sleep(SECOND_LOOK_SECONDS, True) and await self._answers()):
            self._rearm()
            return
        log.warning("no answer for %.0f s, and the server works on none: the connection is given up", self._seconds)
        if self._give_up is not None:
            self._give_up()

    async def _answers(self) -> bool:
        try:
            return self._works is not None and await self._works()
        except Exception as error:
            log.info("whether a session still works could not be asked: %s", error)
            return False
