"""Copying beside the stream at a PostgreSQL target: the effects of `engine.copy.machine`, on a session of their own.

*A copy begins* with DELETE, not with TRUNCATE.  It needs no right that the stream does not need; whoever reads the
table is not blocked and sees the rows of before until the new checkpoint stands; a referring table that the feed does
not know is looked at row by row.  The price is dead rows, which VACUUM takes away before the first chunk comes, where
the feed's user owns the table.  Where a DELETE would go on into tables that are not copied (ON DELETE CASCADE, SET
NULL) it is refused: nobody would bring those rows back.

*A merge* is a batch: its receipt comes first and answers when in doubt, and saves its checkpoint too.  What is staged
is counted in its transaction, since a crash of the server empties the staging tables and nothing else.

Both carry a receipt for a feed the other way too, which would take the deletes above all for somebody's own.  Beginning
takes its receipt away again: done twice it is done once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import asyncpg
import msgspec

from tidelock.adapters.ports.staging import holds_rows, staged_name
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.chunk_merge import ChunkMerge
from tidelock.adapters.postgres.target.commit_audit import CommitAudit
from tidelock.adapters.postgres.target.control_session import ControlSession
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.refused_rows import RefusedRows
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.session_source import SessionSource
from tidelock.adapters.postgres.target.statements import qualified
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.refused_search import Untold
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol.effects import BeginCopy, EffectId, FindRefused, MergeChunk
from tidelock.engine.protocol.events import RefusedRow

log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
_CASCADES = """
SELECT child.oid::regclass::text, parent.oid::regclass::text FROM pg_constraint k
JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid
WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confdeltype IN ('c', 'n', 'd')
    AND k.confrelid = ANY ($1::text[]::regclass[]::oid[]) AND k.conrelid <> ALL ($1::text[]::regclass[]::oid[])
ORDER BY 1, 2 LIMIT 1"""


class TargetCopying:
    """Copies into the target; None answers for success.  A session that is not used is closed by `rest`."""

    def __init__(
        self, sessions: SessionSource, bookkeeping: BookkeepingSql, audit: CommitAudit, zero_dates: ZeroDates
    ) -> None:
        self._bookkeeping = bookkeeping
        self._audit = audit
        self._zero_dates = zero_dates
        self._control = ControlSession(sessions)

    # ------------------------------------------------------------------ a copy begins

    async def begin(self, effect: BeginCopy) -> Failure | None:
        """Begin a copy: delete rows, store how tables are split, save the checkpoint."""
        return await self._control.do(lambda session: self._begin(session, effect))

    async def _begin(self, session: TargetSession, effect: BeginCopy) -> Failure | None:
        emptied = [split.table for split in effect.splits if not split.keeps_target_rows]
        for split in effect.splits:
            if split.empty and await session.connection.fetchval(f"SELECT 1 FROM {qualified(split.table)} LIMIT 1"):
                return Failure(ErrorKind.TARGET, holds_rows(split.table))
        emptied_now = [split.table for split in effect.splits if not split.keeps_target_rows and not split.empty]
        if swept := await session.connection.fetchrow(_CASCADES, [qualified(table) for table in emptied]):
            return Failure(
                ErrorKind.TARGET,
                f"{swept[0]} is not copied, and a foreign key would delete or change its rows with those of {swept[1]}",
            )
        ordered = await _children_first(session, emptied_now)
        position = msgspec.json.encode(effect.position).decode()
        self._audit.checkpoint_sent(effect.position, effect.drop)
        await session.run(
            [
                "BEGIN",
                *self._bookkeeping.receipt(effect.id, NOTHING),
                *self._bookkeeping.save_checkpoint(effect.id.epoch, position, (*effect.drop, effect.id)),
                *(f"DELETE FROM {qualified(table)}" for table in ordered),
                *(self._bookkeeping.empty(table) for table in emptied),
                *(text for split in effect.splits for text in self._bookkeeping.copies.begin(split)),
                "COMMIT",
            ]
        )
        self._audit.checkpoint_stored()
        for table in emptied_now:
            await _tend(session, f"VACUUM {qualified(table)}")
        return None

    async def refuse(self, epoch: int, tables: Sequence[TableName], alarm: Alarm) -> Failure | None:
        """Mark what asks for these tables as refused."""
        statements = [*self._bookkeeping.fence(epoch), *self._bookkeeping.copies.refuse(tables, alarm)]
        return await self._control.do(lambda session: session.run(["BEGIN", *statements, "COMMIT"]))

    # ------------------------------------------------------------------ a chunk is merged

    async def merge(self, effect: MergeChunk) -> Failure | None:
        """Merge a staged chunk and save the checkpoint."""
        try:
            return await self._control.do(lambda session: self._merge_once(session, effect))
        except Unwritable as error:
            return Failure(ErrorKind.ROW, str(error))

    async def _merge_once(self, session: TargetSession, effect: MergeChunk) -> None:
        position = msgspec.json.encode(effect.position).decode()
        self._audit.checkpoint_sent(effect.position, effect.drop)
        try:
            await session.run(["BEGIN", *self._bookkeeping.receipt(effect.id, NOTHING)])
        except asyncpg.UniqueViolationError as error:
            if not self._bookkeeping.is_receipt(error):
                raise
            await session.rollback()
        else:
            await self._merge(session, effect)
            ending = self._bookkeeping.save_checkpoint(effect.id.epoch, position, effect.drop)
            async with self._audit.confirmed(session):
                await session.run([*ending, "COMMIT"])
        self._audit.checkpoint_stored()
        self._audit.add(effect.id)
        table = effect.split.table
        if effect.split.by is not By.KEYS and await self._bookkeeping.copies.is_done(session.connection, table):
            await _tend(session, f"ANALYZE {qualified(table)}")

    async def find_refused(self, effect: FindRefused) -> tuple[RefusedRow, ...] | Failure:
        """Find the staged rows for which the target refuses a merge; nothing stays changed."""
        try:
            return await self._control.do(lambda session: self._find(session, effect))
        except Unwritable as error:
            return Failure(ErrorKind.ROW, str(error))

    async def _find(self, session: TargetSession, effect: FindRefused) -> tuple[RefusedRow, ...] | Failure:
        await session.run(["BEGIN", *self._bookkeeping.receipt(effect.id, NOTHING)])
        table = effect.merge.split.table
        foreign_keys = (await read_tables(session.connection, [table]))[table].foreign_keys
        merge = ChunkMerge(session, self._staging(effect.merge.staged), effect.merge, self._zero_dates)
        search = RefusedRows(session, self._staging(effect.merge.staged), effect, foreign_keys, merge)
        try:
            return await search.find()
        except (Untold, NotSpelled) as error:
            return Failure(ErrorKind.ROW, str(error))
        finally:
            await session.rollback()

    async def _merge(self, session: TargetSession, effect: MergeChunk) -> None:
        """Merge behind the receipt.  Raises LostCommits, Unwritable."""
        bookkeeping = self._bookkeeping
        rows = await ChunkMerge(session, self._staging(effect.staged), effect, self._zero_dates).run()
        merged = bookkeeping.copies.merged(effect.split.table, effect.chunk, rows)
        told = bookkeeping.copies.leave(effect.split.table, effect.unrepaired)
        await session.run([*bookkeeping.park(effect.parked), *bookkeeping.unpark(effect.unparked), merged, *told])

    # ------------------------------------------------------------------ what lies about

    async def drop(self, staged: EffectId) -> None:
        """Drop what one attempt has staged, as well as may be."""
        statements = self._bookkeeping.copies.drop([self._staging(staged).table])
        failure = await self._control.do(lambda session: session.run(statements))
        if failure is not None:
            log.warning("a staging table could not be dropped, the next takeover does it: %s", failure.message)

    def _staging(self, attempt: EffectId) -> TableName:
        bookkeeping = self._bookkeeping
        return TableName(bookkeeping.schema, staged_name(bookkeeping.feed, bookkeeping.group, attempt))

    async def rest(self) -> None:
        """Close the session where there is nothing to copy."""
        await self._control.rest(IDLE_SECONDS)

    async def close(self) -> None:
        """A merge that runs is rolled back."""
        self._control.interrupt()
        await self._control.close()


async def _children_first(session: TargetSession, names: Sequence[TableName]) -> list[TableName]:
    tables = await read_tables(session.connection, names)
    ranks = Ranks(tables, {})
    return [name for name in names if name not in tables] + sorted(tables, key=ranks.of, reverse=True)


async def _tend(session: TargetSession, statement: str) -> None:
    """Run VACUUM or ANALYZE for those who read the table; whoever does not own it may not."""
    try:
        await session.connection.execute(statement)
    except SERVER_ERRORS as error:
        log.warning("%s failed: %s", statement, error)
