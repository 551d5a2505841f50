"""The window planner: how much of the log is planned at once, and what of it is to be done at the target.

A window goes from the intake to the lanes in this order: its rows are bound to the target's tables; what a chunk brings
anyway is taken out of it (`copy.machine`); what receipts of an earlier owner cover is dropped (`receipts.Fence`); the
rest becomes segments (`batch.scheduler`), or waits for more of its tables (`log.coalescer`).

Between two windows a copy may begin or a chunk be merged, a statement may raise the barrier, and a transaction that is
too large to hold may begin to go to the target as it comes (`streaming`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelock.engine.apply.ddl_barrier import Barrier, Passage, judge
from tidelock.engine.apply.log_intake import LogIntake
from tidelock.engine.apply.step_context import StepContext
from tidelock.engine.apply.streaming import Streaming
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.copy.machine import CopyMachine
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.log.receipts import Fence
from tidelock.engine.log.relation_cache import RelationCache
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.options import Options
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import SchemaMismatch, TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.parallel.provenance import Origins, least, parts
from tidelock.engine.parallel.segments import LOCAL, Change, Provenance
from tidelock.engine.protocol.events import TakenOver

_BEHIND_US = 50_000
_NEVER = -1


class WindowPlanner:
    """Plans windows while there is room for their rows."""

    def __init__(
        self,
        options: Options,
        taken: TakenOver,
        intake: LogIntake,
        barrier: Barrier,
        fence: Fence,
        watermark: Watermark,
        batches: BatchScheduler,
        copying: CopyMachine,
        streaming: Streaming,
        context: StepContext,
    ) -> None:
        self._options = options
        self._intake = intake
        self._buffer = intake.buffer
        self._barrier = barrier
        self._fence = fence
        self._watermark = watermark
        self._batches = batches
        self._copying = copying
        self._streaming = streaming
        self._context = context
        self._relations = RelationCache(dict(taken.tables), batches.bind)
        self._ddl_passed = taken.ddl_passed
        self._log_end = taken.log_end
        self._behind_until = 0  # told by a buffer with half a window, or no room for more

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        """The target's tables are these from now on, or their locks are others."""
        self._relations.retable(tables)

    @property
    def backpressured(self) -> bool:
        """The log should wait: enough rows are taken and not committed, or few large ones."""
        rows = self._buffer.rows + self._batches.rows + self._streaming.rows
        heavy = rows * self._buffer.row_bytes + self._batches.coalescer.size > self._options.max_in_flight_bytes
        return heavy or rows >= self._options.max_in_flight_rows

    # ------------------------------------------------------------------ windows

    def plan(self) -> None:
        """Plan windows while there is room; a DDL statement stops planning until all before it is committed."""
        if self.backpressured or 2 * self._buffer.rows >= self._options.window_rows:
            self._behind_until = self._context.now + _BEHIND_US
        while self._barrier.ddl is None and not self._batches.parked_retry.requested and not self._streaming:
            if self._batches.coalescer.has_waited_since(latest := self._latest):
                if self._crowded:
                    return
                self._plan_coalesced(latest)
                continue
            if self._copying and self._copying.plan():
                return
            if not self._buffer or self._crowded:
                return
            if (ddl := self._buffer.ddl) is not None:
                self._take_statement(ddl)
            elif self._options.atomic and not self._buffer.has_complete_transaction:
                if self.backpressured and not self._batches.busy:
                    self._streaming.begin()
                return
            elif not self._plan_window():
                return

    def _take_statement(self, ddl: Ddl) -> None:
        """Let a statement pass, or raise the barrier for it."""
        batch = self._buffer.statement()
        self._relations.learn(batch.shapes)
        self._copying.seen(batch.last, resent=batch.resent)
        if ddl.kind is not DdlKind.UNRELATED:
            self._copying.statement(ddl.targets)
        if judge(ddl, self._ddl_passed) is not Passage.PASS:
            self._barrier.raise_for(ddl, batch.last)
            return
        self._watermark.open(batch.last, 0)
        if ddl.kind is not DdlKind.UNRELATED:
            self._barrier.passes(ddl, batch.last)

    @property
    def _crowded(self) -> bool:
        """Tells whether so much is under way that nothing more is planned."""
        return self._batches.rows > self._options.max_in_flight_rows // 2

    def _plan_window(self) -> bool:
        """Take batches of the log for one window and hand their changes over; False if the feed had to halt."""
        may_wait = self._may_wait
        window = self._buffer.window(self._options.batch_rows if self._options.atomic else self._options.window_rows)
        if (bound := self._bind(window)) is None:
            return False
        self._batches.times.note(batch.transactions for batch in window)
        end, end_us = window[-1].last, next((batch.end_us for batch in reversed(window) if batch.end_us), 0)
        if may_wait and self._batches.coalescer.applies_to([table for one in bound for table in one.bindings.values()]):
            self._copying.seen(end, resent=any(batch.resent for batch in window))
            self._coalesce(bound, end, end_us)
            return True
        if (changes := self._effective(window, bound)) is None:
            return False
        self._plan_changes(changes, end, end_us, origins_of(window), seen_of(window))
        return True

    def _bind(self, window: Sequence[LogBatch]) -> list[BoundBatch] | None:
        """Bind the window's rows to the target's tables; None if the feed had to halt."""
        bound: list[BoundBatch] = []
        for batch in window:
            try:
                self._relations.learn(batch.shapes)
                bound.append(BoundBatch(batch, self._relations.bind))
            except SchemaMismatch as error:
                self._context.halt(_mismatch(error, batch.prev))
                return None
        return bound

    def _effective(self, window: Sequence[LogBatch], bound: Sequence[BoundBatch]) -> list[Change] | None:
        """Returns what the batches change at the target: less what comes with a chunk and what receipts cover.  None if
        the feed had to halt."""
        end = window[-1].last
        changes = [change for one in bound for change in one.changes()]
        altered: dict[Change, Change | None] = {}
        if self._copying:
            try:
                altered = self._copying.sift(changes, end)
            except SchemaMismatch as error:
                self._context.halt(_mismatch(error, end))
                return None
        self._copying.seen(end, resent=any(batch.resent for batch in window))
        if self._fence:
            changes, spent = self._fence.admit(changes)
            if self._options.direction == "down" and len(parked := self._batches.parked_rows):
                changes = [c for c in changes if (c.source, c.number, c.ordinal) not in parked]
            if self._log_end is not None and end.order >= self._log_end.order:
                spent += self._fence.close()
            for receipt in spent:
                self._watermark.receipt(self._watermark.upcoming(), receipt)
        if altered:
            changes = [part for change in changes if (part := altered.get(change, change)) is not None]
        return changes

    # ------------------------------------------------------------------ to lanes

    def _plan_changes(
        self,
        changes: list[Change],
        end: Position,
        end_us: int,
        origins: Origins | None = None,
        seen: Position | None = None,
    ) -> None:
        """Plans one window: its changes go to lanes; it ends at `end`, at source time `end_us`.

        `origins`: of changes that did not begin at the source.  `seen`: as `LogBatch.seen`, of all of them.
        """
        assert not self._batches.coalescer.rows, "what waits comes first"
        made = self._append_apart(changes, origins, seen) if origins or seen is not None else self._append(changes)
        self._watermark.open(end, made, end_us)

    def _coalesce(self, batches: list[BoundBatch], end: Position, end_us: int) -> None:
        """Plans one window, of which some changes may wait for more of their tables."""
        coalescer, mark = self._batches.coalescer, self._watermark
        first = coalescer.window
        changes = coalescer.take_window(batches, mark.upcoming(), self._context.now)
        mark.open(end, self._append(changes), end_us, first=first, waits=coalescer.window)

    def _plan_coalesced(self, latest: int) -> None:
        """Plans changes that have waited for others of their tables since `latest` or longer, as many as a window
        has."""
        coalescer = self._batches.coalescer
        first = coalescer.window
        changes = coalescer.release(self._options.window_rows, latest)
        self._watermark.open_again(self._append(changes), first=first, waits=coalescer.window)

    def _append(self, changes: list[Change]) -> int:
        """Appends to lanes; returns the number of segments made, which are of the window that is opened next."""
        if not changes:
            return 0
        self._batches.rows += len(changes)
        window, lane = self._watermark.upcoming(), self._batches.order.lane()
        if lane is None:
            return self._batches.dispatcher.plan(window, changes)
        return self._batches.dispatcher.plan_transactions(window, changes, lane)

    def _append_apart(self, changes: list[Change], origins: Origins | None, seen: Position | None) -> int:
        """Appends to lanes so that each batch has one origin; returns as `_append`."""
        dispatcher, made = self._batches.dispatcher, 0
        for origin, part in parts(changes, origins, None if self._batches.order.atomic else dispatcher.keys_of):
            dispatcher.provenance = Provenance(origin, seen)
            made += self._append(part)
        dispatcher.provenance = LOCAL
        return made

    # ------------------------------------------------------------------ waiting for more of a table

    @property
    def _may_wait(self) -> bool:
        """May changes of the next window wait for more of their tables?  Not while they are looked at one by one."""
        if self._copying or self._fence:
            return False
        return self._behind and self._options.coalesce_rows > 0 and not self._options.atomic

    @property
    def _behind(self) -> bool:
        """Tells whether more waits in the log than is taken from it, or did a moment ago."""
        return self._context.now < self._behind_until

    @property
    def _latest(self) -> int:
        """The time since when a table must have waited for more of its changes, to be planned next.

        That is now, for all tables to be planned, where the log is not behind any more, and before a statement or a
        copy.  It is now, for those that waited longest, where too much waits.  Otherwise a table that has waited long
        enough leaves with the next window of the log, if there is one.
        """
        if not self._behind or self._copying or self._buffer.ddl is not None or self._batches.coalescer.crowded:
            return self._context.now
        return _NEVER if self._buffer else self._context.now - self._options.linger_us

    # ------------------------------------------------------------------ a transaction that is too large to hold

    def stream(self) -> bool:
        """Take pieces of a transaction that does not fit; it is under way, so a pause lets it end.

        Returns whether another piece may be taken at once.
        """
        streaming, buffer = self._streaming, self._buffer
        while streaming.wants_more and buffer:
            window = buffer.piece(streaming.piece_rows(buffer.row_bytes))
            if window:
                if (bound := self._bind(window)) is None or (changes := self._effective(window, bound)) is None:
                    return False
                streaming.take(changes, window[-1].last, window[-1].end_us, _provenance(window))
            if not buffer.open:
                streaming.end()
        streaming.go_on()
        return streaming.wants_more and bool(buffer)


def origins_of(window: Sequence[LogBatch]) -> dict[tuple[str, int], Origin]:
    """Returns the origins of a window's transactions that did not begin at the source, by source and number."""
    found: dict[tuple[str, int], Origin] = {}
    for batch in window:
        if batch.origins:
            for one in batch.transactions:
                if one.origin:
                    found[one.source, one.number] = batch.origins[one.origin - 1]
    return found


def seen_of(window: Sequence[LogBatch]) -> Position | None:
    """Returns `LogBatch.seen` of a window: the least of its batches with changes."""
    return least([batch.seen for batch in window if batch.transactions])


def _provenance(piece: Sequence[LogBatch]) -> Provenance:
    """Returns the provenance of a piece of one transaction: where the source told of its first part, a batch ends with
    it."""
    origins = list(dict.fromkeys(origins_of(piece).values()))
    assert len(origins) < 2, "a batch ends with a large transaction"
    return Provenance(origins[0] if origins else None, seen_of(piece))


def _mismatch(error: SchemaMismatch, at: Position) -> Alarm:
    hint = (
        "Mend the target's table or the feed (`tidelock check FEED` tells what differs), then `tidelock run FEED`; "
        "what the target's rows had lost comes back with `tidelock copy FEED --table DB.TABLE`"
    )
    return Alarm("schema", str(error), hint, str(at))
