"""Batches in which changes are decided about, or rows are told to a spoke, at MySQL and MariaDB.

Such a batch is one transaction as any other, its receipt first, but it looks before it writes: the rows that a change
meets are locked and read, then written; all that is told is read last, as it stands.

What is told must be true when the transaction commits.  A row that is there is locked.  That there is none is certain
only at REPEATABLE READ, where a locking read that finds nothing locks the gap in its index, so that nobody inserts one.
Two that have locked one gap and then insert there wait for each other, and where many decide at once most would.  So a
batch is tried at READ COMMITTED, where a row that was inserted meanwhile is a duplicate and all is decided anew; if
it must tell that there is no row, or meets such rows again and again, it runs again at REPEATABLE READ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.commit_audit import CommitAudit
from tidelock.adapters.mysql.target.conflict_bookkeeping import ConflictSql
from tidelock.adapters.mysql.target.conflict_statements import ConflictStatements
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, is_deadlock, is_duplicate, outcome
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.statements import TableStatements
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

_GAPS_ARE_LOCKED = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"  # the next one alone
ATTEMPTS: Final = 3
"""Decisions of a batch whose rows others insert meanwhile, before nobody is let."""


class _Uncertain(Exception):
    """There is no row to tell, and somebody may insert one."""


class Arbitration:
    """Carries out the batches of a sink that decide or tell."""

    def __init__(
        self,
        bookkeeping: BookkeepingSql,
        conflicts: ConflictSql,
        audit: CommitAudit,
        statements: Callable[[Binding], TableStatements],
        checked: Callable[[Binding], CheckedStatements],
    ) -> None:
        """`statements`, `checked`: as of a `BatchScript`."""
        self._bookkeeping = bookkeeping
        self._conflicts = conflicts
        self._audit = audit
        self._statements = statements
        self._checked = checked
        self._tables = StatementsByTable(ConflictStatements)

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._tables.forget()

    async def apply(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchFailed:
        """Apply such a batch."""
        deadlocks = duplicates = 0
        certain = bool(effect.told)
        while True:
            try:
                found = await self._attempt(lane, effect, certain=certain)
            except _Uncertain:
                await lane.leave()
                certain = True
            except CommittedBefore:
                await lane.leave()
                return await self._committed_before(lane, effect)
            except (NotSpelled, TableChanged) as error:
                await lane.leave()
                return BatchFailed(effect.id, told_failure(error))
            except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                await lane.leave()
                if not certain and is_duplicate(error):
                    duplicates += 1
                    certain = duplicates == ATTEMPTS
                    continue
                deadlocks += 1
                if not is_deadlock(error) or deadlocks == DEADLOCKS_MAX:
                    return BatchFailed(effect.id, outcome(error))
            else:
                self._audit.add(effect.id)
                return BatchCommitted(effect.id, decided=tuple(found))

    async def _committed_before(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchFailed:
        try:
            changes = [change.parked for change in effect.decide]
            found = [await self._conflicts.decided_before(await lane.ready(), change) for change in changes]
        except (Fenced, *SERVER_ERRORS) as error:
            await lane.leave()
            return BatchFailed(effect.id, outcome(error))
        self._audit.add(effect.id)
        return BatchCommitted(effect.id, decided=tuple(found))

    async def _attempt(self, lane: Lane, effect: ApplyBatch, *, certain: bool) -> list[Decided]:
        session = await lane.ready()
        receipt = self._bookkeeping.receipt(session, effect.id, effect.covered, effect.origin, effect.seen)
        before = _GAPS_ARE_LOCKED if certain else b""
        batch = BatchScript(session, self._statements, receipt, self._checked, before=before)
        await batch.run(effect.steps)
        work = _Work(session, batch, self._conflicts, effect, certain)

        def statements_of(table: Binding) -> ConflictStatements:
            return self._tables.of(table, session.dialect, session.packet_bytes)

        found = await work.decide_and_tell(statements_of)
        parked = work.parked(found)
        for sql in (*work.statements, *self._bookkeeping.park(parked), *self._bookkeeping.unpark(effect.unparked)):
            batch.add(sql, "tidelock's own tables")
        async with self._audit.confirmed(session):
            await batch.commit()
        return found


class _Work(RowsTold[ConflictStatements, bytes]):
    """One transaction that decides or tells.  `certain`: nobody can insert a row that is not there."""

    unwritable = Unwritable

    def __init__(
        self, session: TargetSession, batch: BatchScript, conflicts: ConflictSql, effect: ApplyBatch, certain: bool
    ) -> None:
        super().__init__(conflicts, effect)
        self._certain = certain
        self._session = session
        self.batch = batch

    async def _ask(self, queries: Sequence[tuple[ConflictStatements, bytes]]) -> list[Sequence[Sequence[Any]]]:
        return [answer.rows for answer in await self.batch.ask_all(queries)]

    async def _found(
        self, statements: ConflictStatements, change: DecideChange, values: Sequence[Any]
    ) -> tuple[Row, Writer]:
        return statements.row(values), NOT_TOLD

    async def _write(self, steps: Sequence[Step]) -> None:
        for step in steps:
            await self.batch.write(step)

    def _check_told(self, rows: Sequence[ToldRow]) -> None:
        if not self._certain and any(row.image is None for row in rows):
            raise _Uncertain

    async def _columns(self, statements: ConflictStatements) -> Sequence[str]:
        await self.batch.rows(statements, [statements.no_rows()])
        return self._session.names
