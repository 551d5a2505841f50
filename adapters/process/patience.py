"""How long the answer to a statement is waited for: for ever, as long as the server works on it.

A statement may take an hour, and a silent wire sounds the same: so after a silence the server is asked on a second
connection whether the session of the first still works.  Where it does not answer, or says twice that the session rests
or is gone, no answer is on its way, and the first connection is given up.  A fixed limit lost: short, it cuts ALTER
TABLE and the merge of a chunk; long, a proxy that forwards nothing stops a feed for that long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

log = logging.getLogger(__name__)

SECOND_LOOK_SECONDS: Final = 1.0


class Watch:
    """Of one connection and one statement at a time: `begin`, `end`.  In between, and only then, it refers to what it
    asks: a session that is dropped is no circle, which would wait for the collector."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._works: Callable[[], Awaitable[bool]] | None = None
        self._give_up: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def begin(self, works: Callable[[], Awaitable[bool]], give_up: Callable[[], None]) -> None:
        """`works`: asks the server; what it raises is a no.  `give_up`: ends the connection, so that its waiter hears
        of it."""
        self._works, self._give_up = works, give_up
        self._rearm()

    def _rearm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._suspect)

    def end(self) -> None:
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
