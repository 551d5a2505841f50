"""Changes of tables that have few of them wait for more while the log is behind, and nothing overtakes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidelock.engine.apply.machine import ApplyMachine, Options
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.log.coalescer import Coalescer
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, TableName, Transaction
from tidelock.engine.model.schema import Binding, ForeignKey
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.parallel.segments import Change
from tidelock.engine.protocol.effects import ApplyBatch, ApplyDdl, SaveCheckpoint
from tidelock.engine.protocol.events import (
    ApplyEvent,
    BatchCommitted,
    CheckpointSaved,
    GoalSet,
    LogArrived,
    TakenOver,
    Tick,
)
from tidelock.simulations.catalogue import ACCOUNT, linked, shape
from tidelock.simulations.scenario import position

NAMES = [TableName("shop", f"item_{number}") for number in range(10)]
TABLES = [replace(ACCOUNT, name=name) for name in NAMES]


class Came(NamedTuple):
    """A change of one table, in the log's `number`th transaction; `large`: bytes of its text."""

    table: int
    number: int
    binding: Binding | None = None
    large: int = 1


def change(table: int, number: int, binding: Binding | None = None) -> Came:
    return Came(table, number, binding)


def large(table: int, size: int) -> Came:
    return Came(table, 0, large=size)


BINDINGS = [Binding(number, shape(table), table) for number, table in enumerate(TABLES)]


def bound(came: Sequence[Came]) -> BoundBatch:
    bindings = [one.binding or BINDINGS[one.table] for one in came]
    rows = [RowChange(b.number, None, (c.number, None, "x" * c.large), 0) for b, c in zip(bindings, came, strict=True)]
    made = [Transaction("0-1", one.number, n) for n, one in enumerate(came)]
    batch = LogBatch(position(0), position(1), tuple(made), tuple(rows))
    return BoundBatch(batch, lambda _: {binding.number: binding for binding in bindings})


class Lot(Coalescer):
    def take(self, came: Sequence[Came], window: int, now: int) -> list[int]:
        """The numbers of those that leave."""
        return numbers(self.take_window([bound(came)], window, now))


def numbers(changes: Sequence[Change]) -> list[int]:
    return [one.number for one in changes]


def coalescer(**options: int) -> Lot:
    return Lot(Options(**{"lanes": 0, "coalesce_rows": 3, "linger_us": 100, "window_rows": 8, **options}))


def waits(count: int) -> list[Came]:
    """One change of each of so many tables."""
    return [change(table, table) for table in range(count)]


def test_a_table_waits_until_it_has_enough_and_leaves_whole() -> None:
    lot = coalescer(lanes=1)
    first = [change(0, 1), change(1, 2), change(2, 3), change(0, 4), change(0, 5)]
    assert lot.take(first, window=0, now=7) == [1, 4, 5]
    assert (lot.rows, lot.window, lot.has_waited_since(6), lot.has_waited_since(7)) == (2, 0, False, True)
    assert lot.take([change(1, 6), change(2, 7)], window=1, now=8) == []
    third = [change(1, 8), change(2, 9), change(3, 10), change(4, 11)]
    assert lot.take(third, window=2, now=9) == [2, 6, 8, 3, 7, 9]
    assert (lot.rows, lot.window, lot.has_waited_since(8), lot.has_waited_since(9)) == (2, 2, False, True)
    assert numbers(lot.release(4, latest=9)) == [10, 11]
    assert (lot.rows, lot.window) == (0, None)
    assert lot.release(4, latest=9) == []


def test_what_has_waited_longest_leaves_first_and_tables_whole() -> None:
    lot = coalescer(coalesce_rows=9)
    lot.take([change(3, 1), change(1, 2), change(2, 3)], window=0, now=0)
    lot.take([change(2, 4), change(0, 5), change(1, 6), change(3, 7), change(3, 8)], window=1, now=1)
    assert numbers(lot.release(4, latest=1)) == [1, 7, 8, 2, 6]
    assert (lot.rows, lot.window) == (3, 0)
    assert numbers(lot.release(4, latest=0)) == [3, 4]
    assert numbers(lot.release(4, latest=0)) == []
    assert (lot.rows, lot.window) == (1, 1)


def test_a_table_that_has_waited_long_enough_leaves_with_the_next_window() -> None:
    lot = coalescer()
    lot.take([change(0, 1)], window=0, now=0)
    assert lot.take([change(1, 2)], window=1, now=99) == []
    assert lot.take([change(2, 3)], window=2, now=100) == [1]
    assert lot.window == 1


def test_about_as_many_leave_as_come() -> None:
    lot = coalescer(window_rows=4)
    twice = [change(table, table + 10 * n) for table in range(6) for n in (0, 1)]
    lot.take(twice, window=0, now=0)
    assert lot.take(waits(6), window=1, now=1) == [0, 10, 0, 1, 11, 1]
    assert lot.take([change(0, 7)], window=2, now=2) == [2, 12, 2, 3, 13, 3]
    assert lot.take([change(1, 8)], window=3, now=300) == [4, 14, 4, 5, 15, 5]
    assert lot.take([], window=4, now=300) == [7]


def test_it_is_crowded_by_rows() -> None:
    lot = coalescer(max_in_flight_rows=1, coalesce_rows=99)  # twelve may
    lot.take([*waits(6), *waits(6)], window=0, now=0)
    assert not lot.crowded
    lot.take([change(7, 1)], window=1, now=1)
    assert lot.crowded
    lot.release(1, latest=0)
    assert not lot.crowded


def test_it_is_crowded_by_large_rows_though_smaller_ones_followed() -> None:
    lot = coalescer(max_in_flight_bytes=20_000, coalesce_rows=99)
    lot.take([large(0, 5_000), change(1, 1)], window=0, now=0)
    assert 5_000 < lot.size < 6_000
    lot.take([large(2, 5_000), *waits(9)], window=1, now=1)
    assert lot.crowded
    assert numbers(lot.release(1, latest=0)) == [0, 0]
    assert 5_000 < lot.size < 10_000
    assert not lot.crowded
    lot.release(99, latest=1)
    assert (lot.rows, lot.size) == (0, 0)


def test_some_rows_of_a_table_tell_the_size_of_all() -> None:
    lot = coalescer(coalesce_rows=99)
    lot.take([large(0, 1_000 * (1 + n % 2)) for n in range(9)], window=0, now=0)
    assert 12_000 < lot.size < 18_000


def test_a_window_of_few_tables_is_not_concerned_unless_some_wait_already() -> None:
    lot = coalescer(lanes=2)
    assert not lot.applies_to(BINDINGS[:2] * 2)
    assert lot.applies_to(BINDINGS[:3])
    lot.take([change(1, 2)], window=0, now=0)
    assert lot.applies_to(BINDINGS[:1])
    lot.release(1, latest=0)
    assert not lot.applies_to(BINDINGS[:1])


def test_tables_that_share_locks_with_others_do_not_wait() -> None:
    child = replace(TABLES[1], foreign_keys=(ForeignKey("tie", NAMES[1], ("note",), NAMES[0], ("id",)),))
    tied = Binding(1, shape(child), child)
    assert coalescer().take([change(1, 1, tied), change(2, 2)], window=0, now=0) == [1]


def test_a_table_under_two_shapes_waits_and_goes_as_one() -> None:
    lot = coalescer()
    other = Binding(9, shape(TABLES[0]), TABLES[0])
    assert lot.take([change(0, 1)], window=0, now=0) == []
    assert lot.take([change(0, 2, other), change(0, 3), change(1, 4)], window=1, now=1) == [1, 2, 3]


class Feed:
    """A machine with ten tables; every window of four changes is a full one."""

    def __init__(self, **options: int) -> None:
        self.now = 0
        sizes = {"lanes": 2, "window_rows": 4, "max_in_flight_rows": 8, "coalesce_rows": 3, "checkpoint_us": 0}
        self.machine = ApplyMachine(Options(**(sizes | options)))
        self.machine.step(0, [TakenOver(1, position(0), tables=linked(*TABLES))])
        self.last = 0
        self.sent: list[ApplyBatch] = []
        self.saved: list[Position] = []
        self.statements: list[Ddl] = []

    def step(self, *events: ApplyEvent) -> None:
        self.now += 1
        for effect in self.machine.step(self.now, events):
            match effect:
                case ApplyBatch():
                    self.sent.append(effect)
                case SaveCheckpoint():
                    self.saved.append(effect.position)
                    self.step(CheckpointSaved(effect.id))
                case ApplyDdl():
                    self.statements.append(effect.ddl)
                case _:
                    pass

    def log(self, *tables: int, ddl: Ddl | None = None) -> LogBatch:
        first = self.last
        self.last += max(1, len(tables))
        rows = tuple(RowChange(table, None, (first + n, None, "x"), 0) for n, table in enumerate(tables, 1))
        made = tuple(Transaction("0-1", first + n, n - 1) for n in range(1, len(tables) + 1))
        shapes = {number: shape(table) for number, table in enumerate(TABLES)} if not first else {}
        return LogBatch(position(first), position(self.last), made, rows, shapes, ddl=ddl, resent=not first)

    def commit(self) -> None:
        """All that is under way, and what follows from it."""
        while self.sent:
            self.step(*[BatchCommitted(self.sent.pop(0).id) for _ in list(self.sent)])
            self.step(Tick())

    def later(self, us: int = 50_000) -> None:
        """Long enough, if it is not said otherwise, for the log to be no longer behind."""
        self.now += us
        self.step(Tick())

    @property
    def waiting(self) -> int:
        return self.machine.batches.coalescer.rows


def test_the_watermark_waits_with_them() -> None:
    feed = Feed()
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    assert (feed.waiting, feed.machine.batches.rows) == (3, 3)
    assert feed.machine.snapshot()["inbox"] == 3
    batches, feed.sent = feed.sent, []
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    feed.step(*[BatchCommitted(batch.id) for batch in batches])
    feed.commit()
    assert (feed.waiting, feed.machine.batches.rows) == (6, 0)
    assert feed.machine.watermark.position == position(0)
    feed.later()
    feed.commit()
    assert feed.waiting == 0
    assert feed.machine.watermark.position == position(12)


def test_the_watermark_goes_on_while_later_ones_wait() -> None:
    feed = Feed(coalesce_rows=4)
    logs = [feed.log(1, 2, 3, 3), feed.log(1, 2, 3, 3), feed.log(1, 2, 4, 5), feed.log(1, 2, 4, 5)]
    feed.step(*[LogArrived([log]) for log in logs[:2]])
    feed.commit()
    assert (feed.waiting, feed.machine.watermark.position) == (4, position(0))
    feed.step(*[LogArrived([log]) for log in logs[2:]])
    feed.commit()
    assert (feed.waiting, feed.machine.watermark.position) == (4, position(8))


def test_they_go_when_the_log_falls_silent_and_nothing_is_under_way() -> None:
    feed = Feed()
    feed.step(GoalSet(position(4)))
    feed.step(LogArrived([feed.log(0, 1, 2, 3)]))
    assert (feed.waiting, feed.sent) == (4, [])
    feed.later(49_000)
    assert (feed.waiting, feed.sent) == (4, [])
    feed.later(1_000)
    assert feed.waiting == 0
    assert sum(batch.rows for batch in feed.sent) == 4
    feed.commit()
    assert feed.saved[-1] == position(4)


def test_they_go_after_a_while_though_a_lane_is_stuck() -> None:
    feed = Feed(linger_us=100)
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    feed.step(Tick())
    assert feed.waiting == 3
    feed.now += 100
    feed.step(Tick())
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows) == (0, 6)


def test_they_go_when_the_log_is_not_behind_any_more() -> None:
    feed = Feed()
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    assert feed.waiting == 3
    feed.step(LogArrived([feed.log(4)]))
    assert (feed.waiting, feed.machine.batches.rows) == (4, 3)
    feed.later()
    feed.step(LogArrived([feed.log(5)]))
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows) == (0, 7)
    feed.commit()
    assert feed.machine.watermark.position == position(8)


def test_they_wait_on_while_there_is_no_room_for_more_of_the_log() -> None:
    feed = Feed(coalesce_rows=5)
    feed.step(LogArrived([feed.log(1, 2, 3, 4)]), LogArrived([feed.log(0, 0, 0, 0, 0, 0, 0)]))
    feed.step(LogArrived([feed.log(5)]))
    feed.later()
    assert (feed.waiting, feed.machine.batches.rows, feed.machine.backpressured) == (4, 7, True)
    feed.commit()
    assert (feed.waiting, feed.machine.batches.rows) == (5, 0)
    feed.later()
    assert feed.waiting == 0


def test_a_statement_comes_after_them() -> None:
    feed = Feed()
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    ddl = Ddl("shop", "TRUNCATE item_1", "0-1", 7, DdlKind.TRUNCATE, (NAMES[1],))
    feed.step(LogArrived([feed.log(ddl=ddl)]))
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows, feed.statements) == (0, 6, [])
    feed.commit()
    assert feed.statements == [ddl]


def test_they_leave_in_pieces_that_there_is_room_for() -> None:
    feed = Feed(coalesce_rows=100, linger_us=1000)
    feed.step(LogArrived([feed.log(0)]))  # under way, so that the others wait
    for _ in range(3):
        feed.step(LogArrived([feed.log(*range(10))]))
    assert (feed.waiting, feed.machine.batches.rows) == (30, 1)
    feed.later(1000)
    feed.step(Tick())
    while feed.waiting:
        before = feed.waiting
        assert feed.machine.batches.rows <= 10
        feed.step(*[BatchCommitted(feed.sent.pop(0).id) for _ in list(feed.sent)])
        feed.step(Tick())
        assert feed.waiting >= before - 12
        assert feed.machine.watermark.position == position(1)
    feed.commit()
    assert feed.machine.watermark.position == position(31)


def test_no_more_wait_than_may_and_they_leave_in_pieces() -> None:
    feed = Feed(max_in_flight_rows=4, coalesce_rows=99, linger_us=1_000_000)  # 48 may
    for _ in range(4):
        feed.step(LogArrived([feed.log(*range(10))]))
    assert (feed.waiting, feed.machine.batches.rows) == (40, 0)
    feed.step(LogArrived([feed.log(*range(10))]))
    assert (feed.waiting, feed.machine.batches.rows) == (45, 5)  # one table, which is as much as a window
    feed.step(LogArrived([feed.log(*range(10))]))
    assert (feed.waiting, feed.machine.batches.rows) == (45, 5)  # there is no room for more of the log
    feed.step(*[BatchCommitted(batch.id) for batch in feed.sent])
    assert (feed.waiting, feed.machine.batches.rows) == (49, 6)


def test_what_has_waited_long_enough_leaves_with_the_window_that_comes() -> None:
    feed = Feed(coalesce_rows=99, linger_us=100)
    feed.step(LogArrived([feed.log(1, 2, 3)]))
    feed.now += 100
    windows = feed.machine.watermark.upcoming()
    feed.step(LogArrived([feed.log(4, 5, 6, 7)]))
    assert (feed.waiting, feed.machine.batches.rows) == (4, 3)
    assert feed.machine.watermark.upcoming() == windows + 1


def test_nothing_waits_where_whole_transactions_are_applied() -> None:
    feed = Feed(atomic=True)
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    assert feed.waiting == 0
