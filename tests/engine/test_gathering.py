"""Changes of tables that have few of them wait for more while the log is behind, and nothing overtakes them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from engine.apply import ApplyMachine, Options
from engine.effects import ApplyBatch, ApplyDdl, SaveCheckpoint
from engine.events import ApplyEvent, BatchCommitted, CheckpointSaved, GoalSet, LogArrived, TakenOver, Tick
from engine.gathering import Gathering
from engine.records import Ddl, DdlKind, LogBatch, Position, RowChange, TableName, Transaction
from engine.schema import Binding, ForeignKey
from engine.segments import Change
from simulations.catalogue import ACCOUNT, linked, shape
from simulations.scenario import position

NAMES = [TableName("shop", f"item_{number}") for number in range(10)]
TABLES = [replace(ACCOUNT, name=name) for name in NAMES]


def change(table: int, number: int, binding: Binding | None = None) -> Change:
    row = RowChange(table, None, (number, None, "x"), 0)
    return Change.of(binding or BINDINGS[table], row, Transaction("0-1", number, 0))


BINDINGS = [Binding(number, shape(table), table) for number, table in enumerate(TABLES)]


def numbers(changes: Sequence[Change]) -> list[int]:
    return [one.number for one in changes]


def test_tables_with_few_changes_wait_until_they_have_enough() -> None:
    gathering = Gathering(worth=3, tables=1)
    first = [change(0, 1), change(1, 2), change(2, 3), change(0, 4), change(0, 5)]
    assert numbers(gathering.sift(first, now=7)) == [1, 4, 5]
    assert (gathering.rows, gathering.since) == (2, 7)
    assert numbers(gathering.sift([change(1, 6), change(2, 7)], now=8)) == []
    third = [change(1, 8), change(2, 9), change(3, 10), change(4, 11)]
    assert numbers(gathering.sift(third, now=9)) == [2, 6, 3, 7, 8, 9]
    assert (gathering.rows, gathering.since) == (2, 9)
    assert numbers(gathering.release(4)) == [10, 11]
    assert gathering.rows == 0
    assert gathering.release(4) == []


def test_what_has_waited_longest_leaves_first_and_tables_whole() -> None:
    gathering = Gathering(worth=9, tables=0)
    gathering.sift([change(3, 1), change(1, 2), change(2, 3), change(0, 4)], now=0)
    gathering.sift([change(2, 5), change(1, 6), change(3, 7), change(3, 8)], now=1)
    assert numbers(gathering.release(4)) == [1, 7, 8, 2, 6]
    assert (gathering.rows, gathering.leaving) == (3, True)
    assert numbers(gathering.release(4)) == [3, 5, 4]
    assert (gathering.rows, gathering.leaving) == (0, False)


def test_what_waits_does_not_keep_the_message_that_it_came_in() -> None:
    class View(tuple[int, None, str]):
        def __copy__(self) -> tuple[int | str | None, ...]:
            return tuple(self)

    gathering = Gathering(worth=2, tables=0)
    rows = [View([number, None, "x"]) for number in range(3)]
    changes = [Change(BINDINGS[table], rows[n], rows[n], "0-1", n, 0) for n, table in enumerate((0, 1, 1))]
    assert [type(one.after) for one in gathering.sift(changes, now=0)] == [View, View]
    (kept,) = gathering.release(9)
    assert (kept.before, kept.after) == (rows[0], rows[0])
    assert (type(kept.before), type(kept.after)) == (tuple, tuple)


def test_as_few_tables_as_may_be_do_not_wait_and_overtake_nothing() -> None:
    gathering = Gathering(worth=3, tables=1)
    assert numbers(gathering.sift([change(1, 1), change(2, 2)], now=0)) == []
    assert numbers(gathering.sift([change(1, 3)], now=1)) == [1, 3]
    assert gathering.rows == 1


def test_tables_that_share_locks_with_others_do_not_wait() -> None:
    gathering = Gathering(worth=3, tables=0)
    child = replace(TABLES[1], foreign_keys=(ForeignKey("tie", NAMES[1], ("note",), NAMES[0], ("id",)),))
    tied = [Binding(1, shape(child), child)]
    assert numbers(gathering.sift([change(1, 1, tied[0]), change(2, 2)], now=0)) == [1]


def test_a_table_under_two_shapes_waits_or_goes_as_one() -> None:
    gathering = Gathering(worth=3, tables=0)
    other = Binding(9, shape(TABLES[0]), TABLES[0])
    assert numbers(gathering.sift([change(0, 1)], now=0)) == []
    assert numbers(gathering.sift([change(0, 2, other), change(0, 3), change(1, 4)], now=0)) == [1, 2, 3]


class Feed:
    """A machine with ten tables; every window of four changes is a full one."""

    def __init__(self, **options: int) -> None:
        self.now = 0
        sizes = {"lanes": 2, "window_rows": 4, "room_rows": 8, "gather_rows": 3, "checkpoint_us": 0, **options}
        self.machine = ApplyMachine(Options(**sizes))
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

    @property
    def waiting(self) -> int:
        return self.machine.batches.gathering.rows


def test_the_watermark_waits_with_them() -> None:
    feed = Feed()
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    assert (feed.waiting, feed.machine.batches.rows) == (3, 3)
    assert feed.machine.snapshot()["inbox"] == 3
    batches, feed.sent = feed.sent, []
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    feed.step(*[BatchCommitted(batch.id) for batch in batches])
    assert feed.machine.watermark.position == position(0)
    feed.commit()
    assert feed.waiting == 0
    assert feed.machine.watermark.position == position(12)


def test_they_go_when_the_log_falls_silent_and_nothing_is_under_way() -> None:
    feed = Feed()
    feed.step(GoalSet(position(4)))
    feed.step(LogArrived([feed.log(0, 1, 2, 3)]))
    assert feed.waiting == 0
    assert sum(batch.rows for batch in feed.sent) == 4
    feed.commit()
    assert feed.saved[-1] == position(4)


def test_they_go_after_a_while_though_a_lane_is_stuck() -> None:
    feed = Feed(gather_us=100)
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
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows) == (0, 6)
    feed.commit()
    assert feed.machine.watermark.position == position(7)


def test_a_statement_comes_after_them() -> None:
    feed = Feed()
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    ddl = Ddl("shop", "TRUNCATE item_1", "0-1", 7, DdlKind.TRUNCATE, (NAMES[1],))
    feed.step(LogArrived([feed.log(ddl=ddl)]))
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows, feed.statements) == (0, 6, [])
    feed.commit()
    assert feed.statements == [ddl]


def test_no_more_wait_than_there_is_room_for() -> None:
    feed = Feed(gather_rows=100)
    feed.step(LogArrived([feed.log(0)]))  # under way all the time
    waiting = []
    for _ in range(10):
        feed.step(LogArrived([feed.log(*range(10))]))
        waiting.append(feed.waiting)
    assert waiting == [*range(10, 91, 10), 90]  # the last came to 100, and the table that waited longest left


def test_they_leave_in_pieces_that_there_is_room_for() -> None:
    feed = Feed(gather_rows=100, gather_us=1000)
    feed.step(LogArrived([feed.log(0)]))  # under way, so that the others wait
    for _ in range(2):
        feed.step(LogArrived([feed.log(*range(10))]))
    assert (feed.waiting, feed.machine.batches.rows) == (20, 1)
    feed.now += 1000
    feed.step(LogArrived([feed.log(*range(10))]))
    feed.step(Tick())
    assert (feed.waiting, feed.machine.batches.rows) == (16, 5)
    while feed.waiting:
        before = feed.waiting
        feed.step(*[BatchCommitted(feed.sent.pop(0).id) for _ in list(feed.sent)])
        feed.step(Tick())
        assert feed.waiting >= before - 8
        assert feed.machine.watermark.position == position(1)
    feed.commit()
    assert feed.machine.watermark.position == position(31)


def test_nothing_waits_where_whole_transactions_are_applied() -> None:
    feed = Feed(atomic=True)
    feed.step(LogArrived([feed.log(0, 0, 0, 1, 2, 3)]))
    assert feed.waiting == 0
