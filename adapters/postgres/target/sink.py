"""PostgreSQL as a target: carries out the apply machine's effects (`adapters.ports.sink.Sink`).

A batch is one script: BEGIN, the receipt, its steps, COMMIT; so a batch costs one round trip, whatever it copies
(`script_protocol`).  When the connection is lost meanwhile the batch is in doubt, and the machine sends it again: then
the receipt's key answers.

`UpsertRows.fresh` is believed at first: plain inserts are faster.  If a unique key says otherwise the whole
transaction runs again, upserting.

Commits do not wait for the disk by default.  If a crash of the server has lost some that were reported
(`commit_audit`), the answer is COMMITS_LOST: this owner's memory is worth nothing, a new one starts from what the
target really holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import asyncpg
import msgspec

from tidelock.adapters.config.url import Endpoint, parse
from tidelock.adapters.ports.sink import BatchAnswer, Control, TargetError
from tidelock.adapters.postgres.catalogue import read_tables, read_tables_to_change
from tidelock.adapters.postgres.target.arbitration import Arbitration
from tidelock.adapters.postgres.target.batch_script import PIECE, BatchScript, trusts_fresh
from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.commit_audit import CommitAudit, LostCommits
from tidelock.adapters.postgres.target.conflict_bookkeeping import ConflictSql
from tidelock.adapters.postgres.target.control_session import ControlSession
from tidelock.adapters.postgres.target.copying import TargetCopying
from tidelock.adapters.postgres.target.displacement import Displacement
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS, failure_of
from tidelock.adapters.postgres.target.fencing import Fencing
from tidelock.adapters.postgres.target.lane import Lane
from tidelock.adapters.postgres.target.new_schemas import with_schemas
from tidelock.adapters.postgres.target.outcomes import outcome
from tidelock.adapters.postgres.target.referring_rows import REFUSED, clear
from tidelock.adapters.postgres.target.replaced_rows import may_replace, tell_replaced
from tidelock.adapters.postgres.target.row_writers import WritersSql
from tidelock.adapters.postgres.target.session import SessionSettings, TargetSession, application_name
from tidelock.adapters.postgres.target.session_source import SessionSource
from tidelock.adapters.postgres.target.suspect_scan import SuspectScan
from tidelock.adapters.postgres.target.takeover import Takeover
from tidelock.adapters.postgres.target.told_statements import told
from tidelock.adapters.postgres.target.values import Unwritable
from tidelock.adapters.target import referring_rows
from tidelock.adapters.target.chunks import ChunkSink
from tidelock.adapters.target.displaced import ATTEMPTS, any_displaces, displaces, moves
from tidelock.adapters.target.lane import open_ahead
from tidelock.adapters.target.options import SinkOptions
from tidelock.adapters.target.referring_rows import going
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol import effects, events
from tidelock.engine.protocol.steps import Step

log = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 10.0
HALT_ATTEMPTS = 3
PIECE_ATTEMPTS = 3


class PostgresSink(ChunkSink):
    """Carries out effects at a PostgreSQL target (`adapters.ports.sink.Sink`)."""

    def __init__(self, url: Endpoint | str, options: SinkOptions) -> None:
        """Raises UrlError."""
        feed, group, zero_dates = options.feed, options.group, options.zero_dates
        wait = options.lock_timeout_seconds or LOCK_TIMEOUT_SECONDS
        endpoint = url if isinstance(url, Endpoint) else parse(url, Path())
        name = application_name(feed, group)
        self._settings = SessionSettings(endpoint, name, options.synchronous_commit, wait, options.stamps)
        writers = WritersSql(options.schema, feed)
        self._bookkeeping = BookkeepingSql(options, writers if options.arbitrates else None)
        self._audit = CommitAudit(self._bookkeeping)
        self._sessions = SessionSource(self._settings, self._bookkeeping, self._audit)
        self._target_name, self._rules = options.target_name, options.ddl
        self._sister = options.sites.sister if options.sites is not None else ""
        self._replace, self._displaces = options.replace, options.displaces
        self._zero_dates = zero_dates
        self._script = BatchScript(self._bookkeeping, zero_dates)
        conflicts = ConflictSql(options.schema, feed, group, options.sites)
        self._arbitration = Arbitration(self._bookkeeping, conflicts, self._script, self._audit, zero_dates, writers)
        self._scan = SuspectScan(zero_dates)
        self._control = ControlSession(self._sessions)
        self._copying = TargetCopying(self._sessions, self._bookkeeping, self._audit, zero_dates)
        super().__init__(self._copying)
        self._lanes = [Lane(self._sessions) for _ in range(options.lanes)]
        self._eager = self._lanes if options.eager else []
        self._takeover = Takeover(Fencing(self._settings, self._bookkeeping, options.entry), self._bookkeeping)
        self._epoch = 0
        self._tables: Mapping[TableName, TargetTable] = {}
        self._last_control = Control("running", ())

    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> events.TakenOver:
        """Become the owner, and read what is there.  Raises Overtaken, TargetError."""
        await self.close()
        taken = await self._takeover.run(tables, start)
        self._epoch, self._tables = taken.epoch, taken.tables
        self._audit.begin(taken.epoch, taken.checkpoint)
        open_ahead(self._eager)
        return taken

    async def close(self) -> None:
        """Roll back what is open and end all sessions in order."""
        await asyncio.gather(*(lane.interrupt() for lane in self._lanes))
        await asyncio.gather(*(lane.close() for lane in self._lanes))
        await self._copying.close()
        await self._control.close()
        self._forget_tables()

    def _forget_tables(self) -> None:
        self._script.steps.forget_tables()
        self._arbitration.forget_tables()
        self._scan.forget_tables()

    async def apply(self, effect: effects.ApplyBatch) -> BatchAnswer:
        """Apply a batch.  Raises CancelledError when `rollback` interrupts it."""
        lane = self._lanes[effect.lane]
        work = self._arbitration.apply(lane, effect) if effect.looks else self._transact(lane, effect)
        return await lane.begin(effect.id, self._scan.after(lane, effect, work) if effect.scan else work)

    async def _transact(self, lane: Lane, effect: effects.ApplyBatch) -> BatchAnswer:
        failure = await self._attempt(lane, effect, careful=False)
        attempts = ATTEMPTS if self._displaces and any_displaces(effect.steps) else 1
        while failure is not None and failure.code == asyncpg.UniqueViolationError.sqlstate and attempts > 1:
            attempts -= 1  # somebody took a value just after its holder was looked for
            failure = await self._attempt(lane, effect, careful=False)
        cleared = 0
        for _ in range(referring_rows.ATTEMPTS if self._displaces and going(effect.steps) else 0):
            if failure is None or failure.code not in REFUSED:
                break
            found = await clear(lane, effect, self._tables, self._bookkeeping, self._zero_dates)
            if found == 0:
                break
            if isinstance(found, Failure):
                return events.BatchFailed(effect.id, found)
            cleared += found
            failure = await self._attempt(lane, effect, careful=False)
        if failure is not None and trusts_fresh(effect.steps) and failure.code == asyncpg.UniqueViolationError.sqlstate:
            failure = await self._attempt(lane, effect, careful=True)
        if failure is not None:
            return events.BatchFailed(effect.id, failure)
        lane.replaces |= self._replace and may_replace(effect.steps)
        if effect.held and lane.left_open:
            return events.BatchReady(effect.id)
        self._audit.add(effect.id)
        return events.BatchCommitted(effect.id, await self._replaced(lane) + cleared)

    async def _replaced(self, lane: Lane) -> int:
        """Tell the rows that were deleted for others, by what has just been committed."""
        displaced, lane.displaced = lane.displaced, 0
        if not lane.replaces:
            return displaced
        lane.replaces = False
        return 0 if lane.session is None else await tell_replaced(lane.session)

    async def _attempt(self, lane: Lane, effect: effects.ApplyBatch, careful: bool) -> Failure | None:
        """Try the batch once; returns None where it is committed, now or before, or is held and ready.

        After a failure the session is out of the transaction again.
        """
        try:
            session = await lane.ready()  # first: while nobody answers, no text is made
            before = self._script.before(effect.id, effect.covered, effect.origin, effect.seen)
            after = self._script.after(effect.parked, effect.unparked, held=effect.held)
            displacing = self._displaces and any_displaces(effect.steps)
            statements = [] if displacing else [*before, *self._script.steps.of(effect.steps, careful), *after]
        except (LostCommits, Unwritable, *SERVER_ERRORS) as error:
            return outcome(error, committing=False)
        lane.left_open = True
        try:
            async with self._audit.confirmed(session):
                if displacing:
                    lane.displaced = await self._run_displacing(session, effect, before, after)
                else:
                    await session.run(statements)
        except Unwritable as error:
            await lane.leave()
            return outcome(error, committing=False)
        except SERVER_ERRORS as error:
            await lane.leave()
            if self._bookkeeping.is_receipt(error):
                return None
            return outcome(error, committing=not effect.held, tables=_tables(effect.steps))
        lane.left_open = effect.held
        return None

    async def _run_displacing(
        self, session: TargetSession, effect: effects.ApplyBatch, before: list[str], after: list[str]
    ) -> int:
        """Run a batch step by step, each behind the rows that make room for it; returns how many did."""
        displacement = Displacement(session, self._bookkeeping, self._zero_dates, effect.origin)
        count = 0
        await session.run(before)
        for step in effect.steps:
            for part in await displacement.parted(step) if displaces(step) else [step]:
                if displaces(part) or moves(part):
                    count += await displacement.make_room(part)
                await session.run(self._script.steps.of([part], careful=True))
        await session.run(after)
        return count

    async def apply_piece(self, effect: effects.ApplyPiece) -> events.BatchReady | events.BatchFailed:
        """Write a piece of a held batch.  Raises CancelledError when `rollback` interrupts it."""
        lane = self._lanes[effect.lane]
        if lane.batch != effect.batch or not lane.held or lane.running:
            return events.BatchFailed(effect.id, Failure(ErrorKind.TRANSIENT, "the transaction's session is gone"))
        failure = await lane.run(effect.batch, self._piece(lane, effect))
        lane.replaces |= self._replace and may_replace(effect.steps)
        lane.held = failure is None or failure.kind is ErrorKind.ROW
        return events.BatchReady(effect.id) if failure is None else events.BatchFailed(effect.id, failure)

    async def _piece(self, lane: Lane, effect: effects.ApplyPiece) -> Failure | None:
        """Write a piece; returns None where it is in the transaction.

        A row's fault leaves that as it was before; after any other it is rolled
        back.  What passes is tried again as long as the transaction stands."""
        careful, attempts = False, 0
        while (failure := await self._try_piece(lane, effect, careful)) is not None and lane.left_open:
            attempts += 1
            if failure.code == asyncpg.UniqueViolationError.sqlstate and not careful and trusts_fresh(effect.steps):
                careful = True
            elif failure.kind is ErrorKind.ROW:
                return failure
            elif failure.kind is not ErrorKind.TRANSIENT or attempts >= PIECE_ATTEMPTS:
                await lane.leave()
        if failure is not None and failure.kind is ErrorKind.ROW:
            return Failure(ErrorKind.TRANSIENT, f"the transaction was lost after {failure.message}")
        return failure

    async def _try_piece(self, lane: Lane, effect: effects.ApplyPiece, careful: bool) -> Failure | None:
        """Afterwards `lane.left_open` tells whether the transaction stands."""
        session = lane.session
        assert session is not None, "a transaction that is open has a session"
        try:
            before = self._script.before_piece()
            after = self._script.after_piece(effect.batch, effect.parked, effect.covered)
            await session.run([*before, *self._script.steps.of(effect.steps, careful), *after])
        except Unwritable as error:
            return outcome(error, committing=False)
        except SERVER_ERRORS as error:
            failure = failure_of(error, tables=_tables(effect.steps))
            if not await session.back_to(PIECE):
                await lane.leave()
            return failure
        return None

    async def commit(self, effect: effects.CommitBatch) -> events.BatchCommitted | events.BatchFailed:
        """Commit a batch that is held."""
        lane = self._lane_of(effect.id)
        assert lane is not None and lane.held and lane.session is not None, f"{effect.id} is not held"
        try:
            async with self._audit.confirmed(lane.session):
                await lane.session.run(["COMMIT"])
        except SERVER_ERRORS as error:
            await lane.leave()
            return events.BatchFailed(effect.id, failure_of(error, committing=True))
        else:
            self._audit.add(effect.id)
            lane.left_open = False
            return events.BatchCommitted(effect.id, await self._replaced(lane))
        finally:
            lane.held = False

    async def rollback(self, effect: effects.RollbackBatch) -> events.BatchRolledBack:
        """Roll a batch back, at once where it still runs."""
        lane = self._lane_of(effect.id)
        if lane is not None:
            await lane.interrupt()
            await lane.leave()
        return events.BatchRolledBack(effect.id)

    def _lane_of(self, batch: effects.EffectId) -> Lane | None:
        return next((lane for lane in self._lanes if lane.batch == batch and (lane.running or lane.held)), None)

    async def save_checkpoint(self, effect: effects.SaveCheckpoint) -> events.CheckpointSaved | events.CheckpointFailed:
        """Store a checkpoint and delete the receipts below it."""
        position = msgspec.json.encode(effect.position).decode()
        statements = self._bookkeeping.save_checkpoint(effect.id.epoch, position, effect.drop)

        async def save(session: TargetSession) -> None:
            self._audit.checkpoint_sent(effect.position, effect.drop)
            await session.run(["BEGIN", *statements, "COMMIT"])
            self._audit.checkpoint_stored()

        failure = await self._control.do(save)
        return events.CheckpointSaved(effect.id) if failure is None else events.CheckpointFailed(effect.id, failure)

    async def settle(self) -> Failure | None:
        """A session that is opened for it verifies first that nothing reported is lost; its commit waits for the disk,
        and so does all that was committed before."""

        async def settle(session: TargetSession) -> None:
            async with self._audit.confirmed(session):
                await session.run(["BEGIN", *self._bookkeeping.settle(self._epoch), "COMMIT"])

        return await self._control.do(settle)

    async def apply_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName], votes: Mapping[int, int] = {}
    ) -> events.DdlApplied | events.DdlFailed:
        """The statement and the note that it ran (`ddl_passed`) commit together: it runs once, whatever is lost."""
        from tidelock.adapters.ddl.moved import moved  # DDL is rare, and takes long to import
        from tidelock.adapters.ddl.shadows import noted
        from tidelock.adapters.ddl.translate import reshaped, rows_first, translate

        async def statements(session: TargetSession) -> list[str]:
            there = await read_tables_to_change(session.connection, tables)
            changed = reshaped(effect.ddl, self._target_name)
            if changed and await self._bookkeeping.has_parked(session.connection, changed, everywhere=bool(votes)):
                raise rows_first(effect.ddl)
            shadows = await self._bookkeeping.read_shadows(session.connection)
            translated = translate(effect.ddl, "postgres", self._target_name, there, self._rules, shadows)
            translated = await with_schemas(session, effect.ddl, self._target_name, translated)
            translated = told(effect.ddl, self._target_name, translated, self._sister)
            kept = self._bookkeeping.shadows.keep(shadows, noted(effect.ddl, shadows, self._rules.takes))
            moves = moved(effect.ddl, self._target_name, self._rules)
            kept += await self._bookkeeping.copies.moved(session.connection, moves)
            gone = [self._bookkeeping.empty(table, everywhere=bool(votes)) for table in self._emptied(effect)]
            return [*self._bookkeeping.fence_votes(votes), *translated, *gone, *kept]

        try:
            return await self._pass(effect, tables, statements)
        except TargetError as error:
            return events.DdlFailed(effect.id, Failure(ErrorKind.TARGET, f"{error}. {error.hint}"))

    async def pass_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName]
    ) -> events.DdlApplied | events.DdlFailed:
        """Note that a statement has passed without us, and read the tables."""
        return await self._pass(effect, tables)

    def _emptied(self, effect: effects.ApplyDdl) -> tuple[TableName, ...]:
        from tidelock.adapters.ddl.translate import emptied

        return emptied(effect.ddl, self._target_name, self._rules)

    async def _pass(
        self,
        effect: effects.ApplyDdl,
        tables: Sequence[TableName],
        statements: Callable[[TargetSession], Awaitable[list[str]]] | None = None,
    ) -> events.DdlApplied | events.DdlFailed:
        """Run what `statements` says of the tables as they are, unless the statement has passed.  Raises TargetError.
        """

        async def pass_once(session: TargetSession) -> tuple[dict[TableName, TargetTable], tuple[events.Copied, ...]]:
            if await self._bookkeeping.read_ddl_passed(session.connection) != (effect.ddl.source, effect.ddl.number):
                made = await statements(session) if statements is not None else ()
                note = self._bookkeeping.pass_ddl(effect.id, effect.ddl, made)
                await session.run(["BEGIN", *note, "COMMIT"])
            there = await read_tables(session.connection, tables)
            return there, await self._bookkeeping.copies.read_chunks(session.connection)

        found = await self._control.do(pass_once)
        if isinstance(found, Failure):
            return events.DdlFailed(effect.id, found)
        self._forget_tables()
        self._tables, copied = found
        return events.DdlApplied(effect.id, self._tables, self._emptied(effect), copied)

    async def refuse(self, wanted: Sequence[TableName], alarm: Alarm) -> None:
        """Mark what asks for these tables as refused; a target that cannot be reached does not hear of it."""
        failure = await self._copying.refuse(self._epoch, wanted, alarm)
        if failure is not None:
            log.warning("why tables are not copied could not be kept: %s", failure.message)

    async def record_halt(self, effect: effects.Halt) -> bool:
        """A target that cannot be reached keeps no alarm; the caller has it, and it is logged."""
        words = msgspec.json.encode({"alarm": effect.alarm, "ddl": effect.ddl}).decode()
        statements = ["BEGIN", *self._bookkeeping.halt(self._epoch, words), "COMMIT"]
        failure = None
        for _ in range(HALT_ATTEMPTS):
            failure = await self._control.do(lambda session: session.run(statements))
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
        found = await self._control.do(lambda session: self._bookkeeping.read_control(session.connection))
        if isinstance(found, Failure):
            log.warning("the operator's wishes could not be read at %s: %s", self._settings.endpoint, found.message)
        else:
            self._last_control = found
        return self._last_control


def _tables(steps: Sequence[Step]) -> str:
    return ", ".join(dict.fromkeys(str(step.table.name) for step in steps))
