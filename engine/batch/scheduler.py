"""The batches of one apply machine: planned onto lanes, sent, tried again, split, committed.

Each lane has one batch at the target at most.  What a batch waits for before its COMMIT is told by the commit order,
when it is tried again by its backoff, what it leaves out by the parked rows; this class carries batches between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tidelock.engine.batch import arbitration, checked_steps
from tidelock.engine.batch.backoff import Backoff, delay_us
from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.batch.commit_order import CommitOrder, LaneOrder
from tidelock.engine.batch.commit_times import CommitTimes
from tidelock.engine.batch.conflict_cut import Suspect
from tidelock.engine.batch.contention import Contention
from tidelock.engine.batch.in_flight_batch import InFlightBatch, Phase, Turn
from tidelock.engine.batch.lock_waits import LockWaits, look
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.batch.parked_retry import ParkedRetry
from tidelock.engine.batch.parked_rows import Place, rows_to_park
from tidelock.engine.log import receipts
from tidelock.engine.log.coalescer import Coalescer
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Failure, Hindrance, Policy, lacks_parent, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.parallel.binding_locks import BindingLocks
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.provenance import least
from tidelock.engine.parallel.segments import LOCAL, Change, Provenance, Segment
from tidelock.engine.protocol.effects import ApplyBatch, ApplyEffect, CommitBatch, EffectId, RollbackBatch
from tidelock.engine.protocol.events import Decided
from tidelock.engine.protocol.steps import DecideChange, Step


class BatchScheduler:
    """Plans windows of changes, and brings them to the target in batches.

    `rows`: planned and not yet committed.  `streaming`: a transaction is applied as it comes, alone.  `now`: of this
    step, in microseconds; it is set before the step's events are taken.  `conflicts`: how many were decided, by type
    and outcome.  `times`: when changes were committed.
    `unpositioned_receipt`: the last commit that no position tells of (a batch of retries, a merge), until a checkpoint
    has dropped its receipt.
    """

    def __init__(
        self,
        options: Options,
        tables: dict[TableName, TargetTable],
        watermark: Watermark,
        next_id: Callable[[], EffectId],
        emit: Callable[[ApplyEffect], None],
    ) -> None:
        self.lanes = [Lane(n) for n in range(options.lanes)]
        self.locks = LockTable()
        self.dispatcher = Dispatcher(
            self.lanes,
            self.locks,
            batch_rows=options.batch_rows,
            min_rows_per_lane=options.min_rows_per_lane,
            whole_lanes=options.whole_lanes,
            locking=options.locking,
        )
        self.binding_locks = BindingLocks(self.dispatcher)
        self.coalescer = Coalescer(options)
        self.times = CommitTimes(options)
        self._make_steps = checked_steps.maker(options)
        self._make_steps_in_order = checked_steps.maker_in_order(options)
        self.parked_retry = ParkedRetry(next_id, emit, self._make_steps)
        self.parked_rows = self.parked_retry.rows
        self.committed_rows = 0
        self.committed_batches = 0
        self.retries = 0
        self.replaced_rows = 0
        self.conflicts = Counter[tuple[str, str]]()
        self.rows = 0
        self.streaming = False
        self.unpositioned_receipt: EffectId | None = None
        self.now = 0
        self._options, self._watermark = options, watermark
        self._next_id = next_id
        self._emit = emit
        self._batches: dict[EffectId, InFlightBatch] = {}  # by the id under which each was sent last
        self._backoff = Backoff()
        self._contention = Contention(options)
        self.order = CommitOrder(options) if options.atomic else LaneOrder(options)
        self.retable(tables)

    def retable(self, tables: dict[TableName, TargetTable]) -> None:
        """The target's tables are these from now on; nothing is under way."""
        self._ranks = Ranks(tables, self._options.weights)
        self.parked_retry.retable(tables, self._ranks)
        self.binding_locks.retable(tables)

    def bind(self, binding: Binding) -> None:
        """Learns of a table's new shape.  Raises SchemaMismatch where its rows cannot be locked, or not be looked at as
        the options want it."""
        checked_steps.require(binding, self._options)
        self.binding_locks.bind(binding)

    @property
    def busy(self) -> bool:
        """True while anything is planned or sent and not known to be committed."""
        return bool(self.rows) or self.parked_retry.under_way or self.streaming

    @property
    def in_flight(self) -> int:
        """Number of batches that are sent and not known to be committed, those in backoff included."""
        return len(self._batches)

    @property
    def hindrance(self) -> Hindrance | None:
        """Reason why the lane that has tried for longest does not succeed, else why a batch of retries does not."""
        found = [batch.hindrance for batch in self._batches.values() if batch.hindrance is not None]
        return min(found, key=lambda one: one.since, default=self.parked_retry.hindrance)

    @property
    def sendable(self) -> bool:
        """True if a lane that is free has something to run."""
        return any(lane.ready for lane in self.lanes)

    def lock_waits(self, alone: Lane) -> LockWaits:
        """Returns who waits for whom now.  `alone`: a lane that is none of ours, shown where something is on it."""
        lanes = [*self.lanes, alone] if alone.queue or alone.running else self.lanes
        return look(self.dispatcher, lanes, self.binding_locks.space)

    # ------------------------------------------------------------------ plan

    def plan_alone(self, lane: Lane, table: TableName, end: Position) -> None:
        """Plans something other than changes, on a lane that is none of ours: it follows everything planned so far, and
        every later change of `table` follows it.  It counts as one row; the window that it makes ends at `end`."""
        window = self._watermark.open(end, 1)
        self.dispatcher.plan_alone(window, lane, [self.binding_locks.table_lock(table)])
        self.rows += 1

    def finish_alone(self, lane: Lane, id_: EffectId | None) -> None:
        """Frees that lane: the thing is committed, with a receipt; or nothing has become of it (None)."""
        for segment in lane.running:
            if id_ is not None:
                self._watermark.receipt(segment.window, id_)
            self._end(segment)
            self.rows -= 1
        lane.finish()
        self.unpositioned_receipt = id_ or self.unpositioned_receipt

    # ------------------------------------------------------------------ send

    def send(self, *, retries: bool) -> None:
        """Starts a batch on every lane that is free and has something runnable; `retries`: and one of parked rows, if
        nothing else is under way."""
        for lane in self.lanes:
            if lane.ready:
                lane.cut(self.order.most_rows)
                segments = lane.running
                turn = Turn(segments[0].order)
                changes = [change for segment in segments for change in segment.changes]
                self.order.sent(turn, self.now)
                batch = InFlightBatch(lane.number, max(s.window for s in segments), changes, turn)
                if segments[0].provenance is not LOCAL:
                    origin = segments[0].provenance.origin
                    batch.provenance = Provenance(origin, least([s.provenance.seen for s in segments]))
                if self._contention.high:
                    batch.search = BadRowSearch.under(self._options, changes)
                    batch.search.decide_untried(self.dispatcher.keys_of)
                self._send(batch)
        if retries and not self.rows and not self.streaming:
            self.parked_retry.send(self.now)

    def _send(self, batch: InFlightBatch) -> None:
        """Composes the transaction for what the batch covers now, and sends it."""
        search = batch.search
        batch.covered = covered = batch.changes if search is None else search.piece
        reached = covered if search is None else search.tried
        bad = {} if search is None else dict(search.bad)
        run, parked = self.parked_rows.sift(reached, bad) if bad or len(self.parked_rows) else (reached, [])
        up, probing = self._options.direction == "up", search is not None and search.probing
        id_, places = self._next_id(), ((c.source, c.number, c.ordinal) for c in covered)
        batch.parked = [change for change, _ in parked]
        decided: tuple[DecideChange, ...] = ()
        if search is not None and search.refusals:
            origin = batch.provenance.origin
            decided = arbitration.questions(run, search.refusals, self._options, id_, origin, self.times)
            run = []
        batch.effect = ApplyBatch(
            id=id_,
            lane=batch.lane,
            steps=self.steps(run, parked, in_order=search is not None and search.in_order),
            covered=receipts.encode(places, self._watermark.end(batch.window)),
            rows=len(covered),
            parked=rows_to_park(parked, id_, search.orphans if search is not None else (), batch.provenance.origin),
            held=self.order.atomic or probing,
            origin=batch.provenance.origin,
            seen=batch.provenance.seen,
            decide=decided,
            told=arbitration.told(batch.parked) if up else (),
            scan=up and not self.order.atomic and len(run) > 1,
        )
        self._dispatch(batch)

    def steps(self, run: Sequence[Change], parked: Sequence[tuple[Change, str]], *, in_order: bool) -> list[Step]:
        """Returns the steps that do the changes of `run` at the target, while others are `parked` with them.

        `in_order`: one after another."""
        if not in_order:
            return self._make_steps(run, self._ranks)
        steps = self._make_steps_in_order(run)
        if self._options.replace:
            checked_steps.let_replace(steps, self.parked_rows, [change for change, _ in parked])
        return steps

    def _dispatch(self, batch: InFlightBatch) -> None:
        assert batch.effect is not None
        self._batches[batch.effect.id] = batch
        batch.turn.id = batch.effect.id
        batch.turn.enter(Phase.RUNNING)
        self._emit(batch.effect)

    # ------------------------------------------------------------------ answers

    def committed(self, id_: EffectId, decided: tuple[Decided, ...] = ()) -> None:
        """Takes the answer that a batch is committed; an answer to none is dropped, here and below."""
        if self.parked_retry.answers(id_):
            self.parked_retry.committed()
            self._watermark.receipt(self._watermark.window, id_)
            self.unpositioned_receipt = id_
            return
        batch = self._batches.pop(id_, None)
        if batch is None or batch.effect is None:
            return
        self._watermark.receipt(batch.window, id_)
        self.parked_retry.park(batch.parked, batch.effect.parked, batch.search)
        run = [change for change in batch.covered if change not in batch.parked] if batch.effect.decide else ()
        for change, asked, answer in zip(run, batch.effect.decide, decided, strict=True):
            self.conflicts.update(answer.conflicts)
            if answer.parked:
                self.parked_retry.park([change], [asked.parked], None)
        if self.parked_retry.awaits_parents:
            self.parked_retry.arrived(batch.covered, but=batch.parked)
        self._count(batch.effect.rows)
        if batch.search is None or batch.search.untried:
            self._contention.note(batch.effect.rows, sum(bool(answer.conflicts) for answer in decided))
        batch.tries, batch.hindrance = 0, None
        if batch.search is not None:
            batch.search.succeeded()
            if not batch.search.finished:
                batch.turn.phase = Phase.RUNNING
                self._send(batch)
                return
        self._finish(batch)

    def streamed(self, rows: int, orphans: Sequence[Place]) -> None:
        """Counts a transaction of so many rows that was applied as it came, and tries these orphans again, whose
        parents it has brought."""
        self._count(rows)
        if orphans:
            self.parked_retry.try_again(orphans)

    def _count(self, rows: int) -> None:
        self.committed_rows += rows
        self.committed_batches += 1

    def _finish(self, batch: InFlightBatch) -> None:
        lane = self.lanes[batch.lane]
        for segment in lane.running:
            self.rows -= len(segment.changes)
            self._end(segment)
        lane.finish()
        self.order.left(batch.turn, self.now)
        self._commit_next(None)

    def _end(self, segment: Segment) -> None:
        self.locks.release(segment.holder)
        self._watermark.done(segment.window)
        self.order.segment_committed()

    def ready(self, id_: EffectId) -> None:
        """Takes the answer that a held batch is prepared: only its COMMIT is to do."""
        batch = self._batches.get(id_)
        if batch is None or batch.turn.phase is not Phase.RUNNING:
            return
        batch.turn.enter(Phase.PREPARED)
        if batch.search is not None and batch.search.probing:
            self._roll_back(batch.turn)
            batch.search.succeeded()
            batch.effect = None
        else:
            self._commit_next(batch.turn)

    def _commit_next(self, prepared: Turn | None) -> None:
        if (turn := self.order.next_to_commit(prepared, self.now)) is not None:
            assert turn.id is not None
            turn.enter(Phase.COMMITTING)
            self._emit(CommitBatch(turn.id))

    def _roll_back(self, turn: Turn) -> None:
        assert turn.id is not None
        turn.enter(Phase.ROLLING_BACK)
        self._emit(RollbackBatch(turn.id))

    def rolled_back(self, id_: EffectId) -> None:
        """Takes the answer that a batch is rolled back: a trial goes on, others are sent again after a while."""
        batch = self._batches.get(id_)
        if batch is None or batch.turn.phase is not Phase.ROLLING_BACK:
            return
        if batch.effect is None:
            del self._batches[id_]
            self._send(batch)
            return
        self._backoff.add(batch, self.now + (0 if self.order.is_head(batch.turn) else self._options.commit_bound_us))
        self._commit_next(None)

    def failed(self, id_: EffectId, failure: Failure, suspects: Sequence[Suspect] = ()) -> None:
        """Takes the answer that a batch is rolled back at the target, or in doubt: the identical batch is sent again,
        or the bad row is looked for, with these suspects."""
        if self.parked_retry.answers(id_):
            self.parked_retry.failed(failure, self.now)
            return
        batch = self._batches.get(id_)
        if batch is None or batch.turn.phase is Phase.ROLLING_BACK:
            return  # told to roll back meanwhile: that answer comes, and the lane is not free before
        if policy(failure) is Policy.RETRY:
            self.retries += 1
            batch.tries += 1
            batch.hindrance = Hindrance.after(batch.hindrance, self.now, failure.message)
            self._backoff.add(batch, self.now + delay_us(batch.tries))
            return
        del self._batches[id_]
        if batch.search is None:
            batch.search = BadRowSearch.under(self._options, batch.changes)
        tried = len(batch.search.piece)
        if batch.search.cut(suspects, self.dispatcher.keys_of):
            self._contention.note(tried, len(suspects))
        elif not batch.search.decides_about(failure):
            batch.search.failed(failure.message, lacks_parent=lacks_parent(failure))
        batch.turn.phase = Phase.RUNNING
        self._send(batch)

    def tick(self) -> None:
        """Sends batches that have waited long enough; rolls back those that keep the head of the order waiting."""
        for batch in self._backoff.take_due(self.now):
            self._dispatch(batch)
        for turn in self.order.to_roll_back(self.now):
            self._roll_back(turn)
