"""The MySQL and MariaDB target: carries out the apply machine's effects (`adapters.ports.sink.Sink`).

A batch is one transaction on its lane's session and mostly two round trips (`batch_script`).  Where the server rolls
one back to end a deadlock, nothing is in doubt and nothing of it is left: it is sent again at once, in its turn
(`deadlock_gate`).

After any failure the lane's session is rolled back, or dropped.  A dropped session may live on at the server, so the
next one on that lane ends it first (`fencing`): an in-doubt batch is retried only when its outcome stands.

MySQL and MariaDB hold zero dates, so `zero_dates` changes nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.mysql.schema import read_tables_to_change
from tidelock.adapters.mysql.target.arbitration import Arbitration
from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.mysql.target.commit_audit import CommitAudit
from tidelock.adapters.mysql.target.conflict_bookkeeping import ConflictSql
from tidelock.adapters.mysql.target.control_session import ControlSession
from tidelock.adapters.mysql.target.copying import TargetCopying
from tidelock.adapters.mysql.target.ddl import DdlRunner, Translated
from tidelock.adapters.mysql.target.deadlock_gate import DeadlockGate
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS, commit_failure
from tidelock.adapters.mysql.target.fencing import CONTROL, SESSIONS_MAX, Fenced, Fencing
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.new_schemas import with_schemas
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, is_deadlock, is_duplicate, is_referred_to, outcome
from tidelock.adapters.mysql.target.referring_rows import clear
from tidelock.adapters.mysql.target.session import StatementFailed, TargetSession
from tidelock.adapters.mysql.target.stamped_statements import StampedStatements
from tidelock.adapters.mysql.target.statements import Dialect, TableStatements
from tidelock.adapters.mysql.target.suspect_scan import SuspectScan
from tidelock.adapters.mysql.target.takeover import Takeover
from tidelock.adapters.ports.sink import BatchAnswer, Control
from tidelock.adapters.target import referring_rows
from tidelock.adapters.target.chunks import ChunkSink
from tidelock.adapters.target.displaced import any_displaces
from tidelock.adapters.target.lane import open_ahead
from tidelock.adapters.target.options import SinkOptions
from tidelock.adapters.target.referring_rows import going
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol import effects, events

log = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 30
PIECE = "tidelock_piece"
HALT_ATTEMPTS = 3
RETRY_SECONDS = 0.5
PIECE_ATTEMPTS = 3


class MySqlSink(ChunkSink):
    """Carries out effects at a MySQL or MariaDB target (`adapters.ports.sink.Sink`)."""

    def __init__(self, url: Endpoint | str, options: SinkOptions) -> None:
        """Raises ValueError for too many lanes, UrlError for a URL that cannot be read."""
        lanes, schema = options.lanes, options.schema
        wait = int(options.lock_timeout_seconds or LOCK_TIMEOUT_SECONDS)
        if not 0 < lanes < SESSIONS_MAX - 2:
            raise ValueError(f"lanes: {lanes} is not from 1 to {SESSIONS_MAX - 3}")
        self._endpoint = url if isinstance(url, Endpoint) else parse(url, Path())
        self._fencing = Fencing(
            self._endpoint, options.feed, options.group, schema, wait, options.entry, options.stamps
        )
        self._bookkeeping = BookkeepingSql(self._fencing, options)
        self._audit = CommitAudit(self._fencing)
        self._fencing.verify = self._audit.verify
        ddl_number = CONTROL + 1 + lanes
        self._copying = TargetCopying(
            self._fencing, self._bookkeeping, self._audit, ddl_number + 1, self._statements_of
        )
        super().__init__(self._copying)
        self._lanes = [Lane(self._fencing, CONTROL + 1 + n) for n in range(lanes)]
        self._eager = self._lanes if options.eager else []
        self._control = ControlSession(self._fencing)
        self._ddl = DdlRunner(self._control, self._fencing, self._bookkeeping, ddl_number)
        self._takeover = Takeover(self._fencing, self._bookkeeping, self._control, self._copying)
        self._target_name, self._rules = options.target_name, options.ddl
        self._statements: dict[Binding, TableStatements] = {}
        self._checked: dict[Binding, StampedStatements] = {}
        conflicts = ConflictSql(schema, options.feed, options.group, options.sites)
        self._arbitration = Arbitration(
            self._bookkeeping, conflicts, self._audit, self._statements_of, self._checked_of
        )
        self._scan = SuspectScan()
        self._gate = DeadlockGate()
        self._arbitrates = options.arbitrates
        self._last_control = Control("running", ())

    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> events.TakenOver:
        """Become the owner, and read what is there.  Raises Overtaken, TargetError."""
        async with self._control.turn:
            await self._drop_all()
            taken = await self._takeover.run(tables, start)
            self._copying.tables = taken.tables
            self._audit.begin(taken.checkpoint)
            open_ahead(self._eager)
            return taken

    async def apply(self, effect: effects.ApplyBatch) -> BatchAnswer:
        """Apply a batch.  Raises CancelledError where its rollback came meanwhile, which is answered instead."""
        lane = self._lanes[effect.lane]
        work = self._arbitration.apply(lane, effect) if effect.looks else self._transact(lane, effect)
        return await lane.begin(effect.id, self._scan.after(lane, effect, work) if effect.scan else work)

    async def _transact(self, lane: Lane, effect: effects.ApplyBatch) -> BatchAnswer:
        deadlocks = clearings = 0
        while True:
            try:
                return await self._attempt(lane, effect)
            except CommittedBefore:
                await lane.leave()
                self._audit.add(effect.id)
                return events.BatchCommitted(effect.id)
            except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                await lane.leave()
                if is_referred_to(error) and clearings < referring_rows.ATTEMPTS and going(effect.steps):
                    clearings += 1
                    record = partial(self._bookkeeping.record_displaced, origin=effect.origin)
                    cleared = await clear(lane, effect, self._copying.tables, self._fencing, record)
                    if isinstance(cleared, Failure):
                        return events.BatchFailed(effect.id, cleared)
                    if cleared:
                        continue
                deadlocks += 1
                taken = any_displaces(effect.steps) and is_duplicate(error)  # just after its holder was looked for
                if not (taken or is_deadlock(error)) or deadlocks == DEADLOCKS_MAX:
                    return events.BatchFailed(effect.id, outcome(error))
                if not taken:
                    self._gate.deadlocked(effect.steps, again=deadlocks > 1)

    async def _attempt(self, lane: Lane, effect: effects.ApplyBatch) -> events.BatchCommitted | events.BatchReady:
        session = await lane.ready()
        receipt = self._bookkeeping.receipt(session, effect.id, effect.covered, effect.origin, effect.seen)
        with self._gate.of(() if effect.held else effect.steps) as turn:
            await turn.take()
            record = partial(self._bookkeeping.record_displaced, origin=effect.origin)
            batch = BatchScript(session, self._statements_of, receipt, self._checked_of, record)
            await batch.run(effect.steps)
            for sql in (*self._bookkeeping.park(effect.parked), *self._bookkeeping.unpark(effect.unparked)):
                batch.add(sql, "tidelock_parked")
            if effect.held:
                await batch.flush()
                lane.replaced = batch.replaced
                return events.BatchReady(effect.id)
            async with self._audit.confirmed(session):
                await batch.commit()
        self._audit.add(effect.id)
        return events.BatchCommitted(effect.id, _told(batch.replaced))

    async def apply_piece(self, effect: effects.ApplyPiece) -> events.BatchReady | events.BatchFailed:
        """Write a piece of a held batch.  Raises CancelledError as `apply` does."""
        lane = self._lanes[effect.lane]
        session = lane.session
        if session is None or not lane.held or lane.batch != effect.batch:
            return events.BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the transaction's session is gone"))
        failed = await lane.run(effect.batch, self._piece(lane, session, effect))
        return events.BatchReady(effect.id) if failed is None else events.BatchFailed(effect.id, failed)

    async def _piece(self, lane: Lane, session: TargetSession, effect: effects.ApplyPiece) -> Failure | None:
        """Write a piece; returns None where it is in the transaction.

        A row's fault leaves that as it was before; after any other it is rolled
        back.  What passes is tried again as long as the transaction stands: a deadlock ends all of it."""
        for left in reversed(range(PIECE_ATTEMPTS)):
            try:
                await session.ask(f"SAVEPOINT {PIECE}")
            except StatementFailed as failed:
                await lane.leave()
                return outcome(failed)
            try:
                await self._write_piece(lane, session, effect)
            except (BatchError, Unwritable, *SERVER_ERRORS) as error:
                found = outcome(error)
                if not await session.back_to(PIECE):
                    await lane.leave()
                    words = f"the transaction was lost: {found.message}"
                    return Failure(ErrorKind.TRANSIENT, words) if found.kind is ErrorKind.ROW else found
                if found.kind is ErrorKind.ROW:
                    return found
                if found.kind is not ErrorKind.TRANSIENT or not left:
                    await lane.leave()
                    return found
            else:
                return None
        raise AssertionError("the last attempt has an answer")

    async def _write_piece(self, lane: Lane, session: TargetSession, effect: effects.ApplyPiece) -> None:
        batch = BatchScript(session, self._statements_of, checked=self._checked_of)
        await batch.run(effect.steps)
        for sql in self._bookkeeping.park(effect.parked):
            batch.add(sql, "tidelock_parked")
        if effect.covered is not None:
            batch.add(self._bookkeeping.complete(effect.batch, effect.covered), "tidelock_progress")
        await batch.flush()
        lane.replaced += batch.replaced

    async def commit(self, effect: effects.CommitBatch) -> events.BatchCommitted | events.BatchFailed:
        """Commit a batch that is held."""
        lane = next((lane for lane in self._lanes if lane.held and lane.batch == effect.id), None)
        if lane is None or lane.session is None:
            return events.BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the batch's session is gone"))
        try:
            async with self._audit.confirmed(lane.session):
                await lane.session.commit()
        except asyncio.CancelledError:
            lane.drop()
            raise
        except StatementFailed as failed:
            await lane.leave()
            return events.BatchFailed(effect.id, commit_failure(failed.error))
        lane.held = False
        self._audit.add(effect.id)
        replaced, lane.replaced = lane.replaced, []
        return events.BatchCommitted(effect.id, _told(replaced))

    async def rollback(self, effect: effects.RollbackBatch) -> events.BatchRolledBack:
        """End a batch that still runs with its session: KILL QUERY may miss it between two statements.

        Waits for as long as the target cannot be reached: until then nobody knows that the locks are gone.
        """
        lane = next((lane for lane in self._lanes if lane.batch == effect.id), None)
        if lane is not None:
            await lane.interrupt()
            if lane.held:
                await lane.leave()
            if lane.session is None:
                await self._end(lane)
        return events.BatchRolledBack(effect.id)

    async def save_checkpoint(self, effect: effects.SaveCheckpoint) -> events.CheckpointSaved | events.CheckpointFailed:
        """Store a checkpoint and delete the receipts below it."""

        async def save(session: TargetSession) -> None:
            await self._fencing.fence(session)
            batch = BatchScript(session, self._statements_of)
            bookkeeping = self._bookkeeping
            dropped = bookkeeping.drop_receipts(effect.drop, verdicts=self._arbitrates)
            for sql in (bookkeeping.save_checkpoint(effect.position), *dropped):
                batch.add(sql, "checkpoint")
            self._audit.checkpoint_sent(effect.position, effect.drop)
            async with self._audit.confirmed(session):
                await batch.commit()
            self._audit.checkpoint_stored(effect.position, effect.drop)

        failed = await self._control.do(save)
        return events.CheckpointSaved(effect.id) if failed is None else events.CheckpointFailed(effect.id, failed)

    async def settle(self) -> Failure | None:
        """Say whether what was reported stands.  InnoDB's commit is on disk when it is reported
        (`innodb_flush_log_at_trx_commit=1`, its default); with other settings a session that is opened for it verifies
        that nothing reported is lost."""
        return await self._control.do(self._fencing.fence)

    async def apply_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName], votes: Mapping[int, int] = {}
    ) -> events.DdlApplied | events.DdlFailed:
        """Run a statement once (`ddl`), and read the tables."""
        from tidelock.adapters.ddl.moved import moved  # DDL is rare, and takes long to import
        from tidelock.adapters.ddl.shadows import noted
        from tidelock.adapters.ddl.translate import reshaped, rows_first, translate

        async def translated(session: TargetSession) -> Translated:
            there = await read_tables_to_change(session.connection, tables)
            changed = reshaped(effect.ddl, self._target_name)
            if changed and await self._bookkeeping.has_parked(session, changed, everywhere=bool(votes)):
                raise rows_first(effect.ddl)
            shadows = await self._bookkeeping.read_shadows(session)
            rules = replace(self._rules, mariadb=session.dialect is Dialect.MARIADB)
            statements = translate(effect.ddl, "mysql", self._target_name, there, rules, shadows)
            statements = await with_schemas(session, effect.ddl, self._target_name, statements)
            kept = self._bookkeeping.shadows.keep(shadows, noted(effect.ddl, shadows, self._rules.takes))
            kept += await self._bookkeeping.copies.moved(session, moved(effect.ddl, self._target_name, self._rules))
            gone = [self._bookkeeping.empty(table, everywhere=bool(votes)) for table in self._emptied(effect)]
            return Translated(statements, [*gone, *(sql.encode() for sql in kept)])

        failed = await self._ddl.run(effect.ddl, translated, votes, effect.id)
        return await self.pass_ddl(effect, tables) if failed is None else events.DdlFailed(effect.id, failed)

    def _emptied(self, effect: effects.ApplyDdl) -> tuple[TableName, ...]:
        from tidelock.adapters.ddl.translate import emptied

        return emptied(effect.ddl, self._target_name, self._rules)

    async def pass_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName]
    ) -> events.DdlApplied | events.DdlFailed:
        """Note that a statement has passed without us, and read the tables."""
        found = await self._ddl.note_passed(effect.ddl, tables)
        if isinstance(found, Failure):
            return events.DdlFailed(effect.id, found)
        self._forget_tables()
        self._copying.tables = found.tables
        return events.DdlApplied(effect.id, found.tables, self._emptied(effect), found.copied)

    async def refuse(self, wanted: Sequence[TableName], alarm: Alarm) -> None:
        """A target that cannot be reached does not hear of it; the caller tells the operator."""

        async def refuse(session: TargetSession) -> None:
            await self._fencing.fence(session)
            await session.run([self._bookkeeping.copies.refuse(wanted, alarm), b"COMMIT"])

        failed = await self._control.do(refuse)
        if failed is not None:
            log.warning("what is wanted at %s could not be refused: %s", self._endpoint, failed.message)

    async def record_halt(self, effect: effects.Halt) -> bool:
        """A target that cannot be reached keeps no alarm; the caller has it, and it is logged.

        A newer owner ends our session just before its own reader takes our place at the source, which is what halts us:
        so a session that is gone is opened again, which asks who owns the feed.
        """
        statements = [self._bookkeeping.halt(effect), b"COMMIT"]
        trouble = ""
        for _ in range(HALT_ATTEMPTS):
            kept = await self._control.do(lambda session: session.run(statements))
            if not isinstance(kept, Failure):
                return kept[0].affected == 1
            if kept.kind is ErrorKind.FENCED:
                return False
            trouble = kept.message
        log.warning("the halt of the feed could not be kept at %s: %s", self._endpoint, trouble)
        return True

    async def control(self) -> Control:
        """While the target cannot be reached: what it said last.  Batches and checkpoints report the trouble."""
        found = await self._control.do(self._bookkeeping.read_control)
        if isinstance(found, Failure):
            log.warning("the operator's wishes could not be read at %s: %s", self._endpoint, found.message)
        else:
            self._last_control = found
        return self._last_control

    async def close(self) -> None:
        """Cut sessions with a batch under way, which the server rolls back, and close the others in order."""
        await asyncio.gather(*(lane.close() for lane in self._lanes), self._copying.close())
        await self._control.close()

    async def _end(self, lane: Lane) -> None:
        """See the server end the lane's session, whatever state it is in.  A newer owner has done it already."""
        while True:
            failed = await self._control.do(lambda session: self._fencing.end(session, lane.number))
            if failed is None or failed.kind in (ErrorKind.FENCED, ErrorKind.COMMITS_LOST):
                return
            log.warning("session of lane %d at %s: %s", lane.number, self._endpoint, failed.message)
            await asyncio.sleep(RETRY_SECONDS)

    def _statements_of(self, table: Binding) -> TableStatements:
        statements = self._statements.get(table)
        if statements is None:
            session = self._control.session
            assert session is not None, "take_over comes first"
            statements = TableStatements(table, session.dialect, session.packet_bytes)
            self._statements[table] = statements
        return statements

    def _checked_of(self, table: Binding) -> StampedStatements:
        statements = self._checked.get(table)
        if statements is None:
            session = self._control.session
            assert session is not None, "take_over comes first"
            statements = self._checked[table] = StampedStatements(table, session.dialect, session.packet_bytes)
        return statements

    def _forget_tables(self) -> None:
        self._statements.clear()
        self._checked.clear()
        self._arbitration.forget_tables()
        self._scan.forget_tables()

    async def _drop_all(self) -> None:
        self._forget_tables()
        self._copying.abandon()
        for lane in self._lanes:
            await lane.stop_opening()
            lane.drop()
        self._control.drop()


def _told(replaced: Sequence[str]) -> int:
    """Log rows that were deleted for others, and return how many."""
    for row in replaced:
        log.warning("a row of the target was deleted, as another is to have its unique value: %s", row)
    return len(replaced)
