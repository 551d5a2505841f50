"""Batches in which changes are decided about, or rows are told to a spoke, at MySQL and MariaDB.

Such a batch is one transaction as any other, its receipt first, but it looks before it writes: the rows that a change
meets are locked and read, then written; all that is told is read last, as it stands.

It runs at REPEATABLE READ, where a locking read that finds nothing locks the gap in its index: so nobody can insert a
row that was looked for and not found, before the transaction commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.commit_audit import CommitAudit
from tidelock.adapters.mysql.target.conflict_bookkeeping import ConflictSql
from tidelock.adapters.mysql.target.conflict_statements import ConflictStatements, image_value
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, is_deadlock, outcome
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.conflict_records import decided, packed
from tidelock.adapters.target.rows_told import RowsTold, TableChanged
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Decided
from tidelock.engine.protocol.steps import DecideChange
from tidelock.engine.two_way.conflicts import Holder, Met
from tidelock.engine.two_way.deciding import decided_steps, judged, kept_out

_GAPS_ARE_LOCKED = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"  # the next one alone


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
        self._tables: dict[Binding, ConflictStatements] = {}

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._tables.clear()

    async def apply(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchFailed:
        """Apply such a batch."""
        deadlocks = 0
        while True:
            try:
                found = await self._attempt(lane, effect)
            except CommittedBefore:
                await lane.leave()
                return await self._committed_before(lane, effect)
            except NotSpelled as error:
                await lane.leave()
                return BatchFailed(effect.id, Failure(ErrorKind.ROW, str(error)))
            except TableChanged as error:
                await lane.leave()
                return BatchFailed(effect.id, error.failure)
            except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                await lane.leave()
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

    async def _attempt(self, lane: Lane, effect: ApplyBatch) -> list[Decided]:
        session = await lane.ready()
        await session.ask(_GAPS_ARE_LOCKED)
        receipt = self._bookkeeping.receipt(session, effect.id, effect.covered, effect.origin, effect.seen)
        batch = BatchScript(session, self._statements, receipt, self._checked)
        await batch.run(effect.steps)
        work = _Work(session, batch, self._conflicts, effect)
        found = [await self._decide(session, work, change) for change in effect.decide]
        for rows in effect.told:
            work.tell(self._of(session, rows.table), rows.keys)
        await work.tell_all()
        decided_to_park = [c.parked for c, answer in zip(effect.decide, found, strict=True) if answer.parked]
        parked = [*effect.parked, *decided_to_park]
        for sql in (*work.statements, *self._bookkeeping.park(parked), *self._bookkeeping.unpark(effect.unparked)):
            batch.add(sql, "tidelock's own tables")
        async with self._audit.confirmed(session):
            await batch.commit()
        return found

    async def _decide(self, session: TargetSession, work: _Work, change: DecideChange) -> Decided:
        statements = self._of(session, change.table)
        if change.refused:
            decision = kept_out(change)
        else:
            met = await work.met(statements, change)
            decision = judged(change, met)
            for step in decided_steps(change.table, met, decision):
                await work.batch.write(step)
        await work.conclude(statements, change, decision)
        return decided(decision)

    def _of(self, session: TargetSession, table: Binding) -> ConflictStatements:
        statements = self._tables.get(table)
        if statements is None:
            made = ConflictStatements(table, session.dialect, session.packet_bytes)
            statements = self._tables[table] = made
        return statements


class _Work(RowsTold[ConflictStatements, bytes]):
    """One transaction that decides or tells."""

    unwritable = Unwritable

    def __init__(
        self, session: TargetSession, batch: BatchScript, conflicts: ConflictSql, effect: ApplyBatch
    ) -> None:
        super().__init__(conflicts, effect)
        self._session = session
        self.batch = batch
        self._conflicts = conflicts

    async def met(self, statements: ConflictStatements, change: DecideChange) -> Met:
        """Lock and read what the change meets."""
        image = change.before if change.before is not None else change.after
        assert image is not None, "a change has an image"
        key = change.table.key_of(image)
        found = await self.batch.rows(statements, [statements.met(change.before, key)])
        row = statements.row(found[0][1:]) if found else None
        holders = list[Holder]()
        for columns, query in statements.others(change.after, key) if change.after is not None else ():
            holders += [Holder(columns, statements.row(held)) for held in await self.batch.rows(statements, [query])]
        return Met(row, unseen=bool(found) and not found[0][0], holders=tuple(holders))

    async def _tell(self, statements: ConflictStatements, key: Row, ordinal: int) -> None:
        try:
            query = statements.key_texts(key)
            image = await self._image(statements, key)
        except Unwritable:
            return
        (texts,) = await self.batch.rows(statements, [query])
        names = [statements.table.shape.columns[i].name for i in statements.table.key]
        row_key = packed(_named(names, texts))
        assert row_key is not None, "a table of such a feed has a key"
        self.statements.append(
            self._conflicts.tell(self._effect.id, ordinal, statements.table.name, row_key, image)
        )

    async def _columns(self, statements: ConflictStatements) -> Sequence[str]:
        await self.batch.rows(statements, [statements.no_rows()])
        return self._session.names

    async def _image(self, statements: ConflictStatements, key: Row) -> bytes | None:
        found = await self.batch.rows(statements, [statements.image(key)])
        return packed(_named(statements.told, found[0])) if found else None


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, str | bytes | None]:
    return {name: image_value(value) for name, value in zip(names, values, strict=True)}
