"""Commits that were reported, so that a crash of the server that loses some is noticed.

A commit that does not wait for the disk can vanish after it was reported.  Whoever takes the feed over then finds the
receipt missing and applies the batch again, but an owner that lives on would never know.  The log is lost from its
end: a checkpoint waits for the disk, so all before a stored one is safe, and only receipts since then need a look.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

import asyncpg

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.engine.protocol.effects import EffectId


class LostCommits(Exception):
    """Raised where what was reported as committed is not there."""


class CommitAudit:
    """`leaving`, `left_at`: receipts that a checkpoint deletes which is on its way or in doubt, and its position.  They
    may be missing once that position is stored, and no earlier."""

    def __init__(self, bookkeeping: BookkeepingSql) -> None:
        self._bookkeeping = bookkeeping
        self._epoch = 0
        self._batches: dict[EffectId, None] = {}
        self._leaving: tuple[EffectId, ...] = ()
        self._left_at = ""
        self._sessions = 0

    def begin(self, epoch: int) -> None:
        """Begin anew: the feed is ours, under this epoch."""
        self._epoch = epoch
        self._batches.clear()
        self._leaving = ()

    def add(self, batch: EffectId) -> None:
        """Note that `batch` is reported as committed."""
        if batch.epoch == self._epoch:
            self._batches[batch] = None

    @contextlib.asynccontextmanager
    async def confirmed(self, session: TargetSession) -> AsyncIterator[None]:
        """Commit within the block.  Its answer is believed at once, unless a newer session was verified meanwhile.

        Then the commit's own server must still answer: a dead server's last words may come late, after that newer
        session missed them.  Raises one of `SERVER_ERRORS`.
        """
        sessions = self._sessions
        yield
        if self._sessions != sessions:
            await session.run(["SELECT 1"])

    def checkpoint_sent(self, position: str, batches: Iterable[EffectId]) -> None:
        """Note that a checkpoint goes out that deletes these receipts, on a session that was verified."""
        self._left_at, self._leaving = position, tuple(batches)

    def checkpoint_stored(self) -> None:
        """Note that it is stored."""
        for batch in self._leaving:
            self._batches.pop(batch, None)
        self._leaving = ()

    async def verify(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Look at the target through a new session, before that is used.  Raises LostCommits."""
        self._sessions += 1
        wanted = [i.counter for i in self._batches]
        if not wanted:
            return
        row = await connection.fetchrow(self._bookkeeping.missing(self._epoch, wanted))
        assert row is not None
        missing = {EffectId(self._epoch, counter) for counter in row["missing"]} & self._batches.keys()
        if missing and row["position"] == self._left_at:
            missing -= set(self._leaving)
            self.checkpoint_stored()
        if missing:
            raise LostCommits
