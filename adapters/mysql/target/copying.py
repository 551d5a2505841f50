"""What a copy does at a MySQL or MariaDB target: it begins, its chunks are merged, what was staged goes (design 8).

All of it runs on one session, with a user lock of its own, opened on first use; what fails is rolled back with it.
Making and dropping a staging table commits implicitly, so neither happens within a transaction.

Begin and merge are one transaction each, with a receipt as a batch has: it is the fence, the answer when in doubt, and
says to a feed the other way that these rows came from there, the deletes of the beginning above all.  Beginning takes
its receipt away again before COMMIT: done twice it is done once.

Beginning deletes the rows (TRUNCATE would commit before the plan is stored): of a large table that is slow, and the
server's undo and binary log have to hold it all.  Empty such a table by hand before a copy, if that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

from tidelock.adapters.mysql.target.batch_script import Batch, BatchError, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import Ledger
from tidelock.adapters.mysql.target.chunk_merge import Lost, Merge, Orphaned, refers_to_itself, unchecked
from tidelock.adapters.mysql.target.commit_audit import Reported
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced, Ownership, kill
from tidelock.adapters.mysql.target.literals import Unwritable, text
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, failure, is_deadlock
from tidelock.adapters.mysql.target.session import Session
from tidelock.adapters.mysql.target.staged import qualified
from tidelock.adapters.mysql.target.staging import stager_lock
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.adapters.ports.staging import staged_name, staged_prefix
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.protocol.effects import BeginCopy, EffectId, MergeChunk
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, CopyBegun, CopyFailed

log = logging.getLogger(__name__)


class Copying:
    """`tables`: the target's, as they were last read.  `number`: of the session's user lock."""

    def __init__(
        self,
        owner: Ownership,
        ledger: Ledger,
        reported: Reported,
        feed: str,
        group: int,
        schema: str,
        number: int,
        statements: Callable[[Binding], TableStatements],
    ) -> None:
        self.tables: Mapping[TableName, TargetTable] = {}
        self._owner = owner
        self._ledger = ledger
        self._reported = reported
        self._feed = feed
        self._group = group
        self._schema = schema
        self._number = number
        self._statements = statements
        self._session: Session | None = None
        self._free = asyncio.Lock()

    async def begin(self, effect: BeginCopy) -> CopyBegun | CopyFailed:
        failed = await self._repeat(lambda session: self._begin(session, effect))
        if failed is None:
            self._reported.stored(effect.position, effect.drop)
        return CopyFailed(effect.id, failed) if failed is not None else CopyBegun(effect.id)

    async def merge(self, effect: MergeChunk) -> BatchCommitted | BatchFailed:
        failed = await self._repeat(lambda session: self._merge(session, effect))
        if failed is None:  # now, or before and unanswered
            self._reported.stored(effect.position, effect.drop)
            self._reported.add(effect.id)
        return BatchFailed(effect.id, failed) if failed is not None else BatchCommitted(effect.id)

    async def drop(self, staged: EffectId) -> None:
        async with self._free:
            with self._best_effort():
                async with self._opened() as session:
                    await self._drop(session, staged_name(self._feed, self._group, staged))

    async def drop_older(self, control: Session) -> None:
        """What older owners staged.  Raises StatementFailed where the server does not say what is there."""
        prefix = staged_prefix(self._feed, self._group)
        found = await control.ask(
            f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA={text(self._schema)} "
            f"AND LEFT(TABLE_NAME,{len(prefix)})={text(prefix)}"
        )
        for (name,) in found.rows:
            if int(name.removeprefix(prefix).partition("_")[0]) < self._owner.epoch:
                with self._best_effort():
                    await self._drop(control, name)

    async def close(self) -> None:
        if self._session is not None and not self._free.locked():
            await self._session.close()
        self.abandon()

    def abandon(self) -> None:
        if self._session is not None:
            self._session.drop()
        self._session = None

    @contextlib.contextmanager
    def _best_effort(self) -> Iterator[None]:
        try:
            yield
        except (Fenced, *SERVER_ERRORS) as error:
            log.warning("a staging table stays at %s for now: %s", self._owner.endpoint, failure(error).message)

    async def _drop(self, session: Session, name: str) -> None:
        """Who still fills it has read in vain."""
        ((stager,),) = (await session.ask(f"SELECT IS_USED_LOCK({text(stager_lock(self._schema, name))})")).rows
        if stager is not None:
            await kill(session, stager)
        await session.ask(f"DROP TABLE IF EXISTS {qualified(TableName(self._schema, name))}")
        await session.commit()

    async def _repeat(self, transact: Callable[[Session], Awaitable[None]]) -> Failure | None:
        """Where the server ended a deadlock the transaction is sent again at once."""
        async with self._free:
            for attempt in range(1, DEADLOCKS_MAX + 1):
                try:
                    async with self._opened() as session:
                        await transact(session)
                    return None
                except CommittedBefore:
                    return None
                except (Lost, Orphaned) as error:
                    return Failure(ErrorKind.COMMITS_LOST if isinstance(error, Lost) else ErrorKind.ROW, str(error))
                except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                    if not is_deadlock(error) or attempt == DEADLOCKS_MAX:
                        return failure(error)
            raise AssertionError("the last attempt returns")

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Session]:
        """The session, which does not outlive what fails in it."""
        if self._session is None or self._session.lost:
            self._session = await self._owner.open(self._number)
        try:
            yield self._session
        except BaseException:
            self.abandon()
            raise

    async def _begin(self, session: Session, effect: BeginCopy) -> None:
        batch = await self._batch(session, effect.id)
        emptied = [self.tables[split.table] for split in effect.splits if not split.keeps_target_rows]
        for table in _children_first(emptied):
            delete = f"DELETE FROM {qualified(table.name)}".encode()
            async with unchecked(batch, table) if refers_to_itself(table) else contextlib.nullcontext():
                batch.add(delete, str(table.name))
        for split in effect.splits:
            if not split.keeps_target_rows:
                batch.add(self._ledger.empty(split.table), "tidelock_parked")
            for sql in (*self._ledger.split(split), *self._ledger.granted(split)):
                batch.add(sql, "tidelock_chunks")
        await self._end(session, batch, effect.position, (*effect.drop, effect.id))

    async def _merge(self, session: Session, effect: MergeChunk) -> None:
        batch = await self._batch(session, effect.id)
        place = TableName(self._schema, staged_name(self._feed, self._group, effect.staged))
        rows = await Merge(batch, session, self.tables[effect.split.table], place, effect).run()
        for sql in (*self._ledger.park(effect.parked), *self._ledger.unpark(effect.unparked)):
            batch.add(sql, "tidelock_parked")
        batch.add(self._ledger.merged(effect.split, effect.chunk, rows), "tidelock_chunks")
        await self._end(session, batch, effect.position, effect.drop)

    async def _end(self, session: Session, batch: Batch, position: Position, drop: Sequence[EffectId]) -> None:
        """Save the checkpoint and commit."""
        for sql in (self._ledger.checkpoint(position), *self._ledger.drop(drop)):
            batch.add(sql, "checkpoint")
        self._reported.leave(position, drop)
        sessions = self._reported.sessions
        await batch.commit()
        await self._reported.believe(session, sessions)

    async def _batch(self, session: Session, id: EffectId) -> Batch:
        """Whose receipt stands.  Raises Fenced, CommittedBefore."""
        batch = Batch(session, self._statements, self._ledger.receipt(session, id, NOTHING))
        await batch.flush()
        return batch


def _children_first(tables: Sequence[TargetTable]) -> list[TargetTable]:
    """None of them is in a cycle (`engine.copy.copy_validation.fault`)."""
    left = {table.name: table for table in tables}
    ordered: list[TargetTable] = []
    while left:
        free = [t for t in left.values() if not any(k.child in left and k.child != t.name for k in t.references)]
        assert free, "a cycle of foreign keys is not copied"
        ordered += free
        for table in free:
            del left[table.name]
    return ordered
