"""PostgreSQL as a target: carries out the apply machine's effects (`adapters.ports.sink.Sink`).

A batch is one script: BEGIN, the receipt, its steps, COMMIT; so a batch costs one round trip, whatever it copies
(`scripts`).  When the connection is lost meanwhile the batch is in doubt, and the machine sends it again: then the
receipt's key answers.

`UpsertRows.fresh` is believed at first: plain inserts are faster.  If a unique key says otherwise the whole
transaction runs again, upserting.

Commits do not wait for the disk by default.  If a crash of the server has lost some that were reported (`reported`),
the answer is COMMITS_LOST: this owner's memory is worth nothing, a new one starts from what the target really holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import asyncpg
import msgspec

from tidelock.adapters.bookkeeping.lease import Entry
from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.ddl.translate import emptied, translate
from tidelock.adapters.ports.sink import Control, TargetError
from tidelock.adapters.postgres.catalogue import read_tables
from tidelock.adapters.postgres.target.bookkeeping_sql import Books
from tidelock.adapters.postgres.target.commit_audit import LostCommits, Reported
from tidelock.adapters.postgres.target.control_session import FENCED, LOST, Clerk
from tidelock.adapters.postgres.target.copy_text import Copy
from tidelock.adapters.postgres.target.copying import Copying
from tidelock.adapters.postgres.target.failures import CONNECTION_ERRORS, failure_of
from tidelock.adapters.postgres.target.fencing import take_over
from tidelock.adapters.postgres.target.lane import Lane, SessionSource
from tidelock.adapters.postgres.target.session import Session, SessionSettings, application_name
from tidelock.adapters.postgres.target.statements import Statements
from tidelock.adapters.postgres.target.values import BadValue, ZeroDates
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding, TargetTable
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
    Step,
    UpsertRows,
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

LOCK_TIMEOUT_SECONDS = 10.0
PIECE = "tidelock_piece"
HALT_ATTEMPTS = 3
PIECE_ATTEMPTS = 3


class PostgresSink:
    def __init__(
        self,
        url: Endpoint | str,
        feed: str,
        group: int = 0,
        schema: str = "tidelock",
        lanes: int = 8,
        origin: str = "",
        path: str = "",
        zero_dates: ZeroDates = "park",
        synchronous_commit: bool = False,
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
        target_name: Callable[[TableName], TableName] = lambda name: name,
        eager: bool = False,
        entry: Entry | None = None,
    ) -> None:
        """`eager`: all sessions are opened right after a takeover, not each when its lane has its first batch.
        `entry`: the name that a takeover leaves."""
        endpoint = url if isinstance(url, Endpoint) else parse(url, Path())
        name = application_name(feed, group)
        self._settings = SessionSettings(endpoint, name, synchronous_commit, lock_timeout_seconds)
        self._books = Books(schema, feed, group, origin, path)
        self._reported = Reported(self._books)
        self._sessions = SessionSource(self._settings, self._books, self._reported)
        self._lanes = [Lane(self._sessions) for _ in range(lanes)]
        self._zero_dates = zero_dates
        self._target_name = target_name
        self._clerk = Clerk(self._sessions, self._books)
        self._copying = Copying(self._sessions, self._books, self._reported, zero_dates)
        self._statements: dict[Binding, Statements] = {}
        self._eager = eager
        self._entry = entry
        self._epoch = 0
        self._control = Control("running", ())

    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> TakenOver:
        """Raises Overtaken, TargetError."""
        await self.close()
        taken = await take_over(self._settings, self._books, tables, start, self._entry)
        self._epoch = taken.epoch
        self._reported.begin(taken.epoch)
        if self._eager:
            for lane in self._lanes:
                lane.open_ahead()
        return taken

    async def apply(self, effect: ApplyBatch) -> BatchCommitted | BatchReady | BatchFailed:
        """Raises CancelledError when `rollback` interrupts it."""
        lane = self._lanes[effect.lane]
        assert lane.batch is None, f"lane {effect.lane} is busy with {lane.batch}"
        lane.batch, lane.task = effect.id, asyncio.current_task()
        lane.ended.clear()
        answer = None
        try:
            answer = await self._apply(lane, effect)
            return answer
        finally:
            lane.task = None
            if not isinstance(answer, BatchReady):
                lane.batch = None
            lane.ended.set()

    async def _apply(self, lane: Lane, effect: ApplyBatch) -> BatchCommitted | BatchReady | BatchFailed:
        failure = await self._attempt(lane, effect, careful=False)
        if failure is not None and _believed(effect.steps) and failure.code == asyncpg.UniqueViolationError.sqlstate:
            failure = await self._attempt(lane, effect, careful=True)
        if failure is not None:
            return BatchFailed(effect.id, failure)
        if effect.held and lane.left_open:
            return BatchReady(effect.id)
        self._reported.add(effect.id)
        return BatchCommitted(effect.id)

    async def _attempt(self, lane: Lane, effect: ApplyBatch, careful: bool) -> Failure | None:
        """None: committed, now or before (or, if held, ready); else the session is out of the transaction again."""
        try:
            session = await lane.ready()  # first: while nobody answers, no text is made
            statements = list(self._batch(effect, careful))
        except BadValue as error:
            return Failure(ErrorKind.ROW, str(error))
        except LostCommits:
            return LOST
        except CONNECTION_ERRORS as error:
            return failure_of(error)
        lane.left_open = True
        try:
            await self._reported.run(session, statements)
        except CONNECTION_ERRORS as error:
            await lane.leave()
            if self._books.is_receipt(error):
                return None
            if self._books.is_fenced(error):
                return FENCED
            tables = ", ".join(dict.fromkeys(str(step.table.name) for step in effect.steps))
            return failure_of(error, committing=not effect.held, tables=tables)
        lane.left_open = effect.held
        return None

    def _batch(self, effect: ApplyBatch, careful: bool) -> Iterator[str | Copy]:
        yield "BEGIN"
        yield from self._books.receipt(effect.id, effect.covered)
        for step in effect.steps:
            yield from self._statements_of(step.table).of(step, careful)
        yield from self._books.park(effect.parked)
        yield from self._books.unpark(effect.unparked)
        if not effect.held:
            yield "COMMIT"

    async def apply_piece(self, effect: ApplyPiece) -> BatchReady | BatchFailed:
        """Raises CancelledError when `rollback` interrupts it."""
        lane = self._lanes[effect.lane]
        if lane.batch != effect.batch or lane.task is not None:
            return BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the transaction's session is gone"))
        lane.task = asyncio.current_task()
        lane.ended.clear()
        failure: Failure | None = Failure(ErrorKind.TRANSIENT, "interrupted")
        try:
            failure = await self._piece(lane, effect)
            return BatchReady(effect.id) if failure is None else BatchFailed(effect.id, failure)
        finally:
            lane.task = None
            if failure is not None and failure.kind is not ErrorKind.ROW:
                lane.batch = None
            lane.ended.set()

    async def _piece(self, lane: Lane, effect: ApplyPiece) -> Failure | None:
        """None: it is in the transaction.  A row's fault leaves that as it was before; after any other it is rolled
        back.  What passes is tried again as long as the transaction stands."""
        careful, attempts = False, 0
        while (failure := await self._try_piece(lane, effect, careful)) is not None and lane.left_open:
            attempts += 1
            if failure.code == asyncpg.UniqueViolationError.sqlstate and not careful and _believed(effect.steps):
                careful = True
            elif failure.kind is ErrorKind.ROW:
                return failure
            elif failure.kind is not ErrorKind.TRANSIENT or attempts >= PIECE_ATTEMPTS:
                await lane.leave()
        if failure is not None and failure.kind is ErrorKind.ROW:
            return Failure(ErrorKind.TRANSIENT, f"the transaction was lost after {failure.message}")
        return failure

    async def _try_piece(self, lane: Lane, effect: ApplyPiece, careful: bool) -> Failure | None:
        """Afterwards `lane.left_open` tells whether the transaction stands."""
        session = lane.session
        assert session is not None, "a transaction that is open has a session"
        try:
            statements = list(self._piece_statements(effect, careful))
        except BadValue as error:
            return Failure(ErrorKind.ROW, str(error))
        try:
            await session.run(statements)
        except CONNECTION_ERRORS as error:
            tables = ", ".join(dict.fromkeys(str(step.table.name) for step in effect.steps))
            failure = failure_of(error, tables=tables)
            if not await session.back_to(PIECE):
                await lane.leave()
            return failure
        return None

    def _piece_statements(self, effect: ApplyPiece, careful: bool) -> Iterator[str | Copy]:
        """Constraints that may wait for the COMMIT do not: a row that breaks one is to be found in its piece.  After
        each piece they hold, as they held at the source after its last row."""
        yield f"SAVEPOINT {PIECE}"
        yield "SET CONSTRAINTS ALL IMMEDIATE"
        for step in effect.steps:
            yield from self._statements_of(step.table).of(step, careful)
        yield from self._books.park(effect.parked)
        if effect.covered is not None:
            yield self._books.complete(effect.batch, effect.covered)
        yield f"RELEASE SAVEPOINT {PIECE}"

    def _statements_of(self, binding: Binding) -> Statements:
        found = self._statements.get(binding)
        if found is None:
            found = self._statements[binding] = Statements(binding, self._zero_dates)
        return found

    async def commit(self, effect: CommitBatch) -> BatchCommitted | BatchFailed:
        lane = self._lane_of(effect.id)
        assert lane is not None and lane.session is not None and lane.task is None, f"{effect.id} is not held"
        try:
            await self._reported.run(lane.session, ["COMMIT"])
        except CONNECTION_ERRORS as error:
            await lane.leave()
            return BatchFailed(effect.id, failure_of(error, committing=True))
        else:
            self._reported.add(effect.id)
            lane.left_open = False
            return BatchCommitted(effect.id)
        finally:
            lane.batch = None

    async def rollback(self, effect: RollbackBatch) -> BatchRolledBack:
        lane = self._lane_of(effect.id)
        if lane is not None:
            if lane.task is not None:
                lane.task.cancel()
                await lane.ended.wait()
            await lane.leave()
            lane.batch = None
        return BatchRolledBack(effect.id)

    def _lane_of(self, batch: EffectId) -> Lane | None:
        return next((lane for lane in self._lanes if lane.batch == batch), None)

    async def save_checkpoint(self, effect: SaveCheckpoint) -> CheckpointSaved | CheckpointFailed:
        position = msgspec.json.encode(effect.position).decode()
        statements = self._books.save_checkpoint(effect.id.epoch, position, effect.drop)

        async def save(session: Session) -> None:
            self._reported.leave(position, effect.drop)
            await session.run(["BEGIN", *statements, "COMMIT"])
            self._reported.left()

        failure = await self._clerk.do(save)
        return CheckpointSaved(effect.id) if failure is None else CheckpointFailed(effect.id, failure)

    async def settle(self) -> Failure | None:
        """A session that is opened for it verifies first that nothing reported is lost; its commit waits for the disk,
        and so does all that was committed before."""

        async def settle(session: Session) -> None:
            await self._reported.run(session, ["BEGIN", *self._books.settle(self._epoch), "COMMIT"])

        return await self._clerk.do(settle)

    async def apply_ddl(
        self, effect: ApplyDdl, tables: Sequence[TableName], votes: Mapping[int, int] = {}
    ) -> DdlApplied | DdlFailed:
        """The statement and the note that it ran (`ddl_passed`) commit together: it runs once, whatever is lost."""
        try:
            empty = emptied(effect.ddl, self._target_name)
            translated = translate(effect.ddl, "postgres", self._target_name)
        except TargetError as error:
            return DdlFailed(effect.id, Failure(ErrorKind.TARGET, f"{error}. {error.hint}"))
        gone = [self._books.empty(table, everywhere=bool(votes)) for table in empty]
        return await self._pass(effect, tables, [*self._books.voted(votes), *translated, *gone])

    async def pass_ddl(self, effect: ApplyDdl, tables: Sequence[TableName]) -> DdlApplied | DdlFailed:
        return await self._pass(effect, tables, [])

    async def _pass(
        self, effect: ApplyDdl, tables: Sequence[TableName], statements: Sequence[str]
    ) -> DdlApplied | DdlFailed:
        async def pass_once(session: Session) -> dict[TableName, TargetTable]:
            if await self._books.read_ddl_passed(session.connection) != (effect.ddl.source, effect.ddl.number):
                await session.run(["BEGIN", *self._books.pass_ddl(effect.id.epoch, effect.ddl, statements), "COMMIT"])
            return await read_tables(session.connection, tables)

        found = await self._clerk.do(pass_once)
        if isinstance(found, Failure):
            return DdlFailed(effect.id, found)
        self._statements.clear()
        return DdlApplied(effect.id, found, emptied(effect.ddl, self._target_name))

    async def begin_copy(self, effect: BeginCopy) -> CopyBegun | CopyFailed:
        failure = await self._copying.begin(effect)
        return CopyBegun(effect.id) if failure is None else CopyFailed(effect.id, failure)

    async def merge_chunk(self, effect: MergeChunk) -> BatchCommitted | BatchFailed:
        failure = await self._copying.merge(effect)
        return BatchCommitted(effect.id) if failure is None else BatchFailed(effect.id, failure)

    async def drop_staged(self, staged: EffectId) -> None:
        await self._copying.drop(staged)

    async def refuse(self, wanted: Sequence[TableName], alarm: Alarm) -> None:
        failure = await self._copying.refuse(self._epoch, wanted, alarm)
        if failure is not None:
            log.warning("why tables are not copied could not be kept: %s", failure.message)

    async def record_halt(self, effect: Halt) -> bool:
        """A target that cannot be reached keeps no alarm; the caller has it, and it is logged."""
        words = msgspec.json.encode({"alarm": effect.alarm, "ddl": effect.ddl}).decode()
        statements = ["BEGIN", *self._books.halt(self._epoch, words), "COMMIT"]
        failure = None
        for _ in range(HALT_ATTEMPTS):
            failure = await self._clerk.do(lambda session: session.run(statements))
            if failure is None:
                return True
            if failure.kind is ErrorKind.FENCED:
                return False
        assert failure is not None
        log.warning("the halt of the feed could not be kept at %s: %s", self._settings.endpoint, failure.message)
        return True

    async def control(self) -> Control:
        """While the target cannot be reached: what it said last.  Batches and checkpoints report the trouble."""
        await self._copying.rest()
        found = await self._clerk.do(lambda session: self._books.read_control(session.connection))
        if isinstance(found, Failure):
            log.warning("the operator's wishes could not be read at %s: %s", self._settings.endpoint, found.message)
        else:
            self._control = found
        return self._control

    async def close(self) -> None:
        """Roll back what is open and end all sessions in order."""
        running = [lane for lane in self._lanes if lane.task is not None]
        for lane in running:
            assert lane.task is not None
            lane.task.cancel()
        for lane in running:
            await lane.ended.wait()
        await asyncio.gather(*(lane.close() for lane in self._lanes))
        await self._copying.close()
        await self._clerk.close()
        self._statements.clear()


def _believed(steps: Sequence[Step]) -> bool:
    """Is a row inserted plainly, as the log says that it is not there?"""
    return any(isinstance(step, UpsertRows) and step.fresh and step.table.key for step in steps)
