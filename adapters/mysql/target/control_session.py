"""The session for what is not a lane's: one piece of work at a time, each of which leaves it outside any transaction.

What goes wrong becomes a `Failure` (`outcomes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelock.adapters.mysql.target.batch_script import BatchError
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import CONTROL, Fenced, Fencing, Outvoted
from tidelock.adapters.mysql.target.outcomes import outcome
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.engine.model.errors import Failure

Answer = TypeVar("Answer")


class ControlSession:
    """Opens its session when there is something to do.  `turn` is held by whoever works with it."""

    def __init__(self, fencing: Fencing) -> None:
        self.turn = asyncio.Lock()
        self.session: TargetSession | None = None
        self._fencing = fencing

    async def take_over(self) -> TargetSession:
        """Raise the epoch, with `turn` held; what `Fencing.take` returns and raises."""
        self.session = await self._fencing.take()
        return self.session

    async def do(self, work: Callable[[TargetSession], Awaitable[Answer]]) -> Answer | Failure:
        """Return what `work` returns; it may raise BatchError, Fenced, Outvoted and any of `SERVER_ERRORS`."""
        async with self.turn:
            try:
                if self.session is None or not self.session.alive:
                    self.session = await self._fencing.open(CONTROL)
                async with self.session.transaction():
                    return await work(self.session)
            except (BatchError, Fenced, Outvoted, *SERVER_ERRORS) as error:
                return outcome(error)

    def drop(self) -> None:
        """Cut the session off."""
        if self.session is not None:
            self.session.drop()
            self.session = None

    async def close(self) -> None:
        """Close the session in order."""
        if self.session is not None:
            await self.session.close()
            self.session = None
