"""Rows of the log lined up with the target's tables: one binding a shape, whatever number a reader gives it."""

import pytest

from tests.engine.world import linked, shape_of, table
from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.log.relation_cache import RelationCache
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Shape, Transaction
from tidelock.engine.model.schema import Binding, SchemaMismatch

ITEM = table("item", ["id", "code"], ["id"])
NOTE = table("note", ["id", "text"], ["id"])
TABLES = linked(ITEM, NOTE)


def batch(shapes: dict[int, Shape], *numbers: int, starts: tuple[int, ...] = (0,)) -> LogBatch:
    rows = tuple(RowChange(n, None, (i, "a"), i) for i, n in enumerate(numbers))
    transactions = tuple(Transaction("0-1", n, first) for n, first in enumerate(starts, 1)) if rows else ()
    return LogBatch(Position("log.000001", 0), Position("log.000001", 1), transactions, rows, shapes)


class Log:
    def __init__(self) -> None:
        self.bound: list[Binding] = []
        self.relations = RelationCache(TABLES, self.bound.append)

    def changes(self, one: LogBatch) -> list[tuple[str, int, object]]:
        self.relations.learn(one.shapes)
        return [(c.binding.name.table, c.number, c.after) for c in BoundBatch(one, self.relations.bind).changes()]


def test_changes_have_their_table_and_their_transaction() -> None:
    log, shapes = Log(), {0: shape_of(ITEM), 1: shape_of(NOTE)}
    assert log.changes(batch(shapes, 0, 1, 0, starts=(0, 2))) == [
        ("item", 1, (0, "a")), ("note", 1, (1, "a")), ("item", 2, (2, "a")),
    ]  # fmt: skip
    assert log.changes(batch({}, 1, 0, starts=(0, 1))) == [("note", 1, (0, "a")), ("item", 2, (1, "a"))]
    assert log.changes(batch({})) == [] and len(log.bound) == 2


def test_another_reader_numbers_shapes_anew_and_the_binding_is_the_same() -> None:
    log = Log()
    log.changes(batch({0: shape_of(ITEM), 1: shape_of(NOTE)}, 0, 1))
    assert log.changes(batch({0: shape_of(NOTE)}, 0, 0)) == [("note", 1, (0, "a")), ("note", 1, (1, "a"))]
    assert [binding.name for binding in log.bound] == [ITEM.name, NOTE.name]


def test_with_other_tables_all_are_bound_anew() -> None:
    log = Log()
    log.changes(batch({0: shape_of(ITEM)}, 0))
    log.relations.retable(TABLES)
    log.changes(batch({0: shape_of(ITEM)}, 0))
    assert len(log.bound) == 2


def test_a_table_that_the_target_does_not_have() -> None:
    log = Log()
    log.relations.retable({})
    with pytest.raises(SchemaMismatch, match=r"the target has no table shop\.item"):
        log.changes(batch({0: shape_of(ITEM)}, 0))
