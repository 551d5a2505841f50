"""The workloads of the benchmarks: each is what it says, and the source takes it."""

import itertools

import pytest

from bench.harness.compare import Pair, compare
from bench.harness.servers import MariaDb, MySql
from bench.harness.session import Flavor
from bench.harness.workload.named import HEAVY, NAMED
from bench.harness.workload.sizes import HUGE_CHANGES_AT_MOST, Huge
from bench.harness.workload.workload import Kind

CHANGES = 2_600
# The others' rows are compared, end to end, in tests/adapters/test_run_exact.py, tests/bench/test_e2e.py or below.
ALONE = ("huge", "oltp", "toast")


@pytest.mark.parametrize(
    "name", [name if name in ALONE else pytest.param(name, marks=pytest.mark.proof) for name in NAMED]
)
def test_two_servers_end_with_the_same_rows(name: str, mariadb: MariaDb, mysql: MySql) -> None:
    databases, changes = [], CHANGES // HEAVY.get(name, 1)
    for server in (mariadb, mysql):
        workload, database = NAMED[name](), server.database(name)
        for statement in workload.ddl(Flavor(server.scheme)):
            server.execute(statement, database=database)
        assert workload.run(server.url(database), changes, seed=3).changes == changes
        databases.append(database)
    one, two = databases
    differences = compare(mariadb, mysql, [Pair(f"{one}.{table}", f"{two}.{table}") for table in workload.tables])
    assert differences.total == 0, differences
    assert differences.matched >= 10


def sizes(name: str) -> list[int]:
    return [len(transaction.kinds) for transaction in NAMED[name]().transactions(CHANGES, 1)]


def test_sizes_of_transactions() -> None:
    assert set(sizes("small")) == {1}
    assert sizes("huge") == [CHANGES]
    assert sizes("oltp") == [50] * 40 + [4] * 150
    with pytest.raises(ValueError, match="at most"):
        next(Huge().transactions(HUGE_CHANGES_AT_MOST + 1, 1))


def test_ten_rows_take_all_updates_of_hot() -> None:
    changes = list(itertools.islice(NAMED["hot"]().changes(), 1000))
    assert [kind for kind, _ in changes].count(Kind.INSERT) == 10
    assert len({sql.rpartition("id=")[2] for kind, sql in changes if kind is Kind.UPDATE}) == 10


def test_wide_rows_have_a_hundred_columns_and_about_four_kilobytes() -> None:
    workload = NAMED["wide"]()
    _, sql = next(workload.changes())
    assert len(workload.specs[0].columns) == 100
    assert 3_500 < len(sql) < 4_800


def test_plain_is_mix_without_its_unique_key() -> None:
    plain, mix = NAMED["plain"](), NAMED["mix"]()
    one, other = ([t.statements for t in workload.transactions(CHANGES, 1)] for workload in (plain, mix))
    assert one == other
    assert (plain.specs[0].uniques, mix.specs[0].uniques) == ((), (("email",),))
