"""Asks the target every few seconds whether it answers, on a session of its own: groups may be idle for hours, and
those that work may wait for a lock.  A failure here halts nothing: it shows in `silent_seconds`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.process.ending import ended

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 10.0
LOCK_SECONDS: Final = 5


class TargetWatch:
    """Asks the target while it is open; an async context manager."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._answered = time.monotonic()
        self._ask: Callable[[], Awaitable[object]] | None = None
        self._cut: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    @property
    def silent_seconds(self) -> float:
        """Seconds since the target last answered."""
        return max(0.0, time.monotonic() - self._answered - ASK_SECONDS)

    async def __aenter__(self) -> TargetWatch:
        self._answered = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._go_on())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        await ended(self._task)

    async def _go_on(self) -> None:
        failing = False
        try:
            while True:
                try:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await (self._ask or await self._opened())()
                    self._answered, failing = time.monotonic(), False
                except Exception as error:  # whatever the driver raises
                    self._drop()
                    if not failing:
                        log.warning("%s does not answer: %s", self._target, str(error) or type(error).__name__)
                    failing = True
                await asyncio.sleep(ASK_SECONDS)
        finally:
            self._drop()

    async def _opened(self) -> Callable[[], Awaitable[object]]:
        if self._target.dialect == "postgres":
            from tidelock.adapters.postgres.target.session import SessionSettings

            connection = await SessionSettings(self._target, "tidelock worker", False, LOCK_SECONDS).connect()
            self._ask, self._cut = lambda: connection.execute("SELECT 1"), connection.terminate
        else:
            from tidelock.adapters.mysql.target.session import open_session

            session = await open_session(self._target, LOCK_SECONDS)
            self._ask, self._cut = lambda: session.run([b"SELECT 1", b"COMMIT"]), session.drop
        return self._ask

    def _drop(self) -> None:
        """Closes the connection without telling the server, which may not answer."""
        cut, self._cut, self._ask = self._cut, lambda: None, None
        with contextlib.suppress(Exception):
            cut()
