"""Fencing at a PostgreSQL target: the owner's epoch, and the end of older owners' sessions (design 6).

The UPDATE of the owner's row waits for every batch of older owners that has passed its fence, and whatever comes later
is fenced off (`bookkeeping_sql`).  An owner whose batch does not end within the lock timeout has its sessions ended.
"""

from __future__ import annotations

import asyncio
import time

import asyncpg

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.postgres.target.bookkeeping_sql import DURABLE, BookkeepingSql
from tidelock.adapters.postgres.target.pulse import claim_statement, token_query
from tidelock.adapters.postgres.target.session import END_OLDER, POLL_SECONDS, RELEASE_SECONDS, SessionSettings


class Fencing:
    """Makes an owner of one feed and table group, and ends the ones before.  `entry`: the name that it leaves."""

    def __init__(self, settings: SessionSettings, bookkeeping: BookkeepingSql, entry: Entry | None) -> None:
        self.settings = settings
        self._bookkeeping = bookkeeping
        self._entry = entry

    async def take(self, connection: asyncpg.Connection[asyncpg.Record]) -> int:
        """Raise the epoch and return it.

        Raises Overtaken, and one of `SERVER_ERRORS`: LockNotAvailableError once sessions in the way were ended.
        """
        try:
            async with connection.transaction():
                await connection.execute(DURABLE)
                await connection.execute(self._bookkeeping.make_owner())
                epoch: int = await connection.fetchval(self._bookkeeping.raise_epoch())
                if self._entry is not None:
                    self._entry.check(await connection.fetchval(token_query(self._entry.claim)) or "")
                    await connection.execute(claim_statement(self._entry.claim))
            return epoch
        except asyncpg.LockNotAvailableError:
            await self._end_older(connection)
            raise

    async def _end_older(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        name = self.settings.name
        deadline = time.monotonic() + RELEASE_SECONDS
        while await connection.fetchval(END_OLDER, name) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
