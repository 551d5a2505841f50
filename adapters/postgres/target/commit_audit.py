"""Which batches were reported as committed, so that a crash of the server that loses some is noticed.

A commit that does not wait for the disk can vanish after it was reported.  Whoever takes the feed over then finds the
receipt missing and applies the batch again, but an owner that lives on would never know.  The log is lost from its
end: a checkpoint waits for the disk, so all before a stored one is safe, and only receipts since then need a look.
"""

from __future__ import annotations

from collections.abc import Iterable

import asyncpg

from tidelock.adapters.postgres.target.bookkeeping_sql import Books
from tidelock.adapters.postgres.target.copy_text import Copy
from tidelock.adapters.postgres.target.session import Session
from tidelock.engine.protocol.effects import EffectId


class LostCommits(Exception):
    """Receipts reported as committed are not there."""


class Reported:
    """`leaving`, `left_at`: receipts that a checkpoint deletes which is on its way or in doubt, and its position.  They
    may be missing once that position is stored, and no earlier."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._epoch = 0
        self._batches: dict[EffectId, None] = {}
        self._leaving: tuple[EffectId, ...] = ()
        self._left_at = ""
        self._sessions = 0

    def begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._batches.clear()
        self._leaving = ()

    def add(self, batch: EffectId) -> None:
        if batch.epoch == self._epoch:
            self._batches[batch] = None

    async def run(self, session: Session, statements: Iterable[str | Copy]) -> None:
        """Run what ends with a commit.  An answer that arrives after a newer session was verified is believed only if
        its own server still answers: a dead server's last words may come late, after that newer session missed them.
        """
        sessions = self._sessions
        await session.run(statements)
        if self._sessions != sessions:
            await session.run(["SELECT 1"])

    def leave(self, position: str, batches: Iterable[EffectId]) -> None:
        """A checkpoint that deletes these receipts goes out, on a session that was verified."""
        self._left_at, self._leaving = position, tuple(batches)

    def left(self) -> None:
        """It is stored."""
        for batch in self._leaving:
            self._batches.pop(batch, None)
        self._leaving = ()

    async def verify(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """For every new session.  Raises LostCommits."""
        self._sessions += 1
        wanted = [i.counter for i in self._batches]
        if not wanted:
            return
        row = await connection.fetchrow(self._books.missing(self._epoch, wanted))
        assert row is not None
        missing = {EffectId(self._epoch, counter) for counter in row["missing"]} & self._batches.keys()
        if missing and row["position"] == self._left_at:
            missing -= set(self._leaving)
            self.left()
        if missing:
            raise LostCommits
