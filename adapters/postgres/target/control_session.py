"""A session for one piece of work at a time, each of which leaves it outside of any transaction.

What goes wrong becomes a `Failure`: a newer owner, commits that the server lost, votes that do not hold, or the
server's own words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tidelock.adapters.postgres.target.bookkeeping_sql import Books
from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import CONNECTION_ERRORS, failure_of
from tidelock.adapters.postgres.target.lane import SessionSource
from tidelock.adapters.postgres.target.session import Session
from tidelock.engine.model.errors import ErrorKind, Failure

Answer = TypeVar("Answer")

FENCED = Failure(ErrorKind.FENCED, "a newer owner has taken the feed over")
OUTVOTED = Failure(ErrorKind.TRANSIENT, "a group has a newer owner than the one that voted for the statement")
LOST = Failure(
    ErrorKind.COMMITS_LOST,
    "the target lost transactions it had reported as committed (a crash or a failover)",
)


class Clerk:
    """Opens its session when there is something to do."""

    def __init__(self, sessions: SessionSource, books: Books) -> None:
        self._sessions = sessions
        self._books = books
        self._session: Session | None = None
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[object] | None = None
        self._used_at = 0.0

    async def do(self, work: Callable[[Session], Awaitable[Answer]]) -> Answer | Failure:
        """`work` may raise LostCommits and any of `CONNECTION_ERRORS`."""
        async with self._turn:
            self._task = asyncio.current_task()
            try:
                return await self._do(work)
            finally:
                self._task = None
                self._used_at = asyncio.get_running_loop().time()

    async def _do(self, work: Callable[[Session], Awaitable[Answer]]) -> Answer | Failure:
        try:
            if self._session is None or not self._session.alive:
                self._session = await self._sessions.replace(self._session)
        except LostCommits:
            return LOST
        except CONNECTION_ERRORS as error:
            return failure_of(error)
        try:
            return await work(self._session)
        except LostCommits:
            await self._session.rollback()
            return LOST
        except CONNECTION_ERRORS as error:
            await self._session.rollback()
            if self._books.is_outvoted(error):
                return OUTVOTED
            return FENCED if self._books.is_fenced(error) else failure_of(error, committing=True)
        except BaseException:
            await self._session.rollback()
            raise

    def interrupt(self) -> None:
        """What it is doing ends at once, with CancelledError for whoever waits for it."""
        if self._task is not None:
            self._task.cancel()

    async def rest(self, seconds: float) -> None:
        """Close a session that has not been used for so long."""
        idle = asyncio.get_running_loop().time() - self._used_at
        if self._session is not None and not self._turn.locked() and idle >= seconds:
            await self.close()

    async def close(self) -> None:
        """After what it is doing."""
        async with self._turn:
            if self._session is not None:
                await self._session.close()
                self._session = None
