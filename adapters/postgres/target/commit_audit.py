"""Commits that were reported, so that a crash of the server that loses some is noticed, or a failover that does.

A commit that does not wait for the disk can vanish after it was reported.  Whoever takes the feed over then finds the
receipt missing and applies the batch again, but an owner that lives on would never know.  A checkpoint and a takeover
wait for the disk, but not for a standby that is promoted, nor for a copy of the server that is put back.  What is lost
is lost from its end: so where the last checkpoint is there, all that it deleted was too, and only receipts since then
need a look of their own.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final

import asyncpg
import msgspec

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId

_STORED: Final = msgspec.json.Decoder(Position)


class LostCommits(Exception):
    """Raised where what was reported as committed is not there."""


class CommitAudit:
    """`left_at`: the last stored checkpoint.  `leaving`, `leaves_at`: receipts that a checkpoint deletes which is on
    its way or in doubt, and its position: they may be missing once that position is stored, and no earlier."""

    def __init__(self, bookkeeping: BookkeepingSql) -> None:
        self._bookkeeping = bookkeeping
        self._epoch = 0
        self._batches: dict[EffectId, None] = {}
        self._left_at: Position | None = None
        self._leaves_at: Position | None = None
        self._leaving: tuple[EffectId, ...] = ()
        self._sessions = 0

    def begin(self, epoch: int, checkpoint: Position) -> None:
        """Begin anew: the feed is ours, under this epoch and from this checkpoint on."""
        self._epoch = epoch
        self._batches.clear()
        self._left_at, self._leaves_at, self._leaving = checkpoint, None, ()

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

    def checkpoint_sent(self, position: Position, batches: Iterable[EffectId]) -> None:
        """Note that a checkpoint goes out that deletes these receipts, on a session that was verified."""
        self._leaves_at, self._leaving = position, tuple(batches)

    def checkpoint_stored(self) -> None:
        """Note that it is stored."""
        for batch in self._leaving:
            self._batches.pop(batch, None)
        self._left_at, self._leaves_at, self._leaving = self._leaves_at or self._left_at, None, ()

    async def verify(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Look at the target through a new session, before that is used.  Raises LostCommits."""
        self._sessions += 1
        if self._left_at is None:
            return
        allowed = [self._left_at, self._leaves_at]
        row = await connection.fetchrow(self._bookkeeping.missing(self._epoch, [i.counter for i in self._batches]))
        assert row is not None
        epoch, position = row["epoch"] or 0, row["position"] and _STORED.decode(row["position"])
        if not epoch or epoch > self._epoch:
            return  # the fence says so: the feed was taken over, or its bookkeeping is gone
        if epoch < self._epoch or position not in [*allowed, self._left_at, self._leaves_at]:
            raise LostCommits
        if position is not None and position == self._leaves_at:
            self.checkpoint_stored()
        missing = {EffectId(self._epoch, int(counter)) for counter in row["missing"].split(",") if counter}
        if missing & self._batches.keys():
            raise LostCommits
