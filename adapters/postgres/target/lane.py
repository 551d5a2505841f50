"""One lane's session and what it is busy with."""

from __future__ import annotations

import asyncio
import contextlib

from tidelock.adapters.postgres.target.bookkeeping_sql import Books
from tidelock.adapters.postgres.target.commit_audit import LostCommits, Reported
from tidelock.adapters.postgres.target.failures import CONNECTION_ERRORS
from tidelock.adapters.postgres.target.session import Session, SessionSettings
from tidelock.adapters.process.gc_tuning import cut
from tidelock.engine.protocol.effects import EffectId


class SessionSource:
    """Opens sessions that can write receipts, and only where no reported commit is missing."""

    def __init__(self, settings: SessionSettings, books: Books, reported: Reported) -> None:
        self._settings = settings
        self._books = books
        self._reported = reported

    async def replace(self, before: Session | None) -> Session:
        """`before` is given up first, and gone at the server.  Raises LostCommits, one of `CONNECTION_ERRORS`."""
        if before is not None:
            await before.discard()
        session = await Session.open(self._settings)
        try:
            await session.run(self._books.prepare())
            await self._reported.verify(session.connection)
        except BaseException as error:
            session.connection.terminate()
            cut(error)
            raise
        return session


class Lane:
    """`batch`, `task`: what runs or is held on it.  `left_open`: its session may be inside a transaction."""

    def __init__(self, sessions: SessionSource) -> None:
        self._sessions = sessions
        self.session: Session | None = None
        self.batch: EffectId | None = None
        self.task: asyncio.Task[object] | None = None
        self.ended = asyncio.Event()
        self.left_open = False
        self._opening: asyncio.Task[None] | None = None

    def open_ahead(self) -> None:
        """Begin to open the session before there is a batch; `ready` waits for it, and tells what goes wrong."""
        self._opening = asyncio.create_task(self._open_ahead())

    async def _open_ahead(self) -> None:
        with contextlib.suppress(LostCommits, *CONNECTION_ERRORS):
            self.session = await self._sessions.replace(self.session)

    async def ready(self) -> Session:
        """A session outside any transaction.  Raises as `SessionSource.replace`."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
            self._opening = None
        if self.left_open:  # its apply was cancelled from outside
            await self.leave()
        if self.session is None or not self.session.alive:
            self.session = await self._sessions.replace(self.session)
        return self.session

    async def leave(self) -> None:
        """Out of the transaction, whatever became of the connection."""
        if self.session is not None:
            await self.session.rollback()
        self.left_open = False

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            self._opening = None
        if self.left_open:
            await self.leave()
        if self.session is not None:
            await self.session.close()
        self.session, self.batch = None, None
