"""Copying at a MySQL or MariaDB target: a copy begins, its chunks are merged, what was staged goes (design 8).

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

from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.chunk_merge import ChunkMerge, LostStaging, Orphaned, refers_to_itself, unchecked
from tidelock.adapters.mysql.target.commit_audit import CommitAudit
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced, Fencing, kill
from tidelock.adapters.mysql.target.literals import Unwritable, text
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, is_deadlock, outcome
from tidelock.adapters.mysql.target.refused_rows import RefusedRows, numbers_of
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.staging import stager_lock
from tidelock.adapters.mysql.target.statements import TableStatements, qualified
from tidelock.adapters.ports.staging import holds_rows, staged_name
from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.refused_search import Untold
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.protocol.effects import BeginCopy, EffectId, FindRefused, MergeChunk
from tidelock.engine.protocol.events import RefusedRow

log = logging.getLogger(__name__)


class NotEmpty(Exception):
    """Raised where a table that must be empty holds rows."""


class TargetCopying:
    """Copies into the target; None answers for success.

    `tables`: the target's, as they were last read.  `number`: of the session's user lock.
    """

    def __init__(
        self,
        fencing: Fencing,
        bookkeeping: BookkeepingSql,
        audit: CommitAudit,
        number: int,
        statements: Callable[[Binding], TableStatements],
    ) -> None:
        self.tables: Mapping[TableName, TargetTable] = {}
        self._fencing = fencing
        self._bookkeeping = bookkeeping
        self._audit = audit
        self._number = number
        self._statements = statements
        self._session: TargetSession | None = None
        self._free = asyncio.Lock()

    async def begin(self, effect: BeginCopy) -> Failure | None:
        """Begin a copy: delete rows, store how tables are split, save the checkpoint."""
        failed = await self._repeat(lambda session: self._begin(session, effect))
        if failed is None:
            self._audit.checkpoint_stored(effect.position, effect.drop)
        return failed

    async def merge(self, effect: MergeChunk) -> Failure | None:
        """Merge a staged chunk and save the checkpoint."""
        failed = await self._repeat(lambda session: self._merge(session, effect))
        if failed is None:  # now, or before and unanswered
            self._audit.checkpoint_stored(effect.position, effect.drop)
            self._audit.add(effect.id)
        return failed

    async def find_refused(self, effect: FindRefused) -> tuple[RefusedRow, ...] | Failure:
        """Find the staged rows for which the target refuses a merge; nothing stays changed."""
        found = list[RefusedRow]()

        async def search(session: TargetSession) -> None:
            found[:] = await self._find(session, effect)

        failed = await self._repeat(search)
        return tuple(found) if failed is None else failed

    async def _find(self, session: TargetSession, effect: FindRefused) -> tuple[RefusedRow, ...]:
        table, place = self.tables[effect.merge.split.table], self._staging(effect.merge.staged)
        search = RefusedRows(session, table, place, effect, self._statements)
        await search.number()  # which commits, so it comes before the fence
        try:
            await self._batch(session, effect.id)
            return await search.find()
        finally:
            if session.alive:
                await session.rollback()
                await search.forget()

    async def drop(self, staged: EffectId) -> None:
        """Drop what one attempt has staged, as well as may be."""
        async with self._free:
            with self._best_effort():
                async with self._opened() as session:
                    await self._drop(session, self._staging(staged).table)

    async def drop_older(self, control: TargetSession) -> None:
        """Drop what older owners staged.  Raises StatementFailed where the server does not say what is there."""
        prefix = self._bookkeeping.copies.prefix
        found = await control.ask(
            f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA={text(self._bookkeeping.schema)} "
            f"AND LEFT(TABLE_NAME,{len(prefix)})={text(prefix)}"
        )
        for (name,) in found.rows:
            if int(name.removeprefix(prefix).partition("_")[0]) < self._fencing.epoch:
                with self._best_effort():
                    await self._drop(control, name)

    async def close(self) -> None:
        """Close the session in order, or cut it off where it works."""
        if self._session is not None and not self._free.locked():
            await self._session.close()
        self.abandon()

    def abandon(self) -> None:
        """Cut the session off; the server rolls back what is open."""
        if self._session is not None:
            self._session.drop()
        self._session = None

    @contextlib.contextmanager
    def _best_effort(self) -> Iterator[None]:
        try:
            yield
        except (Fenced, *SERVER_ERRORS) as error:
            log.warning("a staging table stays at %s for now: %s", self._fencing.endpoint, outcome(error).message)

    def _staging(self, attempt: EffectId) -> TableName:
        bookkeeping = self._bookkeeping
        return TableName(bookkeeping.schema, staged_name(bookkeeping.feed, bookkeeping.group, attempt))

    async def _drop(self, session: TargetSession, name: str) -> None:
        """Drop a staging table, and end whoever still fills it."""
        lock = text(stager_lock(self._bookkeeping.schema, name))
        ((stager,),) = (await session.ask(f"SELECT IS_USED_LOCK({lock})")).rows
        if stager is not None:
            await kill(session, stager)
        place = TableName(self._bookkeeping.schema, name)
        await session.ask(f"DROP TABLE IF EXISTS {qualified(place)},{qualified(numbers_of(place))}")
        await session.commit()

    async def _repeat(self, transact: Callable[[TargetSession], Awaitable[None]]) -> Failure | None:
        """Run a transaction, and at once again where the server ended a deadlock.  Returns why it failed."""
        async with self._free:
            for attempt in range(1, DEADLOCKS_MAX + 1):
                try:
                    async with self._opened() as session:
                        await transact(session)
                    return None
                except CommittedBefore:
                    return None
                except NotEmpty as error:
                    return Failure(ErrorKind.TARGET, str(error))
                except (LostStaging, Orphaned) as error:
                    lost = isinstance(error, LostStaging)
                    return Failure(ErrorKind.COMMITS_LOST if lost else ErrorKind.ROW, str(error))
                except (Untold, NotSpelled) as error:
                    return Failure(ErrorKind.ROW, str(error))
                except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                    if not is_deadlock(error) or attempt == DEADLOCKS_MAX:
                        return outcome(error)
            raise AssertionError("the last attempt returns")

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[TargetSession]:
        """The session, which does not outlive what fails in it."""
        if self._session is None or not self._session.alive:
            self._session = await self._fencing.open(self._number)
        try:
            yield self._session
        except BaseException:
            self.abandon()
            raise

    async def _begin(self, session: TargetSession, effect: BeginCopy) -> None:
        batch = await self._batch(session, effect.id)
        for split in effect.splits:
            found = await session.ask(f"SELECT 1 FROM {qualified(split.table)} LIMIT 1") if split.empty else None
            if found is not None and found.rows:
                raise NotEmpty(holds_rows(split.table))
        emptied = [self.tables[s.table] for s in effect.splits if not s.keeps_target_rows and not s.empty]
        for table in _children_first(emptied):
            delete = f"DELETE FROM {qualified(table.name)}".encode()
            async with unchecked(batch, table) if refers_to_itself(table) else contextlib.nullcontext():
                batch.add(delete, str(table.name))
        for split in effect.splits:
            if not split.keeps_target_rows:
                batch.add(self._bookkeeping.empty(split.table), "tidelock_parked")
            for sql in self._bookkeeping.copies.begin(split):
                batch.add(sql, "tidelock_chunks")
        await self._end(session, batch, effect.position, (*effect.drop, effect.id))

    async def _merge(self, session: TargetSession, effect: MergeChunk) -> None:
        batch = await self._batch(session, effect.id)
        place = self._staging(effect.staged)
        rows = await ChunkMerge(batch, session, self.tables[effect.split.table], place, effect).run()
        for sql in (*self._bookkeeping.park(effect.parked), *self._bookkeeping.unpark(effect.unparked)):
            batch.add(sql, "tidelock_parked")
        batch.add(self._bookkeeping.copies.merged(effect.split, effect.chunk, rows), "tidelock_chunks")
        for sql in self._bookkeeping.copies.leave(effect.split.table, effect.unrepaired):
            batch.add(sql, "tidelock_wanted")
        await self._end(session, batch, effect.position, effect.drop)

    async def _end(
        self, session: TargetSession, batch: BatchScript, position: Position, drop: Sequence[EffectId]
    ) -> None:
        """Save the checkpoint and commit."""
        for sql in (self._bookkeeping.save_checkpoint(position), *self._bookkeeping.drop_receipts(drop)):
            batch.add(sql, "checkpoint")
        self._audit.checkpoint_sent(position, drop)
        async with self._audit.confirmed(session):
            await batch.commit()

    async def _batch(self, session: TargetSession, id: EffectId) -> BatchScript:
        """Begin a batch, whose receipt stands.  Raises Fenced, CommittedBefore."""
        batch = BatchScript(session, self._statements, self._bookkeeping.receipt(session, id, NOTHING))
        await batch.flush()
        return batch


def _children_first(tables: Sequence[TargetTable]) -> list[TargetTable]:
    """Order tables so that children come first.  None of them is in a cycle (`engine.copy.copy_validation.fault`)."""
    left = {table.name: table for table in tables}
    ordered: list[TargetTable] = []
    while left:
        free = [t for t in left.values() if not any(k.child in left and k.child != t.name for k in t.references)]
        assert free, "a cycle of foreign keys is not copied"
        ordered += free
        for table in free:
            del left[table.name]
    return ordered
