"""A lane at a MySQL or MariaDB target: its session holds a user lock, so that another can tell that it is gone."""

from __future__ import annotations

from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced, Fencing
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.target.lane import BatchLane


class Lane(BatchLane[TargetSession]):
    """`number`: the session's user lock (`Fencing.open`).  `replaced`: rows that the open transaction has deleted for
    others, for people."""

    def __init__(self, fencing: Fencing, number: int) -> None:
        super().__init__(lambda: fencing.open(number), (Fenced, *SERVER_ERRORS))
        self.number = number
        self.replaced: list[str] = []

    async def leave(self) -> None:
        """Roll back what is open.  The session is dropped where that fails."""
        self.held, self.replaced = False, []
        if self.session is not None and not await self.session.rollback():
            self.drop()

    def abandon(self) -> None:
        """Cut the session off: work on it was cut off, too."""
        self.drop()

    def drop(self) -> None:
        """Cut the session off; the server rolls back what is open when it notices."""
        if self.session is not None:
            self.session.drop()
        self.session = None
        self.held, self.replaced = False, []

    async def close(self) -> None:
        """Close the session in order, or cut it off where a batch is under way."""
        await self.stop_opening()
        if self.session is not None and not self.running and not self.held:
            await self.session.close()
        self.drop()
