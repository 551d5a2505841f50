"""The apply machine, and what an operator sees of it.  In simulated worlds it runs in tests/simulations."""

import pytest

from tidelock.engine.apply.machine import ApplyMachine, Options, State
from tidelock.engine.log import receipts
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure, Hindrance
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, TableName, Transaction
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, Halt, RequestResend
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    BatchFailed,
    BatchReady,
    LogArrived,
    Paused,
    SourceFailed,
    TakenOver,
    Tick,
)
from tidelock.simulations.catalogue import ACCOUNT, EXACT, SEAT, linked, shape, table
from tidelock.simulations.scenario import Scenario, position


def log(prev: int, last: int, *rows: RowChange, resent: bool = False, shapes: tuple[int, ...] = ()) -> LogBatch:
    transactions = tuple(Transaction("0-1", last, i) for i in range(len(rows)))
    specs = {0: shape(ACCOUNT), 1: shape(SEAT)}
    announced = {n: specs[n] for n in shapes}
    return LogBatch(position(prev), position(last), transactions, rows, announced, resent=resent)


def machine(options: Options | None = None) -> ApplyMachine:
    made = ApplyMachine(options or Options(checkpoint_us=10**12))
    made.step(0, [TakenOver(1, position(0), tables=linked(ACCOUNT, SEAT))])
    return made


def account(id_: int, ordinal: int = 0, table: int = 0) -> RowChange:
    return RowChange(table, None, (id_, None, "x"), ordinal)


def test_waits_for_its_takeover() -> None:
    waiting = ApplyMachine(Options())
    assert waiting.step(0, [LogArrived([log(0, 1, account(1))])]) == []
    assert waiting.backpressured
    assert waiting.snapshot() == {"state": "starting"}
    assert waiting.status() is None and not waiting.under_way


def test_its_status_tells_what_is_under_way_and_what_is_committed() -> None:
    taken = machine(Options(lanes=1, checkpoint_us=10**12))
    (sent,) = taken.step(1, [LogArrived([log(0, 1, account(1), account(2, 1), resent=True, shapes=(0,))])])
    assert isinstance(sent, ApplyBatch)
    seen = taken.status()
    assert seen is not None and taken.under_way
    assert (seen.position, seen.lanes, seen.rows, seen.batches) == (position(0), (2,), 0, 0)
    assert seen.locks == 2
    taken.step(2, [BatchCommitted(sent.id), Paused(True)])
    then = taken.status()
    assert then is not None and not taken.under_way
    assert (then.position, then.saved, then.lanes, then.rows, then.batches) == (position(1), position(0), (0,), 2, 1)
    assert then.paused and not then.locks and not then.parked and not then.hindrances
    assert (seen.rows, seen.paused) == (0, False)  # a moment's, not the machine's


def test_full_by_rows_taken_and_not_committed() -> None:
    taken = machine(Options(max_in_flight_rows=2, window_rows=1, lanes=1))
    assert not taken.backpressured
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,)), log(1, 2, account(2))])])
    assert taken.backpressured


def test_full_by_few_large_rows() -> None:
    taken = machine(Options(max_in_flight_rows=100, max_in_flight_bytes=1000, window_rows=1, lanes=1))
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,))], size=400)])
    taken.step(2, [LogArrived([log(1, 2, account(2))], size=400)])
    assert not taken.backpressured
    taken.step(3, [LogArrived([log(2, 3, account(3))], size=1200)])
    assert taken.backpressured


def test_full_by_what_waits_for_more_of_its_tables() -> None:
    options = Options(max_in_flight_rows=100, max_in_flight_bytes=1000, window_rows=1, lanes=0, coalesce_rows=9)
    taken = machine(options)
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,))], size=400)])
    waits = taken.batches.coalescer
    assert (waits.rows, taken.batches.rows, taken.backpressured) == (1, 0, False)
    waits.size = 1001
    assert taken.backpressured


def test_what_a_free_lane_can_run_goes_out_before_the_next_window_is_planned() -> None:
    """Once: then planning has its turn, however many lanes have become free."""
    taken = machine(Options(lanes=1, batch_rows=1, window_rows=2, max_in_flight_rows=4, checkpoint_us=10**12))
    batches = [log(0, 1, account(1), resent=True, shapes=(0,)), *(log(n, n + 1, account(n + 1)) for n in range(1, 8))]
    (first,) = taken.step(1, [LogArrived(batches)])
    planned = taken.batches.rows
    for turn in (2, 4):
        assert isinstance(first, ApplyBatch)
        (first,) = taken.step(turn, [BatchCommitted(first.id)])
        assert taken.planning_deferred
        assert isinstance(first, ApplyBatch)
        assert taken.batches.rows == planned - 1
        assert taken.step(turn + 1, [Tick()]) == []
        assert not taken.planning_deferred
        assert taken.batches.rows >= planned - 1
        planned = taken.batches.rows
    (second,) = taken.step(6, [BatchCommitted(first.id)])
    assert isinstance(second, ApplyBatch)
    before = taken.batches.rows
    taken.step(7, [BatchCommitted(second.id)])
    assert not taken.planning_deferred
    assert taken.batches.rows >= before


def test_atomic_takes_the_rest_of_a_transaction_that_does_not_fit_once_its_beginning_is_at_the_target() -> None:
    taken = machine(Options(max_in_flight_rows=1, atomic=True))
    part = LogBatch(
        position(0),
        Position("log.000001", 0, 2),
        (Transaction("0-1", 1, 0, complete=False),),
        (account(1), account(2, 1)),
        {0: shape(ACCOUNT)},
        resent=True,
    )
    (opening,) = taken.step(1, [LogArrived([part], size=1 << 30)])
    assert isinstance(opening, ApplyBatch) and taken.backpressured
    (piece,) = taken.step(2, [BatchReady(opening.id)])
    assert isinstance(piece, ApplyPiece) and taken.backpressured
    taken.step(3, [BatchReady(piece.id)])
    assert not taken.backpressured


@pytest.mark.parametrize(
    ("name", "told"),
    [("account", "no column email"), ("unknown", "the target has no table shop.unknown")],
)
def test_a_table_that_does_not_fit_halts_and_nothing_follows(name: str, told: str) -> None:
    narrow = TakenOver(1, position(0), tables=linked(SEAT))
    if name == "account":
        narrow = TakenOver(1, position(0), tables=linked(SEAT, table("account", {"id": EXACT, "note": EXACT}, ("id",))))
    halted = ApplyMachine(Options(window_rows=1))
    halted.step(0, [narrow])
    misfit = shape(ACCOUNT)
    if name == "unknown":
        misfit = type(misfit)(TableName("shop", "unknown"), misfit.columns, misfit.primary_key)
    seat = RowChange(1, None, (1, None, None, None, "x"), 0)
    good = LogBatch(position(0), position(1), (Transaction("0-1", 1, 0),), (seat,), {1: shape(SEAT)}, resent=True)
    bad = LogBatch(position(1), position(2), (Transaction("0-1", 2, 0),), (account(1),), {0: misfit})
    effects = halted.step(1, [LogArrived([good, bad])])
    assert isinstance(effects[-1], Halt)
    assert told in str(effects[-1].alarm)
    assert halted.state is State.HALTED
    assert halted.step(2, [LogArrived([good]), Tick()]) == []


def test_a_transaction_without_rows_shifts_no_identity() -> None:
    """Two rows and two transactions, but both rows are of the first."""
    taken = machine(Options(lanes=1))
    batch = LogBatch(
        position(0),
        Position("log.000001", 100, 1),
        (Transaction("0-1", 1, 0), Transaction("0-1", 2, 2, complete=False)),
        (account(1), account(2, 1)),
        {0: shape(ACCOUNT)},
        resent=True,
    )
    (effect,) = taken.step(1, [LogArrived([batch])])
    assert isinstance(effect, ApplyBatch)
    assert receipts.decode(effect.covered) == [("0-1", 1, 0), ("0-1", 1, 1)]


def test_a_duplicate_renames_no_table() -> None:
    """All that its reader had to say was taken with the batch itself; the number may mean another table by now."""
    taken = machine(Options(lanes=1))
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,))])])
    again = LogBatch(position(0), position(1), (Transaction("0-1", 1, 0),), (account(1),), {0: shape(SEAT)})
    taken.step(2, [LogArrived([again, log(1, 2, account(2))])])
    assert [str(s.changes[0].binding.name) for s in taken.batches.lanes[0].queue] == ["shop.account"]


def test_a_lost_source_is_read_again_from_where_the_log_was_taken() -> None:
    taken = machine()
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,))])])
    events: list[ApplyEvent] = [SourceFailed(Alarm("connection", "lost", "wait"), retryable=True)]
    assert taken.step(2, events) == [RequestResend(position(1), 1)]
    assert taken.step(3, [LogArrived([log(1, 2, account(2))], 0)]) == []  # of the old reader
    effects = taken.step(4, [LogArrived([log(1, 2, account(2), resent=True, shapes=(0,))])])
    assert [type(effect) for effect in effects] == [ApplyBatch]


def test_what_is_tried_again_is_told_until_it_succeeds() -> None:
    """At each end by itself; a commit of another lane ends nothing."""
    taken = machine(Options(lanes=2, checkpoint_us=10**12))
    rows = [account(n, n) for n in range(40)]
    effects = taken.step(1, [LogArrived([log(0, 1, *rows, resent=True, shapes=(0,))])])
    one, other = [effect for effect in effects if isinstance(effect, ApplyBatch)]
    assert taken.hindrances == {}
    full = Failure(ErrorKind.TRANSIENT, "the disk is full", "53100")
    taken.step(10, [BatchFailed(one.id, full), SourceFailed(Alarm("connection", "lost", "wait"), retryable=True)])
    taken.step(20, [BatchCommitted(other.id)])
    assert taken.hindrances == {"target": Hindrance(10, "the disk is full"), "source": Hindrance(10, "lost")}
    (again,) = [effect for effect in taken.step(10**6, [Tick()]) if isinstance(effect, ApplyBatch)]
    taken.step(10**6, [BatchFailed(again.id, full), LogArrived([log(1, 2, account(50), resent=True, shapes=(0,))])])
    assert taken.hindrances == {"target": Hindrance(10, "the disk is full")}
    taken.step(2 * 10**6, [Tick()])
    taken.step(2 * 10**6, [BatchCommitted(again.id)])
    assert taken.hindrances == {}


def test_pause_plans_nothing_and_finishes_what_is_in_flight() -> None:
    scenario = Scenario()
    lines = ["tables account", "take over", "log 1 resent: insert account 1 a x", "pause"]
    for line in lines:
        list(scenario.take(line))
    assert list(scenario.take("log 2: insert account 2 b x")) == []
    assert list(scenario.take("committed 1.1")) == []
    assert [line.strip() for line in scenario.take("resume")] == [
        "→ apply 1.2 lane 0 [0-1:2:0]: insert shop.account (2, b, x)"
    ]


def test_the_goal_may_be_set_before_the_takeover() -> None:
    scenario = Scenario()
    list(scenario.take("tables account"))
    assert list(scenario.take("goal 0")) == []
    assert list(scenario.take("take over")) == [], "nothing is known of the log yet"
    assert list(scenario.take("log 0 resent:")) == ["  → caught up"]


def test_a_reader_whose_first_batch_is_lost_is_asked_for_again() -> None:
    taken = machine()
    taken.step(1, [LogArrived([log(0, 1, account(1), resent=True, shapes=(0,))])])
    broken = SourceFailed(Alarm("connection", "connection lost", "Wait"), retryable=True)
    assert taken.step(2, [broken]) == [RequestResend(position(1), 1)]
    assert taken.step(3, [LogArrived([log(1, 2, account(2))], 0)]) == [], "of the reader before"
    assert taken.step(4, [LogArrived([log(2, 3, account(3))], 1)]) == [RequestResend(position(1), 2)]
    assert [type(e) for e in taken.step(5, [LogArrived([log(2, 3, account(3))], 2)])] == [Halt]


def test_a_wish_that_is_carried_out_is_followed_by_a_checkpoint() -> None:
    """A target may forget its last commits; a wish moves no position that would make the next checkpoint due."""
    scenario = Scenario()
    for line in (
        "tables account",
        "options checkpoint_us=0 idle_checkpoint_us=0",
        "take over",
        "log 1 resent: insert account 1 a x",
        "failed 1.1 row check violated",
        "committed 1.2",
        "saved 1.3",
        "wish retry 0-1:1:0",
    ):
        list(scenario.take(line))
    assert list(scenario.take("committed 1.4")) == ["  → save checkpoint 1.5 log.000001:100, drop 1.4"]
