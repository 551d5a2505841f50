"""Ownership of a feed at a MySQL or MariaDB target: the fence, and the end of older owners' sessions (design 6).

Every session of a feed holds the user lock `tidelock:<digest>:<number>` for as long as it lives, 0 for control and one
a lane.  A user lock needs no privilege, `IS_USED_LOCK` names the session that holds it, and the server lets go of it
only after the session's transaction is rolled back or committed: a free lock proves that the older session is gone.
A session takes its lock first and looks at the epoch then, so whoever raised the epoch sees every session that passed.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.target.failures import LOCK_TIMEOUT, NO_SUCH_THREAD, code_of
from tidelock.adapters.mysql.target.literals import text
from tidelock.adapters.mysql.target.pulse import claim_statement, token_query
from tidelock.adapters.mysql.target.session import StatementFailed, TargetSession, open_session
from tidelock.adapters.ports.sink import TargetError

CONTROL = 0
SESSIONS_MAX = 256
"""How many locks a takeover looks at, whatever number of lanes the older owner had."""
POLL_SECONDS = 0.05
ROLLBACK_SECONDS = 600.0
"""How long a killed session may take to roll back before an operator is asked to look."""


class Fenced(Exception):
    """Raised where a newer owner has taken the feed over."""


class Outvoted(Exception):
    """Raised where a group of the feed has a newer owner than the one that voted for a statement."""


class Fencing:
    """Makes an owner of one feed and table group, and ends the ones before.  `epoch` is 0 until `take`n.

    Methods raise what `TargetSession.run` raises, and Fenced.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        feed: str,
        group: int,
        schema: str,
        lock_seconds: int,
        entry: Entry | None = None,
        stamps: bool = False,
    ) -> None:
        """`stamps`: triggers that stamp rows stand aside for our sessions (`adapters.stamps`)."""
        self._entry = entry
        self._stamps = stamps
        self.endpoint = endpoint
        self.epoch = 0
        self.schema = quote("mysql", schema)
        self.identity = f"feed={text(feed)} AND grp={group}"
        """The feed's and group's rows in any bookkeeping table."""
        self.feed = f"feed={text(feed)}"
        """The rows of all its groups."""
        self._values = f"{text(feed)},{group}"
        self._lock_seconds = lock_seconds
        self.verify: Callable[[TargetSession], Awaitable[None]] | None = None
        """Asked of each session that is opened under our epoch, before it is used."""
        digest = hashlib.blake2b(f"{schema}/{feed}/{group}".encode(), digest_size=16).hexdigest()
        self._lock = f"tidelock:{digest}:"

    def owner_row(self, session: TargetSession, epoch: int) -> str:
        """Ends a SELECT that finds one row if `epoch` is the owner's, and keeps it so until the transaction ends."""
        owner = f"{self.schema}.tidelock_owner"
        return f"FROM {owner} WHERE {self.identity} AND epoch={epoch} {session.dialect.share}"

    async def fence(self, session: TargetSession) -> None:
        """Keep any newer owner waiting within the session's transaction.  Raises Fenced if there is one."""
        if not (await session.ask(self._fence(session))).rows:
            raise Fenced

    async def look(self, session: TargetSession) -> None:
        """Look at the owner, in a transaction of its own.  Raises Fenced if there is a newer one."""
        found, _ = await session.run([self._fence(session).encode(), b"ROLLBACK"])
        if not found.rows:
            raise Fenced

    def _fence(self, session: TargetSession) -> str:
        return f"SELECT epoch {self.owner_row(session, self.epoch)}"

    async def fence_votes(self, session: TargetSession, votes: Mapping[int, int]) -> None:
        """Keep every group (to epoch) with the owner that voted, within the transaction.  Raises Outvoted."""
        for group, epoch in sorted(votes.items()):
            row = f"FROM {self.schema}.tidelock_owner WHERE {self.feed} AND grp={group:d} AND epoch={epoch:d}"
            if not (await session.ask(f"SELECT epoch {row} {session.dialect.share}")).rows:
                raise Outvoted

    async def open(self, number: int) -> TargetSession:
        """Open a session that holds lock `number` under our epoch; an older one that still does is ended."""
        session = await self._opened()
        try:
            await self._claim(session, number)
            if self.verify is not None:
                await self.verify(session)
            await self.look(session)
        except BaseException:
            session.drop()
            raise
        return session

    async def _opened(self) -> TargetSession:
        session = await open_session(self.endpoint, self._lock_seconds)
        if self._stamps:
            await session.run([b"SET @tidelock_apply=1"])
        return session

    async def take(self) -> TargetSession:
        """Raise the epoch and end all older sessions.  Returns the control session, its transaction ended.

        An older owner's open batches get the lock timeout to commit; then their sessions are killed.
        Raises Fenced if yet another owner came after us, and Overtaken if one came since our run looked.
        """
        session = await self._opened()
        try:
            await self._raise_epoch(session)
            await self._end_all(session)
            await self._claim(session, CONTROL)
        except BaseException:
            session.drop()
            raise
        return session

    async def _claim(self, session: TargetSession, number: int) -> None:
        while not await self._locked(session, number):
            await self.look(session)  # an older owner must not kill a newer one's session
            await self.end(session, number)

    async def _raise_epoch(self, session: TargetSession) -> None:
        owner = f"{self.schema}.tidelock_owner"
        while True:
            try:
                await session.ask(
                    f"INSERT INTO {owner} (feed,grp,epoch) VALUES ({self._values},0) ON DUPLICATE KEY UPDATE feed=feed"
                )
                await session.ask(f"UPDATE {owner} SET epoch=epoch+1 WHERE {self.identity}")
                break
            except StatementFailed as failed:
                if code_of(failed.error) != LOCK_TIMEOUT:
                    raise
                await session.rollback()
                await self._end_all(session)
        if self._entry is not None:
            seen = (await session.ask(token_query(self._entry.claim))).rows
            self._entry.check(seen[0][0] if seen else "")
            await session.ask(claim_statement(self._entry.claim))
        ((self.epoch,),) = (await session.ask(f"SELECT epoch FROM {owner} WHERE {self.identity}")).rows
        await session.commit()

    async def _end_all(self, control: TargetSession) -> None:
        for number in await self._held(control):
            await self.end(control, number)

    async def end(self, control: TargetSession, number: int) -> None:
        """Kill the session that holds lock `number`, if there is one, and return once it is gone.

        Raises TargetError if it takes longer than ROLLBACK_SECONDS.
        """
        deadline = time.monotonic() + ROLLBACK_SECONDS
        killed = 0
        while (holder := await self._holder(control, number)) is not None and holder != control.number:
            if holder != killed:
                await kill(control, holder)
                killed = holder
            if time.monotonic() > deadline:
                raise TargetError(
                    f"{self.endpoint}: session {holder} of an older run is still rolling back",
                    "wait until SHOW PROCESSLIST no longer shows it, then run again",
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _locked(self, session: TargetSession, number: int) -> bool:
        ((got,),) = (await session.ask(f"SELECT GET_LOCK({self._name(number)},0)")).rows
        return bool(got == 1)

    async def _holder(self, control: TargetSession, number: int) -> int | None:
        ((holder,),) = (await control.ask(f"SELECT IS_USED_LOCK({self._name(number)})")).rows
        return None if holder is None else int(holder)

    async def _held(self, control: TargetSession) -> list[int]:
        names = ",".join(f"IS_USED_LOCK({self._name(number)})" for number in range(SESSIONS_MAX))
        (holders,) = (await control.ask(f"SELECT {names}")).rows
        return [number for number, holder in enumerate(holders) if holder is not None]

    def _name(self, number: int) -> str:
        return text(f"{self._lock}{number}")


async def kill(control: TargetSession, number: int) -> None:
    """End session `number` of the server; it is no error if it is gone."""
    try:
        await control.ask(f"KILL {number}")
    except StatementFailed as failed:
        if code_of(failed.error) != NO_SUCH_THREAD:
            raise
