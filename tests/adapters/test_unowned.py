"""When a worker asks Kafka's group to share out anew: where a partition of the plan has had no owner for a while."""

from tidelock.adapters.workers.unowned import Unowned
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning

START = Position("log.000001", 4)
PLAN = TablePartitioning(1, START, (START,) * 3, ())


def test_a_partition_without_an_owner_is_asked_for_less_and_less_often() -> None:
    unowned = Unowned()
    asked = [n for n in range(1, 40) if unowned.tick(1.0, PLAN, {0: "w1"}, {1})]
    assert asked == [4, 12, 28]


def test_nothing_is_asked_where_all_have_told_or_are_ours_or_there_is_no_plan() -> None:
    unowned = Unowned()
    assert not any(unowned.tick(1.0, PLAN, {0: "w1", 2: "w2"}, {1}) for _ in range(60))
    assert not any(unowned.tick(1.0, None, (), ()) for _ in range(60))
