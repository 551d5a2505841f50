"""The lock under which a feed of a target takes tables: one feed at a time.

Whoever begins, or takes more tables, first looks whether another feed brings them already (`checks.same_tables`), and
then leaves word that it does.  Two that do so at one moment would not see each other.  So from that look until its word
is stored each holds this lock at the target, which all its feeds share, whatever schema their bookkeeping is in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tidelock.adapters.bookkeeping.lease import lock_name, lock_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.wiring.session import TargetSession, session

WAIT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.2


@asynccontextmanager
async def tables_lock(feed: Feed) -> AsyncIterator[None]:
    """Holds the lock.  Raises TargetError where it is not to be had, or was lost before the end."""
    async with session(feed.target_url) as target, held(feed, target):
        yield


@asynccontextmanager
async def held(feed: Feed, target: TargetSession) -> AsyncIterator[None]:
    """Holds the lock in this session, at PostgreSQL in a transaction.  Raises as `tables_lock`."""
    lock = lock_of("", "", "tables")
    busy = TargetError(
        f"another feed takes tables of {feed.target_url} just now", "Wait for that one, then try again", passing=True
    )
    await taken(target, lock, busy)
    yield
    await _still_ours(target, lock)


async def taken(target: TargetSession, lock: int, busy: TargetError) -> None:
    """Returns once the session has the lock, until it ends; at PostgreSQL until its transaction does, as a pooler may
    give the session to another then.  Raises `busy`, TargetError."""
    postgres = target.dialect == "postgres"
    if postgres:
        await target.execute("BEGIN ISOLATION LEVEL READ COMMITTED")  # each look sees what is stored by then
        await target.execute("SET LOCAL synchronous_commit = on")
    take = f"SELECT pg_try_advisory_xact_lock({lock})" if postgres else f"SELECT GET_LOCK('{lock_name(lock)}', 0)"
    for _ in range(round(WAIT_SECONDS / _LOOK_SECONDS)):
        if (await target.fetch(take))[0][0]:
            return
        await asyncio.sleep(_LOOK_SECONDS)  # until the next look
    raise busy


async def _still_ours(target: TargetSession, lock: int) -> None:
    """A session that was lost has let the lock go: the next statement in it fails."""
    if target.dialect == "postgres":
        await target.execute("COMMIT")
    else:
        await target.execute(f"DO RELEASE_LOCK('{lock_name(lock)}')")
