"""Windows with parents and children on lanes: who waits for whom."""



from tests.engine.planned_lanes import Planned, planned
from tests.engine.world import (
    BY_CODE,
    CASCADE,
    FAMILY,
    change,
)


def test_counter_example_10_a_child_never_overtakes_its_parent() -> None:
    mother, child = FAMILY.bindings()
    parent = change(mother, None, (1, "a", 0))
    children = [change(child, None, (n, 1, None)) for n in range(20)]
    made = planned(FAMILY, [parent, *children])
    for one in children:
        lane = made.where(one)
        segment = next(s for s in made.lanes[lane].queue if one in s.changes)
        assert lane == made.where(parent) or segment.holder.pending_predecessors == 1


def test_counter_example_10_a_hot_parent_waits_for_every_child() -> None:
    mother, child = FAMILY.bindings()
    children = [change(child, (n, 1, None), None) for n in range(40)]
    gone = change(mother, (1, "a", 0), None)
    made = planned(FAMILY, children, [gone])
    last = made.lanes[made.where(gone)].queue[-1]
    assert last.holder.pending_predecessors == len({made.where(one) for one in children}) - 1 == 3


def test_children_of_one_parent_run_side_by_side() -> None:
    _, child = FAMILY.bindings()
    made = planned(FAMILY, [change(child, None, (n, 1, None)) for n in range(40)])
    assert made.waits() == 0 and all(lane.queue for lane in made.lanes)


def test_counter_example_11_a_cascading_delete_waits_for_the_whole_child_table() -> None:
    mother, child, _ = CASCADE.bindings()
    other = [change(child, (n, 2, None), (n, 2, f"tag {n}")) for n in range(40)]
    gone = change(mother, (1, "a"), None)
    made = planned(CASCADE, other, [gone])
    assert made.lanes[made.where(gone)].queue[-1].holder.pending_predecessors == 3


def test_a_cascading_delete_waits_for_rows_that_refer_to_what_it_takes_away() -> None:
    """The log: the toy goes, then the mother; the child in between goes without a word."""
    mother, _, toy = CASCADE.bindings()
    for number in range(20):
        gone, last = change(toy, (number, 7), None), change(mother, (1, "a"), None)
        made = planned(CASCADE, [gone], [last])
        assert made.where(gone) == made.where(last)


def test_a_transaction_that_writes_a_parent_and_its_child_is_waited_for_by_the_next_child() -> None:
    """It holds the parent's key exclusively, though it reads it last."""
    mother, child = FAMILY.bindings()
    made = Planned(FAMILY, [mother, child], 2)
    made.plan_transactions([change(mother, None, (1, "a", 0)), change(child, None, (1, 1, None))])
    made.plan_transactions([change(child, None, (2, 1, None))])
    assert made.waits() == 1


def test_a_parent_with_a_referenced_unique_value() -> None:
    country, town = BY_CODE.bindings()
    for number in range(20):
        gone, last = change(town, (number, "a", 0), None), change(country, (1, "a", 0), None)
        made = planned(BY_CODE, [gone], [last])
        assert made.where(gone) == made.where(last)
