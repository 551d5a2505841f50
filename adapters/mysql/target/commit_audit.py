"""Commits that were reported, so that a crash of the server that loses some is noticed, or a failover that does.

With `innodb_flush_log_at_trx_commit` other than 1 a commit can vanish after it was reported, and so can a checkpoint or
a takeover.  Whoever takes the feed over then finds what there is and goes on from it, but an owner that lives on would
never know.  The log is lost from its end, and what was sent after an answer is behind what was answered: so where the
last checkpoint is there, all that it deleted was too, and only receipts since then need a look of their own.

PostgreSQL's checkpoints wait for the disk (`adapters.postgres.target.commit_audit`); here nothing does.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec

from tidelock.adapters.mysql.target.fencing import Fenced, Fencing
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId

_EPOCH, _POSITION, _BATCH = 0, 1, 2
_STORED: Final = msgspec.json.Decoder(Position)


class LostCommits(Fenced):
    """Raised where what was reported as committed is not there."""


class CommitAudit:
    """`left_at`: the last stored checkpoint.  `leaving`, `leaves_at`: receipts that a checkpoint deletes which is on
    its way or in doubt, and its position: they may be missing once that position is stored, and no earlier."""

    def __init__(self, fencing: Fencing) -> None:
        self._fencing = fencing
        self._batches: dict[EffectId, None] = {}
        self._left_at: Position | None = None
        self._leaves_at: Position | None = None
        self._leaving: tuple[EffectId, ...] = ()
        self._sessions = 0

    def begin(self, checkpoint: Position) -> None:
        """Begin anew: the feed is ours, from this checkpoint on."""
        self._batches.clear()
        self._left_at, self._leaves_at, self._leaving = checkpoint, None, ()

    def add(self, batch: EffectId) -> None:
        """Note that `batch` is reported as committed."""
        if batch.epoch == self._fencing.epoch:
            self._batches[batch] = None

    def checkpoint_sent(self, position: Position, batches: Iterable[EffectId]) -> None:
        """Note that a checkpoint goes out that deletes these receipts, on a session that was verified."""
        self._leaves_at, self._leaving = position, tuple(batches)

    def checkpoint_stored(self, position: Position, batches: Iterable[EffectId]) -> None:
        """Note that it is stored."""
        for batch in batches:
            self._batches.pop(batch, None)
        self._left_at, self._leaves_at, self._leaving = position, None, ()

    @contextlib.asynccontextmanager
    async def confirmed(self, session: TargetSession) -> AsyncIterator[None]:
        """Commit within the block.  Its answer is believed at once, unless a newer session was verified meanwhile.

        Then the commit's own server must still answer: a dead server's last words may come late, after that newer
        session missed them.  Raises StatementFailed.
        """
        sessions = self._sessions
        yield
        if self._sessions != sessions:
            await session.ask("SELECT 1")

    async def verify(self, session: TargetSession) -> None:
        """Look at the target through a new session, before that is used.  Raises LostCommits."""
        self._sessions += 1
        if self._left_at is None:
            return
        wanted = tuple(self._batches)
        allowed = [self._left_at, self._leaves_at]
        epoch, position, found = await self._stored(session)
        if epoch > self._fencing.epoch:
            return  # the fence says so
        if epoch < self._fencing.epoch or position not in [*allowed, self._left_at, self._leaves_at]:
            raise LostCommits
        if position is not None and position == self._leaves_at:
            self.checkpoint_stored(position, self._leaving)
        if {batch for batch in wanted if batch.counter not in found} & self._batches.keys():
            raise LostCommits

    async def _stored(self, session: TargetSession) -> tuple[int, Position | None, set[int]]:
        """Read the epoch, the checkpoint, and the numbers of our receipts, all of one moment."""
        schema, mine = f"{self._fencing.schema}.tidelock_", self._fencing.identity
        query = (
            f"SELECT {_EPOCH},epoch,'' FROM {schema}owner WHERE {mine} "
            f"UNION ALL SELECT {_POSITION},0,position FROM {schema}checkpoint WHERE {mine} "
            f"UNION ALL SELECT {_BATCH},batch,'' FROM {schema}progress "
            f"WHERE {mine} AND epoch={self._fencing.epoch:d}"
        )
        answer, _ = await session.run([query.encode(), b"ROLLBACK"])
        epoch, position, found = 0, None, set()
        for kind, number, text in answer.rows:
            if kind == _EPOCH:
                epoch = int(number)
            elif kind == _POSITION:
                position = _STORED.decode(text)
            else:
                found.add(int(number))
        return epoch, position, found
