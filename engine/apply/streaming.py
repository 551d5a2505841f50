"""A transaction too large to hold, applied as it comes (`consistency: transaction`).

Where a transaction of the log outgrows the room for rows before its end has come, it runs alone: all before it is
committed, and nothing else is planned until it is.  The target has one transaction open for it (`ApplyBatch`, held,
whose receipt covers nothing yet).  Its rows follow in pieces (`ApplyPiece`): one at the target, one behind it.  A piece
that is refused has left nothing, so its halves are tried in its place, in log order, until one change alone is refused;
that one is parked in the same transaction, and what follows it of its row too.  With the last piece the receipt is
completed; then it commits.  Until then no reader of the target sees any of it.

What has been taken is not there any more, so a transaction that is lost is never tried again from here.  Its receipt
is asked for under the same id, which tells three things: whether it was committed after all (an answer of COMMIT was
lost), whether the feed is still ours, and that nothing is left of it.  Then this owner steps down, and the next one
begins again at the checkpoint.  The same follows where its end does not come: it is rolled back after a while, and
asked for once the log goes on; the next owner waits twice as long, so that one of them ends it.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence

from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.batch.parked_rows import Place, rows_to_park
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.log import receipts
from tidelock.engine.log.watermark import Watermark
from tidelock.engine.model.errors import Failure, Hindrance, Policy, lacks_parent, policy
from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Position
from tidelock.engine.parallel.segments import LOCAL, Change, Provenance
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyEffect,
    ApplyPiece,
    CommitBatch,
    EffectId,
    RollbackBatch,
    StepDown,
)
from tidelock.engine.protocol.steps import ParkedRow, Step

LANE = 0
_RETRY_US = 200_000
_PIECES = 8  # share the room for bytes


class Phase(enum.Enum):
    """Phase of the target's transaction.

    OPENING, OPEN, COMMITTING: it is being opened, takes pieces, is to commit.
    LEAVING: told to roll back.  LEFT: rolled back, until the log goes on.
    ASKING: its receipt is asked for.
    NONE: nothing of it is at the target.
    """

    NONE = "none"
    OPENING = "opening"
    OPEN = "open"
    COMMITTING = "committing"
    LEAVING = "leaving"
    LEFT = "left"
    ASKING = "asking"


class Streaming:
    """Applies one large transaction at a time, piece by piece.

    `rows`: taken from the log, and not known to be in the target's transaction.
    `hindrance`: why the transaction does not go on just now, though that is tried.
    """

    def __init__(
        self,
        options: Options,
        batches: BatchScheduler,
        watermark: Watermark,
        next_id: Callable[[], EffectId],
        emit: Callable[[ApplyEffect], None],
    ) -> None:
        self._options = options
        self._batches = batches
        self._watermark = watermark
        self._next_id = next_id
        self._emit = emit
        self.now = 0
        self._forget()

    def _forget(self) -> None:
        self.rows = 0
        self.hindrance: Hindrance | None = None
        self._phase = Phase.NONE
        self._opening: ApplyBatch | None = None
        self._sent: ApplyPiece | None = None
        self._resting_until: int | None = None  # the opening is to be sent again then
        self._idle_since: int | None = None
        self._idled = False  # rolled back as its end did not come
        self._waiting: deque[list[Change]] = deque()
        self._search: BadRowSearch | None = None  # of the piece at the target
        self._piece: list[Change] = []
        self._parked: list[Change] = []
        self._orphans: dict[Place, None] = {}
        self._provenance = LOCAL
        self._cover = receipts.ReceiptBuilder()
        self._total = 0
        self._taken: tuple[Position, int] | None = None
        self._window: int | None = None  # once all of it is taken
        self._covered = False

    def __bool__(self) -> bool:
        """Tells whether a transaction is under way."""
        return self._batches.streaming

    @property
    def wants_more(self) -> bool:
        """May another piece be taken from the log?"""
        working = self._phase in (Phase.NONE, Phase.OPENING, Phase.OPEN)
        return bool(self) and working and not self._waiting and self._window is None

    def piece_rows(self, row_bytes: float) -> int:
        """Returns about how many rows a piece may have; `row_bytes`: of a row, 0 where nobody knows."""
        most = self._options.batch_rows
        return max(1, min(most, int(self._options.max_in_flight_bytes / _PIECES / row_bytes))) if row_bytes else most

    def figures(self) -> dict[str, int]:
        """Returns, for people, how many of its rows the target has taken."""
        return {"streamed": self._total} if self else {}

    # ------------------------------------------------------------------ the log

    def begin(self) -> None:
        """Begin with the next piece; all before it is committed."""
        assert not self._batches.busy, "a large transaction runs alone"
        self._batches.streaming = True

    def take(self, changes: list[Change], end: Position, end_us: int, provenance: Provenance = LOCAL) -> None:
        """Take the next piece, up to the place `end` of the log; `end_us`: source time there, microseconds since the
        epoch.  `provenance`: of the transaction; that of its first piece counts."""
        self._taken = end, end_us
        if changes and not self.rows and self._phase is Phase.NONE:
            self._provenance = provenance
        if changes:
            self._waiting.append(changes)
            self.rows += len(changes)
            self._cover.add(changes)

    def end(self) -> None:
        """Note that all of it is taken."""
        assert self._taken is not None, "a transaction has a piece"
        position, end_us = self._taken
        nothing = self._phase is Phase.NONE and not self._waiting
        self._window = self._watermark.open(position, 0 if nothing else 1, end_us)
        if nothing:
            self._done()

    def heard(self) -> None:
        """Note that the log goes on."""
        self._idle_since = None
        if self._phase is Phase.LEFT:
            self._ask()

    # ------------------------------------------------------------------ going on

    def go_on(self) -> None:
        """Send what is to be sent now."""
        if self._resting_until is not None:
            if self.now < self._resting_until:
                return
            self._resting_until = None
            assert self._opening is not None
            self._emit(self._opening)
        elif self._phase is Phase.NONE and self._waiting:
            origin, seen = self._provenance.origin, self._provenance.seen
            self._opening = ApplyBatch(
                self._next_id(), LANE, [], receipts.NOTHING, 0, held=True, origin=origin, seen=seen
            )
            self._phase = Phase.OPENING
            self._emit(self._opening)
        elif self._phase is Phase.OPEN and self._sent is None:
            self._send()

    def _send(self) -> None:
        if self._search is not None:
            self._send_piece()
        elif self._waiting:
            self._piece = self._waiting.popleft()
            self._send_piece()
        elif self._window is None:
            self._wait()
        elif not self._covered:
            self._covered = True
            self._emit_piece([], (), self._cover.encode(self._watermark.end(self._window)))
        else:
            assert self._opening is not None
            self._phase = Phase.COMMITTING
            self._emit(CommitBatch(self._opening.id))

    def _send_piece(self) -> None:
        """Send the piece, or the part of it that is looked at."""
        search, batches, id_ = self._search, self._batches, self._next_id()
        bad = dict(search.bad) if search is not None else {}
        run, aside = batches.parked_rows.sift(self._piece if search is None else search.tried, bad)
        self._parked = [change for change, _ in aside]
        steps = batches.steps(run, aside, in_order=search is not None)
        orphans = search.orphans if search is not None else ()
        parked = rows_to_park(aside, id_, orphans, self._provenance.origin)
        self._emit_piece(steps, parked, None, id_, len(run) + len(aside))

    def _emit_piece(
        self,
        steps: list[Step],
        parked: tuple[ParkedRow, ...],
        covered: bytes | None,
        id_: EffectId | None = None,
        rows: int = 0,
    ) -> None:
        assert self._opening is not None
        self._sent = ApplyPiece(id_ or self._next_id(), self._opening.id, LANE, steps, rows, parked, covered)
        self._emit(self._sent)

    def _wait(self) -> None:
        """Wait for more of the log, but not for ever with a transaction open."""
        if self._idle_since is None:
            self._idle_since = self.now
        elif self.now - self._idle_since >= self._options.stream_idle_us:
            assert self._opening is not None
            self._phase = Phase.LEAVING
            self._idled = True
            self._emit(RollbackBatch(self._opening.id))

    # ------------------------------------------------------------------ answers

    def answers(self, id_: EffectId) -> bool:
        """Tells whether this is the reply to what was sent last."""
        if self._sent is not None:
            return self._sent.id == id_
        return self._opening is not None and self._opening.id == id_

    def ready(self) -> StepDown | None:
        """Take BatchReady: the transaction is open, or a piece is in it.  Returns how this owner ends, if nothing is
        left of it."""
        self.hindrance = None
        if self._sent is not None:
            self._applied(self._sent)
        elif self._phase is Phase.OPENING:
            self._phase = Phase.OPEN
        elif self._phase is Phase.ASKING and self._resting_until is None:
            reason = "a transaction that is applied as it comes was lost before its commit: it begins again"
            patience = self._options.stream_idle_us
            return StepDown(reason, again=True, stream_idle_us=2 * patience if self._idled else patience)
        return None

    def _applied(self, sent: ApplyPiece) -> None:
        search, self._sent = self._search, None
        self._batches.parked_retry.park(self._parked, sent.parked, search)
        parked = dict.fromkeys(self._parked)
        found = self._batches.parked_retry.adopted([change for change in self._done_with() if change not in parked])
        self._orphans.update(dict.fromkeys(found))
        self.rows -= sent.rows
        self._total += sent.rows
        self._parked = []
        if search is not None:
            search.succeeded()
        if search is None or search.finished:
            self._piece, self._search = [], None

    def _done_with(self) -> Sequence[Change]:
        return self._piece if self._search is None else self._search.piece

    def committed(self) -> None:
        """Take BatchCommitted: the transaction is at the target, its receipt with it."""
        if self._phase not in (Phase.COMMITTING, Phase.ASKING):
            return
        assert self._opening is not None and self._window is not None
        self._watermark.receipt(self._window, self._opening.id)
        self._watermark.done(self._window)
        self._batches.streamed(self._total, list(self._orphans))
        self._done()

    def _done(self) -> None:
        self._batches.streaming = False
        self._forget()

    def rolled_back(self) -> None:
        """Take BatchRolledBack: nothing is left of the transaction."""
        if self._phase is Phase.LEAVING:
            self._phase = Phase.LEFT
            if self._idle_since is None:  # the log went on meanwhile
                self._ask()

    def failed(self, failure: Failure) -> Failure | None:
        """Take BatchFailed.  Returns what the machine must give up for."""
        how = policy(failure)
        if how is Policy.SPLIT and self._sent is not None and not self._sent.covered:
            self._refused(failure)
            return None
        if how is not Policy.RETRY:
            return failure
        self.hindrance = Hindrance.after(self.hindrance, self.now, failure.message)
        if self._phase in (Phase.OPENING, Phase.ASKING):
            self._resting_until = self.now + _RETRY_US
        else:
            self._ask()
        return None

    def _refused(self, failure: Failure) -> None:
        if self._search is None:
            self._search = BadRowSearch(self._piece, atomic=False, differs=self._options.replace)
        self._search.failed(failure.message, lacks_parent=lacks_parent(failure))
        self._sent = None

    def _ask(self) -> None:
        """Ask what became of it, before anything else is done."""
        self._batches.retries += 1
        self._phase, self._sent, self._resting_until = Phase.ASKING, None, self.now
