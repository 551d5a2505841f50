"""Choice of the tables that stay whole, and of their lanes.  (What becomes of them there: test_dispatch.)"""

from collections import Counter

from tests.engine.world import bind, table
from tidelock.engine.parallel.table_affinity import TableAffinity

TABLES = [bind(table(f"table_{n}", ["id"], ["id"]), number=n) for n in range(60)]


def test_a_table_with_many_of_the_changes_does_not_stay_whole() -> None:
    found = TableAffinity(2).lanes({TABLES[0]: 6, TABLES[1]: 5, TABLES[2]: 9})
    assert list(found) == [TABLES[1]]


def test_they_are_shared_out_evenly_by_their_changes() -> None:
    """Eight of them have nearly all changes: two a lane, wherever their names would hash to."""
    rows = {table: 50 if n % 8 == 3 else 1 for n, table in enumerate(TABLES)}
    loads: Counter[int] = Counter()
    for one, lane in TableAffinity(4).lanes(rows).items():
        loads[lane] += rows[one]
    assert len(loads) == 4 and sum(loads.values()) == sum(rows.values())
    assert max(loads.values()) - min(loads.values()) < 50


def test_each_stays_on_its_lane_until_all_are_forgotten() -> None:
    affinity = TableAffinity(4)
    first = affinity.lanes(dict.fromkeys(TABLES, 3))
    assert affinity.lanes({table: n % 5 + 1 for n, table in enumerate(reversed(TABLES))}) == first
    affinity.forget()
    assert affinity.lanes({table: n % 5 + 1 for n, table in enumerate(reversed(TABLES))}) != first


def test_those_that_come_later_are_shared_out_whatever_came_before() -> None:
    """A lane's work in earlier windows says nothing of what it will have: new tables do not all go to one."""
    affinity = TableAffinity(4)
    for _ in range(20):
        affinity.lanes({table: 10 if n else 15 for n, table in enumerate(TABLES[:12])})
    later = affinity.lanes(dict.fromkeys(TABLES[12:52], 5))
    assert sorted(Counter(later.values()).values()) == [10, 10, 10, 10]
