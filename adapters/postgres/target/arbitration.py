"""Batches in which changes are decided about, or rows are told to a spoke, at PostgreSQL.

Such a batch is one transaction as any other, its receipt first, but it looks before it writes: the rows that a change
meets are locked and read, then written; all that is told is read last, as it stands.

What is told must be true when the transaction commits.  A row that is there is locked.  That there is none is certain
only while nobody else can insert one, so then the whole transaction runs again behind a lock of the table, which is
taken before any row's: who holds rows and waits for the table may be waited for by a writer of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from tidelock.adapters.target.conflict_records import decided, packed
from tidelock.adapters.target.rows_told import RowsTold, TableChanged
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Decided
from tidelock.engine.protocol.steps import DecideChange
from tidelock.engine.two_way.conflicts import NOT_TOLD, Holder, Met, Writer
from tidelock.engine.two_way.deciding import decided_steps, judged, kept_out

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
        self._tables: dict[Binding, ConflictStatements] = {}

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
            except NotSpelled as error:
                await lane.leave()
                return BatchFailed(effect.id, Failure(ErrorKind.ROW, str(error)))
            except TableChanged as error:
                await lane.leave()
                return BatchFailed(effect.id, error.failure)
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
        work = _Work(session, self._conflicts, effect, certain)
        found = [await self._decide(work, change) for change in effect.decide]
        for rows in effect.told:
            work.tell(self._of(rows.table), rows.keys)
        await work.tell_all()
        decided_to_park = [c.parked for c, answer in zip(effect.decide, found, strict=True) if answer.parked]
        parked = [*effect.parked, *decided_to_park]
        async with self._audit.confirmed(session):
            await session.run([*work.statements, *self._script.after(parked, effect.unparked, held=False)])
        lane.left_open = False
        return found

    def _locks(self, effect: ApplyBatch) -> list[str]:
        tables = {rows.table for rows in effect.told} | {change.table for change in effect.decide}
        names = {self._of(table).lock_table() for table in tables}
        return [f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'", *sorted(names)]

    async def _decide(self, work: _Work, change: DecideChange) -> Decided:
        statements = self._of(change.table)
        if change.refused:
            decision = kept_out(change)
        else:
            met = await self._met(work.session, statements, change)
            decision = judged(change, met)
            steps = decided_steps(change.table, met, decision)
            await work.session.run([*self._script.steps.of(steps, careful=True), "SET CONSTRAINTS ALL IMMEDIATE"])
        await work.conclude(statements, change, decision)
        return decided(decision)

    async def _met(self, session: TargetSession, statements: ConflictStatements, change: DecideChange) -> Met:
        """Lock and read what the change meets."""
        image = change.before if change.before is not None else change.after
        assert image is not None, "a change has an image"
        key = change.table.key_of(image)
        found = await session.connection.fetchrow(statements.met(change.before, key))
        row, writer = None, NOT_TOLD
        if found is not None:
            row, writer = statements.row(found[2:]), await self._writer(session, change, found[1])
        holders = list[Holder]()
        for columns, query in statements.others(change.after, key) if change.after is not None else ():
            for xid, *texts in await session.connection.fetch(query):
                by = await self._writer(session, change, xid)
                holders.append(Holder(columns, statements.row(texts), by))
        return Met(row, unseen=found is not None and not found[0], holders=tuple(holders), writer=writer)

    async def _writer(self, session: TargetSession, change: DecideChange, xid: str) -> Writer:
        """Tell who wrote a row that is locked, in a statement of its own: it sees what was committed until now."""
        if change.clock is None:
            return NOT_TOLD
        return self._writers.told(await session.connection.fetchrow(self._writers.writer(xid)) or (None, None, None))

    def forget_tables(self) -> None:
        """Forget the tables as they were."""
        self._tables.clear()

    def _of(self, table: Binding) -> ConflictStatements:
        statements = self._tables.get(table)
        if statements is None:
            statements = self._tables[table] = ConflictStatements(table, self._zero_dates)
        return statements


class _Work(RowsTold[ConflictStatements, str]):
    """One transaction that decides or tells.  `certain`: nobody can insert a row that is not there."""

    unwritable = Unwritable

    def __init__(self, session: TargetSession, conflicts: ConflictSql, effect: ApplyBatch, certain: bool) -> None:
        super().__init__(conflicts, effect)
        self.session = session
        self._conflicts = conflicts
        self._certain = certain

    async def _tell(self, statements: ConflictStatements, key: Row, ordinal: int) -> None:
        try:
            image = await self._image(statements, key)
            query = statements.key_texts(key)
        except Unwritable:
            return
        if image is None and not self._certain:
            raise _Uncertain
        texts: Sequence[str | None] = await self.session.connection.fetchrow(query) or ()
        names = [statements.binding.shape.columns[i].name for i in statements.binding.key]
        row_key = packed(dict(zip(names, texts, strict=True)))
        assert row_key is not None, "a table of such a feed has a key"
        name = statements.binding.name
        self.statements.append(self._conflicts.tell(self._effect.id, ordinal, name, row_key, image))

    async def _columns(self, statements: ConflictStatements) -> Sequence[str]:
        return [str(row[0]) for row in await self.session.connection.fetch(statements.columns())]

    async def _image(self, statements: ConflictStatements, key: Row) -> bytes | None:
        found = await self.session.connection.fetchrow(statements.image(key))
        return None if found is None else packed(dict(zip(statements.told, found, strict=True)))
