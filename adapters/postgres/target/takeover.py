"""Taking a feed over at a PostgreSQL target: fence older owners off, *then* read what is there (design 6).

Whatever an older owner could still commit is committed or rolled back by then, so nothing that is read afterwards can
still change under us.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import asyncpg
import msgspec

from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.postgres.target.bookkeeping_sql import DURABLE, BookkeepingSql, is_fenced
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS, connection_lost, target_error
from tidelock.adapters.postgres.target.fencing import Fencing
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.events import TakenOver

log = logging.getLogger(__name__)

ATTEMPTS = 5
_POSITION: Final = msgspec.json.Decoder(Position)


class Takeover:
    """Makes this run the owner of one feed and table group."""

    def __init__(self, fencing: Fencing, bookkeeping: BookkeepingSql) -> None:
        self._fencing = fencing
        self._bookkeeping = bookkeeping

    async def run(self, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        """Take over.  Raises Overtaken, TargetError."""
        endpoint = self._fencing.settings.endpoint
        for attempt in range(ATTEMPTS):
            try:
                connection = await self._fencing.settings.connect()
                try:
                    epoch = await self._fencing.take(connection)
                    taken = await self._read(connection, epoch, tables, start)
                    await self._drop_staged(connection, epoch)
                    return taken
                finally:
                    connection.terminate()
            except SERVER_ERRORS as error:  # an epoch raised twice does no harm
                if is_fenced(error):
                    raise TargetError(
                        f"{endpoint}: a newer owner took the feed over at the same moment",
                        "one of them is enough: end the other",
                    ) from None
                if attempt + 1 == ATTEMPTS or not _worth_another(error):
                    raise target_error(error, endpoint) from None
        raise AssertionError("unreachable")

    async def _read(
        self,
        connection: asyncpg.Connection[asyncpg.Record],
        epoch: int,
        tables: Sequence[TableName],
        start: Position | None,
    ) -> TakenOver:
        bookkeeping = self._bookkeeping
        async with connection.transaction():
            await connection.execute("; ".join([DURABLE, *bookkeeping.fence(epoch)]))
            stored = await bookkeeping.read_checkpoint(connection)
            if stored is None:
                if start is None:
                    raise TargetError(
                        f"the target holds no position of this feed in {bookkeeping.checkpoint}",
                        "set `start` in the feed's YAML: now, earliest or a position",
                    )
                stored = msgspec.json.encode(start).decode()
                await connection.execute(bookkeeping.start(stored))
            return TakenOver(
                epoch=epoch,
                checkpoint=_POSITION.decode(stored),
                receipts=await bookkeeping.read_receipts(connection),
                parked=await bookkeeping.read_parked(connection),
                tables=await read_tables(connection, tables),
                ddl_passed=await bookkeeping.read_ddl_passed(connection),
                chunks=await bookkeeping.copies.read_chunks(connection),
            )

    async def _drop_staged(self, connection: asyncpg.Connection[asyncpg.Record], epoch: int) -> None:
        """Drop what older owners staged.  What cannot be dropped now is the next owner's to drop."""
        copies = self._bookkeeping.copies
        try:
            for name in await copies.staged_before(connection, epoch):
                for statement in copies.drop([name]):
                    await connection.execute(statement)
        except SERVER_ERRORS as error:
            log.warning("staging tables of older owners are left in %s: %s", self._bookkeeping.schema, error)


def _worth_another(error: BaseException) -> bool:
    """Tell whether an owner's locks were in the way, whose sessions were ended just now, or a newcomer ended ours."""
    return isinstance(error, asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError) or (
        connection_lost(error) and not isinstance(error, OSError)
    )
