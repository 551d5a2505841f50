"""One lane's session and what it is busy with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced, Ownership
from tidelock.adapters.mysql.target.session import Session
from tidelock.engine.protocol.effects import EffectId

T = TypeVar("T")


class Lane:
    """One session, opened on first use or ahead of it (`opening`).  `number`: of its user lock.

    `last`: its last batch; `running`: whose `apply` runs; `held`: that waits for COMMIT; `interrupted`: whose rollback
    was asked meanwhile.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.session: Session | None = None
        self.opening: asyncio.Task[None] | None = None
        self.last: EffectId | None = None
        self.running = False
        self.held = False
        self.interrupted = False
        self.idle = asyncio.Event()
        self.idle.set()

    def open_ahead(self, owner: Ownership) -> None:
        """What goes wrong is told when the first batch opens the session again."""
        self.opening = asyncio.create_task(self._open_ahead(owner))

    async def _open_ahead(self, owner: Ownership) -> None:
        with contextlib.suppress(Fenced, *SERVER_ERRORS):
            self.session = await owner.open(self.number)

    async def opened(self) -> None:
        """Returns once no session is being opened ahead any more."""
        if self.opening is not None:
            await asyncio.wait([self.opening])
            self.opening = None

    async def stop_opening(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
            await self.opened()

    async def answer(self, work: Awaitable[T]) -> T:
        """Returns what the work of an effect answers; a rollback waits until it is `idle`.

        Raises CancelledError, the session dropped, where the work is cancelled or a rollback came meanwhile.
        """
        self.running = True
        self.interrupted = False
        self.idle.clear()
        try:
            found = await work
        except asyncio.CancelledError:
            self.drop()
            raise
        finally:
            self.running = False
            self.idle.set()
        if self.interrupted:
            self.drop()
            raise asyncio.CancelledError
        return found

    def drop(self) -> None:
        if self.session is not None:
            self.session.drop()
        self.session = None
        self.held = False
