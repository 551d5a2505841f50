"""Which batches were reported as committed, so that a crash of the server that loses some is noticed.

A commit that does not wait for the disk can vanish after it was reported.  Whoever takes the feed over then finds the
receipt missing and applies the batch again, but an owner that lives on would never know.  The log is lost from its
end: a checkpoint waits for the disk, so all before a stored one is safe, and only receipts since then need a look.
"""

from __future__ import annotations

from collections.abc import Iterable

import asyncpg

from adapters.postgres.books import Books
from engine.effects import EffectId


class LostCommits(Exception):
    """Receipts reported as committed are not there."""


class Reported:
    def __init__(self, books: Books) -> None:
        self._books = books
        self._epoch = 0
        self._batches: dict[EffectId, None] = {}
        self._position = ""
        self._dropped: list[EffectId] = []

    def begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._batches.clear()
        self._dropped = []

    def add(self, batch: EffectId) -> None:
        if batch.epoch == self._epoch:
            self._batches[batch] = None

    def drop(self, position: str, batches: Iterable[EffectId]) -> None:
        """A checkpoint that deletes these receipts is on its way: from now on they may be missing."""
        self._position, self._dropped = position, [i for i in batches if i in self._batches]
        for batch in self._dropped:
            del self._batches[batch]

    def undo_drop(self) -> None:
        """It failed, or is in doubt; then the stored position tells."""
        self._batches.update(dict.fromkeys(self._dropped))

    async def verify(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """For every new session.  Raises LostCommits."""
        while wanted := list(self._batches):
            query = self._books.count_receipts(self._epoch, [i.counter for i in wanted])
            if await connection.fetchval(query) == len(wanted):
                return
            if self._dropped and await self._books.read_checkpoint(connection) == self._position:
                for batch in self._dropped:
                    self._batches.pop(batch, None)
            if all(i in self._batches for i in wanted):  # else a checkpoint has deleted some meanwhile: look again
                raise LostCommits
