"""The MySQL and MariaDB target: carries out the apply machine's effects (`adapters.ports.sink.Sink`).

A batch is one transaction on its lane's session and mostly two round trips (`batch`).  Where the server rolls one back
to end a deadlock, nothing is in doubt and nothing of it is left: it is sent again at once, in its turn (`turns`).

After any failure the lane's session is rolled back, or dropped.  A dropped session may live on at the server, so the
next one on that lane ends it first (`ownership`): an in-doubt batch is retried only when its outcome stands.

MySQL and MariaDB hold zero dates, so `zero_dates` changes nothing here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pymysql import err

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.ddl.translate import emptied, translate
from tidelock.adapters.mysql.schema import read_tables
from tidelock.adapters.mysql.target.batch_script import Batch, BatchError, CommittedBefore
from tidelock.adapters.mysql.target.bookkeeping_sql import Ledger
from tidelock.adapters.mysql.target.commit_audit import LostCommits, Reported
from tidelock.adapters.mysql.target.copying import Copying
from tidelock.adapters.mysql.target.ddl import run_ddl
from tidelock.adapters.mysql.target.deadlock_gate import Turns
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS, commit_failure, target_error
from tidelock.adapters.mysql.target.fencing import CONTROL, SESSIONS_MAX, Fenced, Outvoted, Ownership
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.outcomes import DEADLOCKS_MAX, LOST, failure, is_deadlock
from tidelock.adapters.mysql.target.session import Session, StatementFailed
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.adapters.ports.sink import Control, TargetError
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyPiece,
    BeginCopy,
    CommitBatch,
    EffectId,
    Halt,
    MergeChunk,
    RollbackBatch,
    SaveCheckpoint,
)
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    CheckpointFailed,
    CheckpointSaved,
    CopyBegun,
    CopyFailed,
    DdlApplied,
    DdlFailed,
    TakenOver,
)

log = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 30
PIECE = "tidelock_piece"
HALT_ATTEMPTS = 3
RETRY_SECONDS = 0.5
PIECE_ATTEMPTS = 3


class MySqlSink:
    """`url`: `mysql://` or `mariadb://`, see `adapters.config.url`.  `origin`, `path`: the receipts' words for it.

    `target_name`: source table to target table, for DDL.  Lock waits, also of a takeover for the older owner's open
    batches, end after `lock_timeout_seconds`.
    """

    def __init__(
        self,
        url: Endpoint | str,
        feed: str,
        group: int = 0,
        schema: str = "tidelock",
        lanes: int = 8,
        origin: str = "",
        path: str = "",
        zero_dates: Literal["park", "null"] = "park",
        lock_timeout_seconds: int = LOCK_TIMEOUT_SECONDS,
        target_name: Callable[[TableName], TableName] = lambda name: name,
        eager: bool = False,
        entry: Entry | None = None,
    ) -> None:
        """`eager`: all sessions are opened right after a takeover, not each when its lane has its first batch.
        `entry`: the name that a takeover leaves.

        Raises ValueError for too many lanes, UrlError for a URL that cannot be read."""
        if not 0 < lanes < SESSIONS_MAX - 2:
            raise ValueError(f"lanes: {lanes} is not from 1 to {SESSIONS_MAX - 3}")
        self._endpoint = url if isinstance(url, Endpoint) else parse(url, Path())
        self._owner = Ownership(self._endpoint, feed, group, schema, lock_timeout_seconds, entry)
        self._ledger = Ledger(self._owner, feed, group, origin, path)
        self._reported = Reported(self._owner)
        self._owner.verify = self._reported.verify
        self._lanes = [Lane(CONTROL + 1 + n) for n in range(lanes)]
        self._ddl_number = CONTROL + 1 + lanes
        self._copying = Copying(
            self._owner, self._ledger, self._reported, feed, group, schema, self._ddl_number + 1, self._statements_of
        )
        self._target_name = target_name
        self._eager = eager
        self._control: Session | None = None
        self._control_free = asyncio.Lock()
        self._statements: dict[Binding, TableStatements] = {}
        self._turns = Turns()
        self._last_control = Control("running", ())

    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        """Raises Overtaken, TargetError."""
        async with self._control_free:
            await self._drop_all()
            try:
                control = self._control = await self._owner.take()
                async with control.transaction():
                    taken = await self._read(control, tables, start)
                await self._copying.drop_older(control)
            except Fenced:
                raise TargetError(
                    f"{self._endpoint}: another run took the feed over just now", "run each feed in one place only"
                ) from None
            except StatementFailed as failed:
                raise target_error(failed.error, self._endpoint) from failed
            except (err.MySQLError, OSError) as error:
                raise target_error(error, self._endpoint) from error
            self._reported.begin(taken.checkpoint)
            if self._eager:
                for lane in self._lanes:
                    lane.open_ahead(self._owner)
            return taken

    async def _read(self, control: Session, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        await self._owner.fence(control)
        checkpoint = await self._ledger.read_checkpoint(control)
        statements = [self._ledger.clear_halt()]
        if checkpoint is None:
            if start is None:
                raise TargetError(
                    f"{self._endpoint} holds no checkpoint of this feed, and there is no position to start from",
                    "run `tidelock init`, which fixes where the feed starts",
                )
            checkpoint = start
            statements.append(self._ledger.checkpoint(start))
        taken = TakenOver(
            epoch=self._owner.epoch,
            checkpoint=checkpoint,
            receipts=await self._ledger.read_receipts(control),
            parked=await self._ledger.read_parked(control),
            tables=await read_tables(control.connection, tables),
            ddl_passed=await self._ledger.read_ddl_passed(control),
            chunks=await self._ledger.read_chunks(control),
        )
        self._copying.tables = taken.tables
        await control.run([*statements, b"COMMIT"])
        return taken

    async def apply(self, effect: ApplyBatch) -> BatchCommitted | BatchReady | BatchFailed:
        """Raises CancelledError where a rollback of the batch came meanwhile: it is answered instead."""
        lane = self._lanes[effect.lane]
        assert not lane.running and not lane.held, "effects of one lane never overlap"
        lane.last = effect.id
        answer = await lane.answer(self._transact(lane, effect))
        lane.held = isinstance(answer, BatchReady)
        return answer

    async def _transact(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchReady | BatchFailed:
        deadlocks = 0
        while True:
            try:
                return await self._attempt(lane, effect)
            except CommittedBefore:
                await self._clean(lane)
                self._reported.add(effect.id)
                return BatchCommitted(effect.id)
            except (BatchError, Unwritable, Fenced, *SERVER_ERRORS) as error:
                await self._clean(lane)
                deadlocks += 1
                if not is_deadlock(error) or deadlocks == DEADLOCKS_MAX or lane.interrupted:
                    return BatchFailed(effect.id, failure(error))
                self._turns.deadlocked(effect.steps)

    async def _attempt(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchReady:
        session = await self._session(lane)
        receipt = self._ledger.receipt(session, effect.id, effect.covered)
        with self._turns.of(() if effect.held else effect.steps) as turn:
            await turn.take()
            batch = Batch(session, self._statements_of, receipt)
            await batch.run(effect.steps)
            for sql in (*self._ledger.park(effect.parked), *self._ledger.unpark(effect.unparked)):
                batch.add(sql, "tidelock_parked")
            if effect.held:
                await batch.flush()
                return BatchReady(effect.id)
            sessions = self._reported.sessions
            await batch.commit()
        await self._reported.believe(session, sessions)
        self._reported.add(effect.id)
        return BatchCommitted(effect.id)

    async def apply_piece(self, effect: ApplyPiece) -> BatchReady | BatchFailed:
        """Raises CancelledError as `apply` does."""
        lane = self._lanes[effect.lane]
        session = lane.session
        if session is None or not lane.held or lane.last != effect.batch:
            return BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the transaction's session is gone"))
        failed = await lane.answer(self._piece(lane, session, effect))
        return BatchReady(effect.id) if failed is None else BatchFailed(effect.id, failed)

    async def _piece(self, lane: Lane, session: Session, effect: ApplyPiece) -> Failure | None:
        """None: it is in the transaction.  A row's fault leaves that as it was before; after any other it is rolled
        back.  What passes is tried again as long as the transaction stands: a deadlock ends all of it."""
        for left in reversed(range(PIECE_ATTEMPTS)):
            try:
                await session.ask(f"SAVEPOINT {PIECE}")
            except StatementFailed as failed:
                await self._clean(lane)
                return failure(failed)
            try:
                await self._write_piece(session, effect)
            except (BatchError, Unwritable, *SERVER_ERRORS) as error:
                found = failure(error)
                if not await session.back_to(PIECE):
                    await self._clean(lane)
                    words = f"the transaction was lost: {found.message}"
                    return Failure(ErrorKind.TRANSIENT, words) if found.kind is ErrorKind.ROW else found
                if found.kind is ErrorKind.ROW:
                    return found
                if found.kind is not ErrorKind.TRANSIENT or lane.interrupted or not left:
                    await self._clean(lane)
                    return found
            else:
                return None
        raise AssertionError("the last attempt has an answer")

    async def _write_piece(self, session: Session, effect: ApplyPiece) -> None:
        batch = Batch(session, self._statements_of)
        await batch.run(effect.steps)
        for sql in self._ledger.park(effect.parked):
            batch.add(sql, "tidelock_parked")
        if effect.covered is not None:
            batch.add(self._ledger.complete(effect.batch, effect.covered), "tidelock_progress")
        await batch.flush()

    async def commit(self, effect: CommitBatch) -> BatchCommitted | BatchFailed:
        lane = next((lane for lane in self._lanes if lane.held and lane.last == effect.id), None)
        if lane is None or lane.session is None:
            return BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the batch's session is gone"))
        try:
            sessions = self._reported.sessions
            await lane.session.commit()
            await self._reported.believe(lane.session, sessions)
        except asyncio.CancelledError:
            lane.drop()
            raise
        except StatementFailed as failed:
            await self._clean(lane)
            return BatchFailed(effect.id, commit_failure(failed.error))
        lane.held = False
        self._reported.add(effect.id)
        return BatchCommitted(effect.id)

    async def rollback(self, effect: RollbackBatch) -> BatchRolledBack:
        """A batch that still runs is ended with its session: KILL QUERY may miss it between two statements.

        Waits for as long as the target cannot be reached: until then nobody knows that the locks are gone.
        """
        lane = next((lane for lane in self._lanes if lane.last == effect.id), None)
        if lane is not None and lane.running:
            lane.interrupted = True
            await self._end(lane)
            await lane.idle.wait()
            lane.drop()
        elif lane is not None and lane.held:
            await self._clean(lane)
        if lane is not None and lane.session is None:
            await self._end(lane)
        return BatchRolledBack(effect.id)

    async def save_checkpoint(self, effect: SaveCheckpoint) -> CheckpointSaved | CheckpointFailed:
        try:
            async with self._controlling() as control, control.transaction():
                await self._owner.fence(control)
                batch = Batch(control, self._statements_of)
                for sql in (self._ledger.checkpoint(effect.position), *self._ledger.drop(effect.drop)):
                    batch.add(sql, "checkpoint")
                self._reported.leave(effect.position, effect.drop)
                sessions = self._reported.sessions
                await batch.commit()
                await self._reported.believe(control, sessions)
            self._reported.stored(effect.position, effect.drop)
        except (BatchError, Fenced, *SERVER_ERRORS) as error:
            return CheckpointFailed(effect.id, failure(error))
        return CheckpointSaved(effect.id)

    async def settle(self) -> Failure | None:
        """InnoDB's commit is on disk when it is reported (`innodb_flush_log_at_trx_commit=1`, its default); with other
        settings a session that is opened for it verifies that nothing reported is lost."""
        try:
            async with self._controlling() as control, control.transaction():
                await self._owner.fence(control)
        except (Fenced, *SERVER_ERRORS) as error:
            return failure(error)
        return None

    async def apply_ddl(
        self, effect: ApplyDdl, tables: Sequence[TableName], votes: Mapping[int, int] = {}
    ) -> DdlApplied | DdlFailed:
        """The control session keeps the fence while another runs the statement, whose implicit commit would drop it.

        The note that it ran commits with a DELETE, and after DDL, which may be run again until then.
        """
        try:
            statements = translate(effect.ddl, "mysql", self._target_name)
            empty = emptied(effect.ddl, self._target_name)
            along = [self._ledger.empty(table, everywhere=bool(votes)) for table in empty]
            async with self._controlling() as control:
                if not await self._has_passed(control, effect):
                    worker = await self._owner.open(self._ddl_number)
                    try:
                        async with control.transaction():
                            await self._note_passed(control, effect)
                            await self._owner.fence_votes(control, votes)
                            for statement in statements:
                                await run_ddl(statement, control, worker, along)
                            await control.commit()
                    finally:
                        await worker.close()
        except (BatchError, Fenced, Outvoted, *SERVER_ERRORS) as error:
            return DdlFailed(effect.id, failure(error))
        return await self.pass_ddl(effect, tables)

    async def pass_ddl(self, effect: ApplyDdl, tables: Sequence[TableName]) -> DdlApplied | DdlFailed:
        try:
            async with self._controlling() as control:
                if not await self._has_passed(control, effect):
                    async with control.transaction():
                        await self._note_passed(control, effect)
                        await control.commit()
                async with control.transaction():
                    found = await read_tables(control.connection, tables)
        except (Fenced, *SERVER_ERRORS) as error:
            return DdlFailed(effect.id, failure(error))
        self._statements.clear()
        self._copying.tables = found
        return DdlApplied(effect.id, found, emptied(effect.ddl, self._target_name))

    async def _note_passed(self, control: Session, effect: ApplyDdl) -> None:
        """The fence as well.  Not after a shared lock on the same row: with a takeover that waits for it, that would be
        a deadlock.  Raises Fenced."""
        (answer,) = await control.run([self._ledger.pass_ddl(effect.ddl)])
        if answer.affected != 1:
            raise Fenced

    async def _has_passed(self, control: Session, effect: ApplyDdl) -> bool:
        """Raises Fenced."""
        async with control.transaction():
            await self._owner.fence(control)
            return await self._ledger.read_ddl_passed(control) == (effect.ddl.source, effect.ddl.number)

    async def begin_copy(self, effect: BeginCopy) -> CopyBegun | CopyFailed:
        return await self._copying.begin(effect)

    async def merge_chunk(self, effect: MergeChunk) -> BatchCommitted | BatchFailed:
        return await self._copying.merge(effect)

    async def drop_staged(self, staged: EffectId) -> None:
        await self._copying.drop(staged)

    async def refuse(self, wanted: Sequence[TableName], alarm: Alarm) -> None:
        """A target that cannot be reached does not hear of it; the caller tells the operator."""
        try:
            async with self._controlling() as control, control.transaction():
                await self._owner.fence(control)
                await control.run([self._ledger.refuse(wanted, alarm), b"COMMIT"])
        except (Fenced, *SERVER_ERRORS) as error:
            log.warning("what is wanted at %s could not be refused: %s", self._endpoint, failure(error).message)

    async def record_halt(self, effect: Halt) -> bool:
        """A target that cannot be reached keeps no alarm; the caller has it, and it is logged.

        A newer owner ends our session just before its own reader takes our place at the source, which is what halts us:
        so a session that is gone is opened again, which asks who owns the feed.
        """
        trouble = ""
        for _ in range(HALT_ATTEMPTS):
            try:
                async with self._controlling() as control, control.transaction():
                    kept, _ = await control.run([self._ledger.halt(effect), b"COMMIT"])
                return kept.affected == 1
            except LostCommits:
                trouble = LOST.message
            except Fenced:
                return False
            except SERVER_ERRORS as error:
                trouble = failure(error).message
        log.warning("the halt of the feed could not be kept at %s: %s", self._endpoint, trouble)
        return True

    async def control(self) -> Control:
        """While the target cannot be reached: what it said last.  Batches and checkpoints report the trouble."""
        try:
            async with self._controlling() as control, control.transaction():
                state = await self._ledger.read_desired_state(control)
                wishes = await self._ledger.read_parked(control, wished=True)
                self._last_control = Control(state, wishes, await self._ledger.read_wanted(control))
        except (Fenced, *SERVER_ERRORS) as error:
            log.warning("the operator's wishes could not be read at %s: %s", self._endpoint, failure(error).message)
        return self._last_control

    async def close(self) -> None:
        """Sessions with a batch under way are cut; the server rolls it back."""
        await asyncio.gather(*map(self._close, self._lanes), self._copying.close())
        if self._control is not None:
            await self._control.close()
            self._control = None

    async def _close(self, lane: Lane) -> None:
        await lane.stop_opening()
        if lane.session is not None and not lane.running and not lane.held:
            await lane.session.close()
        lane.drop()

    @contextlib.asynccontextmanager
    async def _controlling(self) -> AsyncIterator[Session]:
        async with self._control_free:
            if self._control is None or self._control.lost:
                self._control = await self._owner.open(CONTROL)
            yield self._control

    async def _session(self, lane: Lane) -> Session:
        await lane.opened()
        if lane.session is None or lane.session.lost:
            lane.session = await self._owner.open(lane.number)
        return lane.session

    async def _clean(self, lane: Lane) -> None:
        lane.held = False
        if lane.session is not None and not await lane.session.rollback():
            lane.drop()

    async def _end(self, lane: Lane) -> None:
        """See the server end the lane's session, whatever state it is in.  A newer owner has done it already."""
        while True:
            try:
                async with self._controlling() as control:
                    return await self._owner.end(control, lane.number)
            except Fenced:
                return None
            except SERVER_ERRORS as error:
                log.warning("session of lane %d at %s: %s", lane.number, self._endpoint, failure(error).message)
                await asyncio.sleep(RETRY_SECONDS)

    def _statements_of(self, table: Binding) -> TableStatements:
        statements = self._statements.get(table)
        if statements is None:
            assert self._control is not None, "take_over comes first"
            statements = TableStatements(table, self._control.dialect, self._control.packet_bytes)
            self._statements[table] = statements
        return statements

    async def _drop_all(self) -> None:
        self._statements.clear()
        self._copying.abandon()
        for lane in self._lanes:
            await lane.stop_opening()
            lane.drop()
        if self._control is not None:
            self._control.drop()
            self._control = None
