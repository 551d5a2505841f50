"""The batches of one apply machine: planned onto lanes, sent, retried, split, parked and committed.

Rows mode: each lane sends a batch as soon as the one before is committed.  Atomic mode (`consistency: transaction`):
one segment is a run of whole source transactions; they run side by side, each held before its COMMIT until all earlier
ones are committed.  Servers cannot see that wait, so where the head of the order waits longer than a bound, all later
open transactions are rolled back and sent again after it (counter-example 13).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tidelock.engine.batch.bad_row_search import Isolation
from tidelock.engine.batch.in_flight_batch import Attempt, Phase
from tidelock.engine.batch.merge import Ranks, in_log_order, merge
from tidelock.engine.batch.orphans import AGAIN, Orphans
from tidelock.engine.batch.parked_retry import Retries
from tidelock.engine.batch.parked_rows import ParkingLot, Place, decode_change, parked_row
from tidelock.engine.log import receipts
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.log.coalescer import Coalescer
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Failure, Hindrance, Policy, lacks_parent, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetTable
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import Keyspace, compile_keys, serial_reason, whole_table
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change, Segment
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyEffect,
    CommitBatch,
    EffectId,
    ParkedRow,
    RollbackBatch,
    Step,
)
from tidelock.engine.protocol.events import ParkedKey

_FIRST_DELAY_US = 20_000
_LONGEST_DELAY_US = 5_000_000
_WISH_DELAY_US = 200_000
_FOLLOWS = "an earlier change of the same row stays parked: retry the whole table, or skip that change first"


class Batches:
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
        self.lot = ParkingLot()
        self.committed_rows = 0
        self.committed_batches = 0
        self.retries = 0
        self.rows = 0  # planned and not yet committed
        self.streaming = False  # a transaction is applied as it comes, alone
        self.coalescer = Coalescer(options)
        self._options = options
        self._watermark = watermark
        self._next_id = next_id
        self._emit = emit
        self._space = Keyspace()
        self._attempts: dict[EffectId, Attempt] = {}
        self._resting: list[Attempt] = []
        self._order: list[Attempt] = []  # atomic mode: sent and not committed, in commit order
        self._committed_segments = 0
        self._head_since = 0  # when the head of the order became it, or later ones last gave way to it
        self._next_lane = 0
        self._wishes = Retries()
        self._orphans = Orphans()
        self._wish_at = 0
        self._wish_hindrance: Hindrance | None = None
        self.granted: EffectId | None = None  # the last that no position tells of: a batch of wishes, a merge
        self.now = 0  # of this step, set before its events are taken
        self.copied: tuple[TableName, ...] = ()  # tables that a merge may want for itself
        self._tables: dict[TableName, TargetTable] = {}
        self._bound: dict[TableName, list[Binding]] = {}
        self._uneven: dict[TableName, None] = {}  # some rows of theirs take them whole, others do not
        self.retable(tables)

    def retable(self, tables: dict[TableName, TargetTable]) -> None:
        """The target's tables are these from now on; nothing is under way."""
        for name, table in tables.items():
            if not table.key and name in self._tables and table.columns != self._tables[name].columns:
                self.lot.widen(name)
        self._tables = tables
        self._orphans.retable(tables)
        self._bound.clear()
        self.dispatcher.unbind()
        self._ranks = Ranks(tables, self._options.weights)

    def bind(self, binding: Binding) -> None:
        """Rows of several sources may go to one target table, under shapes of their own.  Those of a shape that lacks a
        column of a unique index take the table whole, so from the first of them on all others have to share it: those
        in flight too, as nobody has asked for the table before."""
        name = binding.name
        serial = self._lock_by(binding)
        self._bound.setdefault(name, []).append(binding)
        if not serial or name in self._uneven or serial_reason(binding.target):
            return
        self._uneven[name] = None
        for other in self._bound[name]:
            self._lock_by(other)
        table, _ = whole_table(name, self._space)
        for lane in self.lanes:
            for segment in (*lane.running, *lane.queue):
                if any(change.binding.name == name for change in segment.changes):
                    self.locks.issue_moded(segment, [(table, False)])

    def _lock_by(self, binding: Binding) -> bool:
        """Have its rows locked; do they take the whole table?"""
        taken = binding.name in self.copied or binding.name in self._uneven
        keys = compile_keys(binding, self._space, self._tables, copied=taken)
        self.dispatcher.bind(binding, keys)
        return bool(keys.serial)

    def adopt(self, parked: Sequence[ParkedKey]) -> None:
        """Rows that are parked at the target already; those with a wish are carried out first, the untried as if there
        were one."""
        self.lot.load(parked, self._tables)
        untried = (replace(row, wish="retry") for row in parked if not row.wish and decode_change(row.change).untried)
        self.wish([*(row for row in parked if row.wish), *untried])
        self._adopt_orphans(parked)

    def _adopt_orphans(self, parked: Sequence[ParkedKey]) -> None:
        rows = {(row.source, row.number, row.ordinal): row for row in parked if not row.wish}
        orphans = {place: change for place, row in rows.items() if (change := decode_change(row.change)).orphan}
        for place, held in orphans.items():
            row = rows[place]
            with contextlib.suppress(SchemaMismatch, KeyError):  # its table is another by now: it stays parked
                binding = Binding(-1, held.shape, self._tables[row.table])
                self._orphans.wait(Change(binding, held.before, held.after, *place), row)
        for place in self.lot.of_same_rows(orphans):
            if place in rows:
                self._orphans.behind(rows[place])
        self._try_again(list(orphans))

    def _try_again(self, orphans: Sequence[Place]) -> None:
        """With what is parked behind them, unless they follow something else that is."""
        places = self.lot.of_same_rows(orphans)
        if places and not self.lot.follows(places):
            rows = self._orphans.rows
            self.wish([replace(rows[place], wish=AGAIN) for place in places if place in rows])

    @property
    def busy(self) -> bool:
        """Is anything planned or sent and not known to be committed?"""
        return bool(self.rows) or self._wishes.under_way or self.streaming

    @property
    def hindrance(self) -> Hindrance | None:
        """Of the lane that has tried for longest."""
        found = [attempt.hindrance for attempt in self._attempts.values() if attempt.hindrance is not None]
        return min(found, key=lambda one: one.since, default=self._wish_hindrance)

    @property
    def sendable(self) -> bool:
        """Has a lane that is free something to run?"""
        return any(lane.ready for lane in self.lanes)

    # ------------------------------------------------------------------ plan and send

    def plan(self, changes: list[Change], end: Position, end_us: int) -> None:
        """One window: its changes go to lanes; it ends at `end`, at source time `end_us`."""
        assert not self.coalescer.rows, "what waits comes first"
        self._watermark.open(end, self._append(changes), end_us)

    def coalesce(self, batches: list[BoundBatch], end: Position, end_us: int) -> None:
        """One window, of which some may wait for more of their tables."""
        coalescer, mark = self.coalescer, self._watermark
        first = coalescer.window
        changes = coalescer.take_window(batches, mark.upcoming(), self.now)
        mark.open(end, self._append(changes), end_us, first=first, waits=coalescer.window)

    def plan_coalesced(self, latest: int) -> None:
        """Changes that waited for others of their tables since `latest` or longer go to lanes, as many as a window
        has."""
        coalescer = self.coalescer
        first = coalescer.window
        changes = coalescer.release(self._options.window_rows, latest)
        self._watermark.open_again(self._append(changes), first=first, waits=coalescer.window)

    def _append(self, changes: list[Change]) -> int:
        """To lanes; the number of segments made, which are of the window that is opened next."""
        if not changes:
            return 0
        self.rows += len(changes)
        window = self._watermark.upcoming()
        if not self._options.atomic:
            return self.dispatcher.plan(window, changes)
        lane, self._next_lane = self._next_lane, (self._next_lane + 1) % len(self.lanes)
        return self.dispatcher.plan_whole(window, changes, lane)

    def plan_alone(self, lane: Lane, table: TableName, end: Position) -> None:
        """Something other than changes, on a lane that is none of ours: it follows everything planned so far, and every
        later change of `table` follows it.  It counts as one row; the window that it makes ends at `end`."""
        window = self._watermark.open(end, 1)
        self.dispatcher.plan_alone(window, lane, [whole_table(table, self._space)])
        self.rows += 1

    def finish_alone(self, lane: Lane, id_: EffectId | None) -> None:
        """It is committed, with a receipt; or nothing has become of it (None)."""
        for segment in lane.finish():
            if id_ is not None:
                self._watermark.receipt(segment.window, id_)
            self._end(segment)
            self.rows -= 1
        self.granted = id_ or self.granted

    def send(self, *, wishes: bool) -> None:
        """Start a batch on every lane that is free and has something runnable; `wishes`: and what operators wished."""
        for lane in self.lanes:
            if lane.ready:
                attempt = Attempt(lane.number, lane.cut(1 if self._options.atomic else self._options.batch_rows))
                if self._options.atomic:
                    self._order.append(attempt)
                    self._order.sort(key=lambda a: a.order)
                    if attempt is self._first:
                        self._head_since = self.now
                self._send(attempt)
        if wishes:
            self._send_wishes()

    def _send(self, attempt: Attempt) -> None:
        """Compose the transaction for what the attempt covers now, and send it."""
        isolation = attempt.isolation
        reached = attempt.changes if isolation is None else isolation.tried
        bad = {} if isolation is None else dict(isolation.bad)
        run, parked = self.lot.sift(reached, bad) if bad or len(self.lot) else (reached, [])
        probing = isolation is not None and isolation.probing
        covered = attempt.changes if isolation is None else isolation.piece
        id_ = self._next_id()
        attempt.parked = [change for change, _ in parked]
        attempt.effect = ApplyBatch(
            id=id_,
            lane=attempt.lane,
            steps=self.steps(run, in_order=isolation is not None),
            covered=receipts.encode(covered, self._watermark.end(attempt.window)),
            rows=len(covered),
            parked=self.parked_rows(parked, id_, isolation),
            held=self._options.atomic or probing,
        )
        self._dispatch(attempt)

    def steps(self, run: Sequence[Change], *, in_order: bool) -> list[Step]:
        """Returns the steps that do these changes at the target; `in_order`: one after another."""
        return in_log_order(run) if in_order else merge(run, self._ranks)

    def parked_rows(
        self, parked: Sequence[tuple[Change, str]], id_: EffectId, isolation: Isolation | None
    ) -> tuple[ParkedRow, ...]:
        """As the batch or piece `id_` writes them, with their errors."""
        return tuple(
            parked_row(change, error, id_, n, orphan=isolation is not None and change in isolation.orphans)
            for n, (change, error) in enumerate(parked)
        )

    def _dispatch(self, attempt: Attempt) -> None:
        assert attempt.effect is not None
        self._attempts[attempt.effect.id] = attempt
        attempt.enter(Phase.RUNNING)
        self._emit(attempt.effect)

    # ------------------------------------------------------------------ answers

    def committed(self, id_: EffectId) -> None:
        if self._wishes.answers(id_):
            self._wish_hindrance = None
            retried = self._wishes.changes
            places = self._wishes.finish()
            self.lot.release(places)
            self._orphans.release(places)
            self._arrived(retried)
            self._watermark.receipt(self._watermark.window, id_)
            self.granted = id_
            return
        attempt = self._attempts.pop(id_, None)
        if attempt is None or attempt.effect is None:
            return
        self._watermark.receipt(attempt.window, id_)
        self.park(attempt.parked, attempt.effect.parked, attempt.isolation)
        if self._orphans:
            covered = attempt.changes if attempt.isolation is None else attempt.isolation.piece
            self._arrived([change for change in covered if change not in attempt.parked])
        self.committed_rows += attempt.effect.rows
        self.committed_batches += 1
        attempt.tries, attempt.hindrance = 0, None
        if attempt.isolation is not None:
            attempt.isolation.succeeded()
            if not attempt.isolation.finished:
                attempt.phase = Phase.RUNNING
                self._send(attempt)
                return
        self._finish(attempt)

    def park(self, changes: Sequence[Change], rows: Sequence[ParkedRow], isolation: Isolation | None) -> None:
        """Notes that these changes are parked at the target, as these rows."""
        for change, row in zip(changes, rows, strict=True):
            self.lot.park(change)
            key = ParkedKey(row.source, row.number, row.ordinal, TableName(row.schema, row.table), row.change)
            if isolation is not None and change in isolation.orphans:
                self._orphans.wait(change, key)
            elif self._orphans:
                self._orphans.behind(key)

    def _arrived(self, changes: Sequence[Change]) -> None:
        if orphans := self.adopted(changes):
            self._try_again(orphans)

    def adopted(self, changes: Sequence[Change]) -> list[Place]:
        """The orphans that one of these changes brings what they lack."""
        return self._orphans.arrived(changes) if self._orphans else []

    def streamed(self, rows: int, orphans: Sequence[Place]) -> None:
        """A transaction of so many rows that was applied as it came is committed, and brings these what they lack."""
        self.committed_rows += rows
        self.committed_batches += 1
        if orphans:
            self._try_again(orphans)

    def _finish(self, attempt: Attempt) -> None:
        for segment in self.lanes[attempt.lane].finish():
            self.rows -= len(segment.changes)
            self._end(segment)
        if self._options.atomic:
            self._order.remove(attempt)
            self._head_since = self.now
            self._head()

    def _end(self, segment: Segment) -> None:
        self.locks.release(segment)
        self._watermark.done(segment.window)
        self._committed_segments += 1

    def ready(self, id_: EffectId) -> None:
        """A held batch waits for its COMMIT."""
        attempt = self._attempts.get(id_)
        if attempt is None or attempt.phase is not Phase.RUNNING:
            return
        attempt.enter(Phase.READY)
        if attempt.isolation is not None and attempt.isolation.probing:
            self._roll_back(attempt)
            attempt.isolation.succeeded()
            attempt.effect = None
        elif self._options.atomic:
            self._head()
        else:
            self._commit(attempt)

    @property
    def _first(self) -> Attempt | None:
        """The head of the commit order; None if it waits for its lane, though later ones may be at the target."""
        return self._order[0] if self._order and self._order[0].order == self._committed_segments else None

    def _head(self) -> None:
        """Commit the head of the order if it is ready; wake it if it rests."""
        head = self._first
        if head is None:
            return
        if head.phase is Phase.READY:
            self._commit(head)
        elif head.phase is Phase.RESTING:
            head.retry_at = min(head.retry_at, self.now)

    def _commit(self, attempt: Attempt) -> None:
        assert attempt.effect is not None
        attempt.enter(Phase.COMMITTING)
        self._emit(CommitBatch(attempt.effect.id))

    def _roll_back(self, attempt: Attempt) -> None:
        assert attempt.effect is not None
        attempt.enter(Phase.ROLLING)
        self._emit(RollbackBatch(attempt.effect.id))

    def rolled_back(self, id_: EffectId) -> None:
        attempt = self._attempts.get(id_)
        if attempt is None or attempt.phase is not Phase.ROLLING:
            return
        if attempt.effect is None:
            del self._attempts[id_]
            self._send(attempt)
            return
        self._rest(attempt, self.now if attempt is self._first else self.now + self._options.commit_bound_us)
        self._head()

    def failed(self, id_: EffectId, failure: Failure) -> None:
        """Rolled back at the target (or in doubt): the identical batch again, or look for the bad row."""
        if self._wishes.answers(id_):
            self._wish_failed(failure)
            return
        attempt = self._attempts.get(id_)
        if attempt is None or attempt.phase is Phase.ROLLING:
            return  # told to roll back meanwhile: that answer comes, and the lane is not free before
        if policy(failure) is Policy.RETRY:
            self.retries += 1
            attempt.tries += 1
            attempt.hindrance = Hindrance.after(attempt.hindrance, self.now, failure.message)
            delay = min(_FIRST_DELAY_US << min(attempt.tries - 1, 10), _LONGEST_DELAY_US)
            self._rest(attempt, self.now + delay)
            return
        del self._attempts[id_]
        if attempt.isolation is None:
            attempt.isolation = Isolation(attempt.changes, atomic=self._options.atomic)
        attempt.isolation.failed(failure.message, lacks_parent=lacks_parent(failure))
        attempt.phase = Phase.RUNNING
        self._send(attempt)

    def _rest(self, attempt: Attempt, until: int) -> None:
        attempt.enter(Phase.RESTING)
        attempt.retry_at = until
        self._resting.append(attempt)

    def tick(self) -> None:
        """Send what has rested long enough; break a commit order that is stuck."""
        if self._resting:
            due = [a for a in self._resting if a.retry_at <= self.now]
            self._resting = [a for a in self._resting if a.retry_at > self.now]
            for attempt in due:
                self._dispatch(attempt)
        head = self._first
        waits = head is not None and head.phase in (Phase.RUNNING, Phase.RESTING)  # a lock timeout makes it rest
        if waits and self.now - self._head_since > self._options.commit_bound_us:
            self._head_since = self.now
            for later in self._order[1:]:
                if later.phase in (Phase.RUNNING, Phase.READY):
                    self._roll_back(later)

    # ------------------------------------------------------------------ parked rows that the operator wants back

    @property
    def wishing(self) -> bool:
        """An operator's retry or skip waits for everything before it: plan nothing new."""
        return bool(self._wishes)

    def wish(self, rows: Sequence[ParkedKey]) -> None:
        """What was read before it was carried out, and is told only now, is not parked any more.

        An operator's word comes before a trial of our own, for all that is parked of the same rows.
        """
        rows = [row for row in rows if (row.source, row.number, row.ordinal) in self.lot]
        if self._wishes.own:
            asked = [(row.source, row.number, row.ordinal) for row in rows if row.wish not in ("", AGAIN)]
            self._wishes.withdraw(self.lot.of_same_rows(asked))
        self._wishes.add(rows)

    def emptied(self, tables: Sequence[TableName]) -> None:
        """A TRUNCATE took the rows of these tables, the parked ones included: no wish brings them back."""
        for table in tables:
            self.release(self.lot.of(table))

    def release(self, gone: Sequence[Place]) -> None:
        """These are parked no more; nothing of what was wished is under way."""
        self.lot.release(gone)
        self._orphans.release(gone)
        self._wishes.forget(gone)

    def _send_wishes(self) -> None:
        if not self._wishes or self.rows or self.streaming or self._wishes.running or self.now < self._wish_at:
            return
        if self.lot.follows(self._wishes.places):
            self._emit(self._wishes.refuse(self._next_id(), _FOLLOWS))
        else:
            self._emit(self._wishes.start(self._next_id(), self._tables, self._ranks))

    def _wish_failed(self, failure: Failure) -> None:
        if policy(failure) is Policy.RETRY:
            self._wishes.again()
            self._wish_hindrance = Hindrance.after(self._wish_hindrance, self.now, failure.message)
            self._wish_at = self.now + _WISH_DELAY_US
        elif policy(failure) is not Policy.SPLIT or not self._wishes.split():
            self._emit(self._wishes.refuse(self._next_id(), failure.message))
