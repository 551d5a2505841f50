"""Batches in which changes are decided about, or rows are told to a spoke, at PostgreSQL.

Such a batch is one transaction as any other, its receipt first, but it looks before it writes: the rows that a change
meets are locked and read, then written; all that is told is read last, as it stands.

What is told must be true when the transaction commits.  A row that is there is locked.  That there is none is certain
only while nobody else can insert one, so then the whole transaction runs again behind a lock of the table, which is
taken before any row's: who holds rows and waits for the table may be waited for by a writer of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from tidelock.adapters.postgres.target.batch_script import BatchScript
from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.commit_audit import CommitAudit, LostCommits
from tidelock.adapters.postgres.target.conflict_bookkeeping import ConflictSql
from tidelock.adapters.postgres.target.conflict_statements import ConflictStatements
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.lane import Lane
from tidelock.adapters.postgres.target.outcomes import outcome
from tidelock.adapters.postgres.target.row_writers import WritersSql
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.conflict_records import ToldRow
from tidelock.adapters.target.rows_told import RowsTold, TableChanged, told_failure
from tidelock.adapters.target.statements_by_table import StatementsByTable
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Decided
from tidelock.engine.protocol.steps import DecideChange, Step
from tidelock.engine.two_way.conflicts import NOT_TOLD, Writer

LOCK_SECONDS = 2
"""How long a lock of a table is waited for, as who wants to write to it waits behind us."""
ATTEMPTS = 3
"""Decisions of a batch whose rows others write meanwhile, before the engine hears of it."""


class _Uncertain(Exception):
    """There is no row to tell, and somebody may insert one."""


class Arbitration:
    """Carries out the batches of a sink that decide or tell."""

    def __init__(
        self,
        bookkeeping: BookkeepingSql,
        conflicts: ConflictSql,
        script: BatchScript,
        audit: CommitAudit,
        zero_dates: ZeroDates,
        writers: WritersSql,
    ) -> None:
        self._writers = writers
        self._bookkeeping = bookkeeping
        self._conflicts = conflicts
        self._script = script
        self._audit = audit
        self._zero_dates = zero_dates
        self._tables = StatementsByTable(ConflictStatements)

    async def apply(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchFailed:
        """Apply such a batch."""
        certain, attempts = False, 0
        while True:
            try:
                found = await self._attempt(lane, effect, certain=certain)
            except _Uncertain:
                await lane.leave()
                certain = True
            except asyncpg.UniqueViolationError as error:
                await lane.leave()
                attempts += 1
                if self._bookkeeping.is_receipt(error):
                    return await self._committed_before(lane, effect)
                if not effect.decide or attempts == ATTEMPTS:
                    return BatchFailed(effect.id, outcome(error, committing=False))
            except (NotSpelled, TableChanged) as error:
                await lane.leave()
                return BatchFailed(effect.id, told_failure(error))
            except (LostCommits, Unwritable, *SERVER_ERRORS) as error:
                await lane.leave()
                return BatchFailed(effect.id, outcome(error, committing=True))
            else:
                self._audit.add(effect.id)
                return BatchCommitted(effect.id, decided=tuple(found))

    async def _committed_before(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchFailed:
        try:
            changes = [change.parked for change in effect.decide]
            found = [
                await self._conflicts.decided_before((await lane.ready()).connection, change) for change in changes
            ]
        except (LostCommits, *SERVER_ERRORS) as error:
            return BatchFailed(effect.id, outcome(error, committing=True))
        self._audit.add(effect.id)
        return BatchCommitted(effect.id, decided=tuple(found))

    async def _attempt(self, lane: Lane, effect: ApplyBatch, *, certain: bool) -> list[Decided]:
        session = await lane.ready()
        begin = self._script.before(effect.id, effect.covered, effect.origin, effect.seen)
        locks = self._locks(effect) if certain else []
        steps = list(self._script.steps.of(effect.steps, careful=True))
        lane.left_open = True
        await session.run([*begin, *locks, *steps])
        work = _Work(session, self._script, self._conflicts, self._writers, effect, certain)
        found = await work.decide_and_tell(self._of)
        parked = work.parked(found)
        async with self._audit.confirmed(session):
            await session.run([*work.statements, *self._script.after(parked, effect.unparked, held=False)])
        lane.left_open = False
        return found

    def _locks(self, effect: ApplyBatch) -> list[str]:
        tables = {rows.table for rows in effect.told} | {change.table for change in effect.decide}
        names = {self._of(table).lock_table() for table in tables}
        return [f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'", *sorted(names)]

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._tables.forget()

    def _of(self, table: Binding) -> ConflictStatements:
        return self._tables.of(table, self._zero_dates)


class _Work(RowsTold[ConflictStatements, str]):
    """One transaction that decides or tells.  `certain`: nobody can insert a row that is not there."""

    unwritable = Unwritable

    def __init__(
        self,
        session: TargetSession,
        script: BatchScript,
        conflicts: ConflictSql,
        writers: WritersSql,
        effect: ApplyBatch,
        certain: bool,
    ) -> None:
        super().__init__(conflicts, effect)
        self._session = session
        self._script = script
        self._conflicts = conflicts
        self._writers = writers
        self._certain = certain

    async def _ask(self, queries: Sequence[tuple[ConflictStatements, str]]) -> list[Sequence[Sequence[Any]]]:
        return [await self._session.connection.fetch(sql) for _, sql in queries]

    async def _found(
        self, statements: ConflictStatements, change: DecideChange, values: Sequence[Any]
    ) -> tuple[Row, Writer]:
        return statements.row(values[1:]), await self._writer(change, values[0])

    async def _writer(self, change: DecideChange, xid: str) -> Writer:
        """Tell who wrote a row that is locked, in a statement of its own: it sees what was committed until now."""
        if change.clock is None:
            return NOT_TOLD
        found = await self._session.connection.fetchrow(self._writers.writer(xid))
        return self._writers.told(found or (None, None, None))

    async def _write(self, steps: Sequence[Step]) -> None:
        if steps:
            written = self._script.steps.of(steps, careful=True)
            await self._session.run([*written, "SET CONSTRAINTS ALL IMMEDIATE"])

    def _check_told(self, rows: Sequence[ToldRow]) -> None:
        if not self._certain and any(row.image is None for row in rows):
            raise _Uncertain

    async def _columns(self, statements: ConflictStatements) -> Sequence[str]:
        return [str(row[0]) for row in await self._session.connection.fetch(statements.columns())]
