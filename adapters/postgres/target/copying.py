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

from tidelock.adapters.ports.staging import staged_name
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.postgres.target.bookkeeping_sql import Books
from tidelock.adapters.postgres.target.chunk_merge import CLASHES, Merge
from tidelock.adapters.postgres.target.commit_audit import LostCommits, Reported
from tidelock.adapters.postgres.target.control_session import Clerk
from tidelock.adapters.postgres.target.failures import CONNECTION_ERRORS
from tidelock.adapters.postgres.target.lane import SessionSource
from tidelock.adapters.postgres.target.session import Session
from tidelock.adapters.postgres.target.statements import qualified
from tidelock.adapters.postgres.target.values import BadValue, ZeroDates
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.protocol.effects import BeginCopy, EffectId, MergeChunk

log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
_CASCADES = """
SELECT child.oid::regclass::text, parent.oid::regclass::text FROM pg_constraint k
JOIN pg_class child ON child.oid = k.conrelid JOIN pg_class parent ON parent.oid = k.confrelid
WHERE k.contype = 'f' AND k.conparentid = 0 AND k.confdeltype IN ('c', 'n', 'd')
    AND k.confrelid = ANY ($1::text[]::regclass[]::oid[]) AND k.conrelid <> ALL ($1::text[]::regclass[]::oid[])
ORDER BY 1, 2 LIMIT 1"""


class Copying:
    """`None` answers for success; a session that is not used is closed by `rest`."""

    def __init__(self, sessions: SessionSource, books: Books, reported: Reported, zero_dates: ZeroDates) -> None:
        self._books = books
        self._reported = reported
        self._zero_dates = zero_dates
        self._clerk = Clerk(sessions, books)

    # ------------------------------------------------------------------ a copy begins

    async def begin(self, effect: BeginCopy) -> Failure | None:
        return await self._clerk.do(lambda session: self._begin(session, effect))

    async def _begin(self, session: Session, effect: BeginCopy) -> Failure | None:
        emptied = [split.table for split in effect.splits if not split.keeps_target_rows]
        if swept := await session.connection.fetchrow(_CASCADES, [qualified(table) for table in emptied]):
            return Failure(
                ErrorKind.TARGET,
                f"{swept[0]} is not copied, and a foreign key would delete or change its rows with those of {swept[1]}",
            )
        ordered = await _children_first(session, emptied)
        position = msgspec.json.encode(effect.position).decode()
        self._reported.leave(position, effect.drop)
        await session.run(
            [
                "BEGIN",
                *self._books.receipt(effect.id, NOTHING),
                *self._books.save_checkpoint(effect.id.epoch, position, (*effect.drop, effect.id)),
                *(f"DELETE FROM {qualified(table)}" for table in ordered),
                *(self._books.empty(table) for table in emptied),
                *(text for split in effect.splits for text in self._books.copies.begin(split)),
                "COMMIT",
            ]
        )
        self._reported.left()
        for table in emptied:
            await _tend(session, f"VACUUM {qualified(table)}")
        return None

    async def refuse(self, epoch: int, tables: Sequence[TableName], alarm: Alarm) -> Failure | None:
        statements = [*self._books.fence(epoch), *self._books.copies.refuse(tables, alarm)]
        return await self._clerk.do(lambda session: session.run(["BEGIN", *statements, "COMMIT"]))

    # ------------------------------------------------------------------ a chunk is merged

    async def merge(self, effect: MergeChunk) -> Failure | None:
        try:
            return await self._clerk.do(lambda session: self._merge_once(session, effect))
        except BadValue as error:
            return Failure(ErrorKind.ROW, str(error))

    async def _merge_once(self, session: Session, effect: MergeChunk) -> None:
        position = msgspec.json.encode(effect.position).decode()
        self._reported.leave(position, effect.drop)
        try:
            await session.run(["BEGIN", *self._books.receipt(effect.id, NOTHING)])
        except asyncpg.UniqueViolationError as error:
            if not self._books.is_receipt(error):
                raise
            await session.rollback()
        else:
            await self._merge(session, effect)
            ending = self._books.save_checkpoint(effect.id.epoch, position, effect.drop)
            await self._reported.run(session, [*ending, "COMMIT"])
        self._reported.left()
        self._reported.add(effect.id)
        if effect.split.by is not By.KEYS and await self._books.copies.is_done(session.connection, effect.split.table):
            await _tend(session, f"ANALYZE {qualified(effect.split.table)}")

    async def _merge(self, session: Session, effect: MergeChunk) -> None:
        """Raises LostCommits, BadValue."""
        copies, books = self._books.copies, self._books
        staged = TableName(books.schema, staged_name(books.feed, books.group, effect.staged))
        columns = await copies.staged(session.connection, staged.table)
        merge = Merge(effect, staged, columns, self._zero_dates)
        if not columns or await session.connection.fetchval(merge.rows) != effect.rows:
            raise LostCommits
        await session.run(merge.prepare())
        if effect.split.by is By.KEYS:
            await self._write_over(session, merge)
        else:
            await session.run([merge.insert()])
        merged = copies.merged(effect.split.table, effect.chunk, merge.rows)
        await session.run([*books.park(effect.parked), *books.unpark(effect.unparked), merged])

    async def _write_over(self, session: Session, merge: Merge) -> None:
        try:
            await session.run(["SAVEPOINT rows", *merge.in_place()])
        except asyncpg.PostgresError as error:
            if error.sqlstate not in CLASHES:
                raise
            await session.run(["ROLLBACK TO SAVEPOINT rows", *merge.anew()])

    # ------------------------------------------------------------------ what lies about

    async def drop(self, staged: EffectId) -> None:
        books = self._books
        statements = books.copies.drop([staged_name(books.feed, books.group, staged)])
        failure = await self._clerk.do(lambda session: session.run(statements))
        if failure is not None:
            log.warning("a staging table could not be dropped, the next takeover does it: %s", failure.message)

    async def rest(self) -> None:
        """Close the session where there is nothing to copy."""
        await self._clerk.rest(IDLE_SECONDS)

    async def close(self) -> None:
        """A merge that runs is rolled back."""
        self._clerk.interrupt()
        await self._clerk.close()


async def _children_first(session: Session, names: Sequence[TableName]) -> list[TableName]:
    tables = await read_tables(session.connection, names)
    ranks = Ranks(tables, {})
    return [name for name in names if name not in tables] + sorted(tables, key=ranks.of, reverse=True)


async def _tend(session: Session, statement: str) -> None:
    """For the sake of those who read the table; whoever does not own it may not."""
    try:
        await session.connection.execute(statement)
    except CONNECTION_ERRORS as error:
        log.warning("%s failed: %s", statement, error)
