"""A lane at a PostgreSQL target: its session waits until the server has let go of what it locked."""

from __future__ import annotations

from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.session_source import SessionSource
from tidelock.adapters.target.lane import BatchLane


class Lane(BatchLane[TargetSession]):
    """`left_open`: its session may be inside a transaction.  `replaces`: of which a statement may delete rows for
    others.  `displaced`: rows that its last batch has deleted for others and recorded."""

    def __init__(self, sessions: SessionSource) -> None:
        super().__init__(lambda: sessions.replace(self.session), (LostCommits, *SERVER_ERRORS))
        self.left_open = False
        self.replaces = False
        self.displaced = 0

    async def ready(self) -> TargetSession:
        """Return the session, outside any transaction.  Raises as `SessionSource.replace`."""
        await self._opened()
        if self.left_open:  # its work was cancelled from outside
            await self.leave()
        return await super().ready()

    async def leave(self) -> None:
        """Roll back what is open, whatever became of the connection."""
        self.held = False
        if self.session is not None:
            await self.session.rollback()
        self.left_open = self.replaces = False
        self.displaced = 0

    async def close(self) -> None:
        """Roll back what is open, and close the session in order."""
        await self.stop_opening()
        if self.left_open:
            await self.leave()
        if self.session is not None:
            await self.session.close()
        self.session, self.held = None, False
