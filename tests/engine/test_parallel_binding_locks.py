"""Locks of the rows of one target table under several shapes: who takes it whole, and who has to share it then."""

from tests.engine.world import bind, change, table
from tidelock.engine.model.records import Column, Kind, Shape
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.binding_locks import BindingLocks
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_request import X
from tidelock.engine.parallel.lock_table import LockTable

SEAT = table("seat", ["id", "u", "note"], ["id"], [["u"]])
WHOLE = bind(SEAT)
NARROW = bind(SEAT, own=["u"], number=1)
"""Rows of a source without the unique column `u`: nobody knows what they do to it, so they take the table whole."""
ROWS = [(n, f"u{n}", 0) for n in range(8)]


class Planner:
    """Two lanes, and the locks of bindings for them."""

    def __init__(self) -> None:
        self.lanes = [Lane(0), Lane(1)]
        self.dispatcher = Dispatcher(self.lanes, LockTable(), batch_rows=1)
        self.locks = BindingLocks(self.dispatcher)
        self.locks.retable({SEAT.name: SEAT})

    def plan(self, binding: Binding, *rows: tuple) -> None:
        self.dispatcher.plan(0, [change(binding, None, row) for row in rows])

    @property
    def waiting(self) -> int:
        """Segments that may not run yet."""
        return sum(not segment.runnable for lane in self.lanes for segment in lane.queue)


def test_rows_of_a_full_shape_wait_for_nobody_else() -> None:
    planner = Planner()
    planner.locks.bind(WHOLE)
    planner.plan(WHOLE, *ROWS)
    assert planner.waiting == 0 and all(lane.queue for lane in planner.lanes)


def test_rows_that_lack_a_unique_column_wait_for_rows_in_flight_that_never_asked_for_the_table() -> None:
    planner = Planner()
    planner.locks.bind(WHOLE)
    planner.plan(WHOLE, *ROWS)
    planner.locks.bind(NARROW)
    planner.plan(NARROW, (9, 0))
    assert planner.waiting == 1


def test_from_then_on_rows_of_a_full_shape_wait_for_those() -> None:
    planner = Planner()
    planner.locks.bind(WHOLE)
    planner.locks.bind(NARROW)
    planner.plan(NARROW, (9, 0))
    planner.plan(WHOLE, *ROWS)
    busy = [lane for lane in planner.lanes if lane.queue]
    assert len(busy) == 1, "they go behind it, to its lane"


def test_whoever_wants_the_table_for_himself_asks_for_it_in_mode_x() -> None:
    locks = Planner().locks
    assert locks.table_lock(SEAT.name)[1] == X
    assert locks.table_lock(SEAT.name) == locks.table_lock(SEAT.name)


def spelled(kind: Kind, scale: int = 0, number: int = 2) -> Binding:
    """Rows of another source, whose key is of this type."""
    columns = (Column("id", kind, scale=scale), Column("u", Kind.TEXT), Column("note", Kind.INT))
    return Binding(number, Shape(SEAT.name, columns, ("id",)), SEAT)


def waiting(first: Binding, then: Binding) -> int:
    planner = Planner()
    planner.locks.bind(first)
    planner.plan(first, *ROWS)
    planner.locks.bind(then)
    planner.plan(then, ("9", "u9", 0))
    return planner.waiting


def test_rows_whose_keys_are_spelled_otherwise_wait_for_those_in_flight() -> None:
    assert waiting(spelled(Kind.DATETIME), spelled(Kind.DATETIME, 6, 3)) == 1
    assert waiting(spelled(Kind.INT), spelled(Kind.DECIMAL, 0, 3)) == 1


def test_rows_whose_keys_are_spelled_alike_do_not() -> None:
    assert waiting(spelled(Kind.TEXT), spelled(Kind.ENUM, 0, 3)) == 0
    assert waiting(spelled(Kind.DATETIME, 6), spelled(Kind.DATETIME, 6, 3)) == 0


def test_rows_that_came_first_share_the_table_with_those() -> None:
    planner, first, then = Planner(), spelled(Kind.DECIMAL, 1), spelled(Kind.DECIMAL, 2, 3)
    planner.locks.bind(first)
    planner.locks.bind(then)
    planner.plan(then, ("9.00", "u9", 0))
    planner.plan(first, *ROWS)
    assert len([lane for lane in planner.lanes if lane.queue]) == 1, "they go behind it, to its lane"
