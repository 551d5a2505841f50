"""A batch whose tables are known: its rows become changes, or wait on piles as such."""

from tests.engine.world import bind, table
from tidelock.engine.log.bound_batch import BoundBatch, ChangePile
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Transaction
from tidelock.engine.parallel.segments import Change

ITEM, NOTE = bind(table("item", ["id"], ["id"]), number=3), bind(table("note", ["id"], ["id"]), number=4)


def bound(*numbers: int, starts: tuple[int, ...] = (0,)) -> BoundBatch:
    rows = tuple(RowChange(number, None, (i,), i) for i, number in enumerate(numbers))
    transactions = tuple(Transaction("0-1", n, first) for n, first in enumerate(starts, 7)) if rows else ()
    batch = LogBatch(Position("log.1", 0), Position("log.1", 1), transactions, rows)
    return BoundBatch(batch, lambda numbers: {3: ITEM, 4: NOTE})


def told(changes: list[Change]) -> list[tuple[str, int, int]]:
    return [(change.binding.name.table, change.number, change.ordinal) for change in changes]


def test_rows_become_changes_of_their_tables_and_transactions() -> None:
    assert told(bound(3, 4, 4, 3, starts=(0, 2)).changes()) == [
        ("item", 7, 0), ("note", 7, 1), ("note", 8, 2), ("item", 8, 3),
    ]  # fmt: skip
    assert told(bound().changes()) == []


def test_rows_go_onto_the_pile_of_their_table_and_the_rest_is_returned() -> None:
    batch = bound(3, 4, 4, 3, starts=(0, 2))
    pile = batch.pile()
    assert batch.accepts(pile) and not batch.packed
    assert told(batch.pour({NOTE: pile})) == [("item", 7, 0), ("item", 8, 3)]
    assert told(batch.pour({NOTE: pile})) == [("item", 7, 0), ("item", 8, 3)]
    assert pile.rows == 4
    assert told(pile.changes(Change)) == [("note", 7, 1), ("note", 8, 2)] * 2
    assert bound().pour({}) == []


def test_some_rows_tell_the_size_of_all_that_came_with_them() -> None:
    pile = ChangePile()
    small, large = (Change(ITEM, None, (b"x" * size,), "0-1", 1, 0) for size in (1, 1_000))
    for _ in range(8):
        pile.add(small)
    first = pile.size
    assert first == 8 * small.size
    for _ in range(9):
        pile.add(large)
    assert pile.size == first + 9 * large.size == pile.size
