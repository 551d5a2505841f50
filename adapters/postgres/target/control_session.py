"""A session for what is not a lane's: one piece of work at a time, each of which leaves it outside any transaction.

What goes wrong becomes a `Failure` (`outcomes`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.outcomes import outcome
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.session_source import SessionSource
from tidelock.engine.model.errors import Failure

Answer = TypeVar("Answer")


class ControlSession:
    """Opens its session when there is something to do."""

    def __init__(self, sessions: SessionSource) -> None:
        self._sessions = sessions
        self._session: TargetSession | None = None
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[object] | None = None
        self._used_at = 0.0

    async def do(self, work: Callable[[TargetSession], Awaitable[Answer]]) -> Answer | Failure:
        """Return what `work` returns; it may raise LostCommits and any of `SERVER_ERRORS`."""
        async with self._turn:
            self._task = asyncio.current_task()
            try:
                return await self._do(work)
            finally:
                self._task = None
                self._used_at = asyncio.get_running_loop().time()

    async def _do(self, work: Callable[[TargetSession], Awaitable[Answer]]) -> Answer | Failure:
        try:
            if self._session is None or not self._session.alive:
                self._session = await self._sessions.replace(self._session)
        except (LostCommits, *SERVER_ERRORS) as error:
            return outcome(error, committing=False)
        try:
            return await work(self._session)
        except (LostCommits, *SERVER_ERRORS) as error:
            await self._session.rollback()
            return outcome(error, committing=True)
        except BaseException:
            await self._session.rollback()
            raise

    def interrupt(self) -> None:
        """End what it is doing at once, with CancelledError for whoever waits for it."""
        if self._task is not None:
            self._task.cancel()

    async def rest(self, seconds: float) -> None:
        """Close a session that has not been used for `seconds`."""
        idle = asyncio.get_running_loop().time() - self._used_at
        if self._session is not None and not self._turn.locked() and idle >= seconds:
            await self.close()

    async def close(self) -> None:
        """Close the session, after what it is doing."""
        async with self._turn:
            if self._session is not None:
                await self._session.close()
                self._session = None
