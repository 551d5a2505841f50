"""The sessions that write at a PostgreSQL target: prepared for receipts, and opened only where no commit is lost."""

from __future__ import annotations

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.commit_audit import CommitAudit
from tidelock.adapters.postgres.target.session import SessionSettings, TargetSession
from tidelock.adapters.process.gc_tuning import cut


class SessionSource:
    """Opens sessions that can write receipts."""

    def __init__(self, settings: SessionSettings, bookkeeping: BookkeepingSql, audit: CommitAudit) -> None:
        self._settings = settings
        self._bookkeeping = bookkeeping
        self._audit = audit

    async def replace(self, before: TargetSession | None) -> TargetSession:
        """Open a session; `before` is given up first, and gone at the server.

        Raises LostCommits, one of `SERVER_ERRORS`.
        """
        if before is not None:
            await before.discard()
        session = await TargetSession.open(self._settings)
        try:
            await session.run(self._bookkeeping.prepare())
            await self._audit.verify(session.connection)
        except BaseException as error:
            session.connection.terminate()
            cut(error)
            raise
        return session
