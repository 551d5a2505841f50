"""The table plan: what foreign keys join stays together, loads are balanced, and what is placed stays."""

from hypothesis import given
from hypothesis import strategies as st

from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.schema import ForeignKey, TargetColumn, TargetTable
from tidelock.engine.model.table_partitioning import joined_tables, partition_tables

START = Position("log.000001", 4)
LATER = Position("log.000001", 900)


def name(number: int) -> TableName:
    return TableName("shop", f"t{number}")


def tables(count: int, *links: tuple[int, int]) -> dict[TableName, TargetTable]:
    """`links`: (child, parent)."""
    keys = [ForeignKey(f"fk{c}_{p}", name(c), ("p",), name(p), ("id",)) for c, p in links]
    return {
        name(n): TargetTable(
            name(n),
            (TargetColumn("id", "bigint"),),
            ("id",),
            foreign_keys=tuple(k for k in keys if k.child == name(n)),
            references=tuple(k for k in keys if k.parent == name(n)),
        )
        for n in range(count)
    }


LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=8)
WEIGHTS = st.dictionaries(st.integers(0, 7).map(name), st.integers(1, 1000))


def test_what_foreign_keys_join_is_one_group_however_long_the_chain() -> None:
    groups = joined_tables(tables(6, (0, 3), (5, 3), (5, 4)))
    assert groups == [[name(0), name(3), name(4), name(5)], [name(1)], [name(2)]]


def test_a_foreign_key_to_a_table_of_others_joins_nothing() -> None:
    some = tables(3, (0, 2), (1, 2))
    del some[name(2)]
    assert joined_tables(some) == [[name(0)], [name(1)]]


def test_the_heaviest_groups_get_partitions_of_their_own() -> None:
    plan = partition_tables(tables(4), 2, START, weights={name(2): 100, name(1): 90})
    homes = dict(plan.tables)
    assert homes[name(1)] != homes[name(2)]
    assert {homes[name(0)], homes[name(3)]} == {homes[name(1)]}
    assert (plan.version, plan.since) == (1, (START, START))


def test_a_new_table_moves_no_other_and_goes_where_the_load_is_least() -> None:
    before = partition_tables(tables(3), 3, START)
    after = partition_tables(tables(4), 3, LATER, before, {name(0): 50, name(1): 2, name(2): 50})
    assert {n: p for n, p in after.tables if n != name(3)} == dict(before.tables)
    assert dict(after.tables)[name(3)] == dict(before.tables)[name(1)]
    assert (after.version, after.position, after.since) == (2, LATER, before.since)


def test_a_new_foreign_key_takes_the_lighter_table_to_the_heavier() -> None:
    before = partition_tables(tables(2), 2, START)
    after = partition_tables(tables(2, (0, 1)), 2, LATER, before, {name(0): 5, name(1): 50})
    assert dict(after.tables)[name(0)] == dict(before.tables)[name(1)] == dict(after.tables)[name(1)]


def test_a_new_partition_begins_where_the_plan_does() -> None:
    after = partition_tables(tables(2), 3, LATER, partition_tables(tables(2), 2, START))
    assert after.since == (START, START, LATER)


@given(LINKS, LINKS, WEIGHTS, st.integers(1, 4), st.integers(0, 3))
def test_every_table_has_one_home_and_joined_ones_the_same(
    links: list[tuple[int, int]],
    more: list[tuple[int, int]],
    weights: dict[TableName, int],
    partitions: int,
    extra: int,
) -> None:
    older = tables(6, *[(c, p) for c, p in links if c < 6 and p < 6])
    before = partition_tables(older, partitions, START, weights=weights)
    now = tables(8, *links, *more)
    after = partition_tables(now, partitions + extra, LATER, before, weights)
    homes = dict(after.tables)
    assert set(homes) == set(now)
    assert all(0 <= home < after.partitions for home in homes.values())
    for group in joined_tables(now):
        assert len({homes[table] for table in group}) == 1
