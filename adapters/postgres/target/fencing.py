"""Taking a feed over at a PostgreSQL target: raise the epoch, commit, *then* read what is there (design 6).

The UPDATE of the owner's row waits for every batch of older owners that has passed its fence, and whatever comes later
is fenced off; so nothing that is read afterwards can still change under us.  An owner whose batch does not end within
the lock timeout has its sessions ended.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import asyncpg
import msgspec

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.postgres.target.bookkeeping_sql import DURABLE, Books
from tidelock.adapters.postgres.target.failures import CONNECTION_ERRORS, connection_lost, failure_of, passes
from tidelock.adapters.postgres.target.pulse import claim_statement, token_query
from tidelock.adapters.postgres.target.session import END_OLDER, POLL_SECONDS, RELEASE_SECONDS, SessionSettings
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.events import TakenOver

log = logging.getLogger(__name__)

ATTEMPTS = 5


async def take_over(
    settings: SessionSettings,
    books: Books,
    tables: Sequence[TableName],
    start: Position | None,
    entry: Entry | None = None,
) -> TakenOver:
    """Raises Overtaken, TargetError."""
    for attempt in range(ATTEMPTS):
        try:
            connection = await settings.connect()
            try:
                epoch = await _raise_epoch(connection, books, settings.name, entry)
                taken = await _read(connection, books, epoch, tables, start)
                await _drop_staged(connection, books, epoch)
                return taken
            finally:
                connection.terminate()
        except CONNECTION_ERRORS as error:  # an epoch raised twice does no harm
            if books.is_fenced(error):
                raise TargetError(
                    f"{settings.endpoint}: a newer owner took the feed over at the same moment",
                    "one of them is enough: end the other",
                ) from None
            if attempt + 1 == ATTEMPTS or not _worth_another(error):
                raise _target_error(settings, error) from None
    raise AssertionError("unreachable")


def _worth_another(error: BaseException) -> bool:
    """Locks held by an owner whose sessions were ended just now, or a newcomer that ended ours."""
    return isinstance(error, asyncpg.LockNotAvailableError | asyncpg.DeadlockDetectedError) or (
        connection_lost(error) and not isinstance(error, OSError)
    )


async def _raise_epoch(
    connection: asyncpg.Connection[asyncpg.Record], books: Books, name: str, entry: Entry | None
) -> int:
    try:
        async with connection.transaction():
            await connection.execute(DURABLE)
            await connection.execute(books.make_owner())
            epoch: int = await connection.fetchval(books.raise_epoch())
            if entry is not None:
                entry.check(await connection.fetchval(token_query(entry.claim)) or "")
                await connection.execute(claim_statement(entry.claim))
        return epoch
    except asyncpg.LockNotAvailableError:
        await _end_older(connection, name)
        raise


async def _end_older(connection: asyncpg.Connection[asyncpg.Record], name: str) -> None:
    deadline = time.monotonic() + RELEASE_SECONDS
    while await connection.fetchval(END_OLDER, name) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)


async def _read(
    connection: asyncpg.Connection[asyncpg.Record],
    books: Books,
    epoch: int,
    tables: Sequence[TableName],
    start: Position | None,
) -> TakenOver:
    async with connection.transaction():
        await connection.execute("; ".join([DURABLE, *books.fence(epoch)]))
        stored = await books.read_checkpoint(connection)
        if stored is None:
            if start is None:
                raise TargetError(
                    f"the target holds no position of this feed in {books.checkpoint}",
                    "set `start` in the feed's YAML: now, earliest or a position",
                )
            stored = msgspec.json.encode(start).decode()
            await connection.execute(books.start(stored))
        return TakenOver(
            epoch=epoch,
            checkpoint=msgspec.json.decode(stored, type=Position),
            receipts=await books.read_receipts(connection),
            parked=await books.read_parked(connection),
            tables=await read_tables(connection, tables),
            ddl_passed=await books.read_ddl_passed(connection),
            chunks=await books.copies.read_chunks(connection),
        )


async def _drop_staged(connection: asyncpg.Connection[asyncpg.Record], books: Books, epoch: int) -> None:
    """What older owners staged is worth nothing.  What cannot be dropped now is the next owner's to drop."""
    try:
        for name in await books.copies.staged_before(connection, epoch):
            for statement in books.copies.drop([name]):
                await connection.execute(statement)
    except CONNECTION_ERRORS as error:
        log.warning("staging tables of older owners are left in %s: %s", books.schema, error)


def _target_error(settings: SessionSettings, error: BaseException) -> TargetError:
    failure = failure_of(error)
    hints = {
        "28P01": "check the user and password of the feed's target",
        "28000": "check the user of the feed's target and the server's pg_hba.conf",
        "3D000": "create the database or correct the feed's target",
        "42P01": "run `tidelock init --apply`, which makes the bookkeeping tables",
        "3F000": "run `tidelock init --apply`, which makes the bookkeeping tables",
        "42501": "grant the feed's user what `tidelock init` prints",
        "55P03": "another session holds this feed's row in tidelock_owner; end it (pg_stat_activity shows it)",
        "25006": "the target is read-only: point the feed at the writable server, or make this one so",
        "53100": "free space at the target",
        "53300": "raise max_connections at the target or lower the feed's `lanes`",
    }
    hint = hints.get(failure.code, "check that the target runs and can be reached from here")
    return TargetError(
        f"{settings.endpoint}: {failure.message}", hint, passing=passes(error), unreachable=connection_lost(error)
    )
