"""A transaction that does not fit into the room for rows is applied as it comes, in bounded pieces, alone.

Transcripts of it are in tests/scenarios (`streamed_…`); simulated worlds have it with crashes at every effect.
"""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.log import receipts
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyEffect,
    ApplyPiece,
    CommitBatch,
    EffectId,
    RollbackBatch,
    StepDown,
)
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    BatchRolledBack,
    LogArrived,
    Receipt,
    TakenOver,
    Tick,
)
from tidelock.simulations.catalogue import ACCOUNT, linked, shape
from tidelock.simulations.scenario import position
from tidelock.simulations.scenario_log import FILE

OPTIONS = Options(atomic=True, max_in_flight_rows=10, batch_rows=4, checkpoint_us=10**12)


def part(first: int, rows: int, *, last: bool = False) -> LogBatch:
    """Part of one transaction: so many rows from this ordinal on."""
    changes = tuple(RowChange(0, None, (n, None, "x"), n) for n in range(first, first + rows))
    return LogBatch(
        Position(FILE, 0, first),
        position(1) if last else Position(FILE, 0, first + rows),
        (Transaction("0-1", 1, 0, last),),
        changes,
        {} if first else {0: shape(ACCOUNT)},
        resent=not first,
    )


class Feed:
    """A machine and a target that says yes, one step an answer."""

    def __init__(self, options: Options = OPTIONS, covered: bytes = b"") -> None:
        self.machine = ApplyMachine(options)
        self.now = 0
        self.sent: list[ApplyEffect] = []
        held = (Receipt(EffectId(1, 1), covered),) if covered else ()
        self.step(TakenOver(2, position(0), held, tables=linked(ACCOUNT)))

    def step(self, *events: ApplyEvent, passed: int = 1000) -> Sequence[ApplyEffect]:
        self.now += passed
        effects = self.machine.step(self.now, events or [Tick()])
        self.sent += effects
        return effects

    @property
    def waiting(self) -> int:
        """Rows taken and not in the target."""
        return self.machine.pipeline.intake.buffer.rows + self.machine.streaming.rows

    def until_room(self, answered: int) -> int:
        """Answer what was sent from `answered` on until there is room; how many are answered then."""
        while self.machine.backpressured and answered < len(self.sent):
            answered = self.answer(answered)
        return answered

    def answer(self, at: int) -> int:
        match self.sent[at]:
            case ApplyBatch(id=id_) | ApplyPiece(id=id_):
                self.step(BatchReady(id_))
            case CommitBatch(id=id_):
                self.step(BatchCommitted(id_))
        while self.machine.planning_deferred:
            self.step()
        return at + 1


@pytest.mark.parametrize("rows", [40, 4_000])
def test_however_large_it_is_no_more_waits_than_there_is_room_for(rows: int) -> None:
    feed, answered, most = Feed(), 0, 0
    for first in range(0, rows, 2):
        answered = feed.until_room(answered)
        assert not feed.machine.backpressured, "the log waits for ever"
        feed.step(LogArrived([part(first, 2, last=first + 2 >= rows)]))
        most = max(most, feed.waiting)
    while answered < len(feed.sent):
        answered = feed.answer(answered)
    assert most <= OPTIONS.max_in_flight_rows + 2
    pieces = [effect for effect in feed.sent if isinstance(effect, ApplyPiece)]
    assert max(piece.rows for piece in pieces) <= OPTIONS.batch_rows + 2
    written = [row[0] for piece in pieces for step in piece.steps for row in getattr(step, "rows", ())]
    assert written == list(range(rows)), "each once, in order"
    assert receipts.decode(pieces[-1].covered or b"") == [("0-1", 1, n) for n in range(rows)]
    assert len(pieces[-1].covered or b"") < 30
    assert feed.machine.watermark.position == position(1) and not feed.machine.batches.busy


def test_a_transaction_that_fits_is_one_batch() -> None:
    feed = Feed()
    feed.step(LogArrived([part(0, 4)]))
    (sent,) = feed.step(LogArrived([part(4, 5, last=True)]))
    assert isinstance(sent, ApplyBatch) and sent.rows == 9


def test_what_a_receipt_covers_opens_no_transaction() -> None:
    cover = receipts.ReceiptBuilder()
    for first in range(0, 30, 2):
        batch = part(first, 2)
        cover.add(_places(batch))
    feed = Feed(covered=cover.encode())
    for first in range(0, 30, 2):
        feed.step(LogArrived([part(first, 2, last=first == 28)]))
        feed.step()
    assert not any(isinstance(effect, ApplyBatch | ApplyPiece) for effect in feed.sent)
    assert feed.machine.watermark.position == position(1)
    assert feed.machine.watermark.droppable() == (EffectId(1, 1),)


def _places(batch: LogBatch) -> list[Change]:
    binding = Binding(0, shape(ACCOUNT), ACCOUNT)
    return [Change.of(binding, row, batch.transactions[0]) for row in batch.rows]


def test_a_piece_is_small_where_rows_are_large() -> None:
    feed = Feed(Options(atomic=True, max_in_flight_rows=1000, max_in_flight_bytes=8_000, batch_rows=100))
    for first in range(0, 12, 2):
        feed.step(LogArrived([part(first, 2)], size=2_000))
    assert feed.machine.backpressured, "by bytes: twelve rows of a thousand"
    (opening,) = feed.sent
    assert isinstance(opening, ApplyBatch)
    (piece,) = feed.step(BatchReady(opening.id))
    assert isinstance(piece, ApplyPiece) and piece.rows == 2


def test_a_target_that_is_away_is_told_as_a_hindrance_and_asked_again_until_it_answers() -> None:
    feed = Feed()
    for first in range(0, 10, 2):
        feed.step(LogArrived([part(first, 2)]))
    (opening,) = feed.sent
    assert isinstance(opening, ApplyBatch)
    (piece,) = feed.step(BatchReady(opening.id))
    assert isinstance(piece, ApplyPiece)
    (asked,) = feed.step(BatchFailed(piece.id, Failure(ErrorKind.TRANSIENT, "connection lost")))
    assert asked is opening
    assert feed.step(BatchFailed(opening.id, Failure(ErrorKind.TRANSIENT, "connection refused"))) == []
    assert feed.machine.hindrances["target"].message == "connection refused"
    assert feed.step(passed=100_000) == []
    (again,) = feed.step(passed=200_000)
    assert again is opening
    (end,) = feed.step(BatchReady(opening.id))
    assert isinstance(end, StepDown) and end.again and feed.machine.state is State.FENCED


@pytest.mark.parametrize("trouble", [ErrorKind.TARGET, ErrorKind.ROW])
def test_a_commit_that_is_refused_halts(trouble: ErrorKind) -> None:
    """Nobody can tell any more which row it was."""
    feed, answered = Feed(), 0
    for first in range(0, 20, 2):
        answered = feed.until_room(answered)
        feed.step(LogArrived([part(first, 2, last=first == 18)]))
    while not isinstance(feed.sent[-1], CommitBatch):
        answered = feed.answer(answered)
    (halt,) = feed.step(BatchFailed(feed.sent[-1].id, Failure(trouble, "refused")))
    assert "refused" in str(halt) and feed.machine.state is State.HALTED


def attempt(options: Options) -> StepDown | CommitBatch:
    """One owner: a large part, then 31 s of silence, then the end."""
    feed, answered = Feed(options), 0
    for first in range(0, 12, 2):
        answered = feed.until_room(answered)
        feed.step(LogArrived([part(first, 2)]))
    while answered < len(feed.sent):
        answered = feed.answer(answered)
    feed.step(passed=1_000)
    feed.step(passed=31_000_000)
    if isinstance(feed.sent[-1], RollbackBatch):
        feed.step(BatchRolledBack(feed.sent[-1].id))
        answered = len(feed.sent)
    feed.step(LogArrived([part(12, 2, last=True)]))
    while answered < len(feed.sent):
        answered = feed.answer(answered)
    last = feed.sent[-1]
    assert isinstance(last, StepDown | CommitBatch)
    return last


def test_an_end_that_is_late_each_time_is_waited_for_longer() -> None:
    first = attempt(OPTIONS)
    assert isinstance(first, StepDown) and first.again and first.stream_idle_us == 2 * OPTIONS.stream_idle_us
    assert isinstance(attempt(replace(OPTIONS, stream_idle_us=first.stream_idle_us)), CommitBatch)
