"""Exactness end to end: every workload, between every pair of servers, on one lane and many, in both modes.

The target's log is asked for unique violations: an order that only happens to work in the end would leave some there.
"""

import sys
from collections.abc import Callable, Iterator

import pytest

from bench import proof
from bench.harness.rig import RUN_SECONDS, Rig
from bench.harness.servers import MariaDb, Server
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn
from bench.harness.workload.family import Family
from bench.harness.workload.keyless import Keyless
from bench.harness.workload.mix import Mix
from bench.harness.workload.shop import Shop
from bench.harness.workload.workload import Workload

CHANGES = 1500
WITHOUT_LOCKS = """
import msgspec
from tidelock.adapters.app import embedded_run
options_of = embedded_run.options_of
embedded_run.options_of = lambda *feed: msgspec.structs.replace(options_of(*feed), locking=False)
from tidelock.adapters.cli import main
main()
"""

TO_POSTGRES = ("mariadb", "postgres")
# Each workload in both modes (`Mix` by rows alone), each pair of servers, one lane and many.
COVERING = [
    (Mix, *TO_POSTGRES, 8, "row"),
    (Churn, *TO_POSTGRES, 1, "row"),
    (Family, *TO_POSTGRES, 8, "transaction"),
    (Keyless, *TO_POSTGRES, 8, "row"),
    (Churn, "mysql", "postgres", 8, "row"),
    (Churn, "mariadb", "mysql", 8, "transaction"),
]
# With them every workload that has keys to fight for between every pair, and each with one lane and many.
MORE = [
    (Shop, "mysql", "postgres", 4, "transaction"),
    (Family, "mysql", "other_mysql", 8, "row"),
    (Shop, "mariadb", "other_mariadb", 8, "row"),
    (Keyless, "mariadb", "mysql", 1, "transaction"),
    (Shop, *TO_POSTGRES, 4, "row"),
    (Churn, *TO_POSTGRES, 8, "row"),
    (Mix, "mysql", "postgres", 1, "transaction"),
    (Family, "mysql", "postgres", 8, "row"),
    (Churn, "mariadb", "mysql", 8, "row"),
    (Family, "mariadb", "mysql", 4, "row"),
    (Shop, "mariadb", "mysql", 8, "row"),
    (Churn, "mariadb", "other_mariadb", 4, "transaction"),
    (Churn, "mariadb", "other_mariadb", 8, "row"),
    (Family, "mariadb", "other_mariadb", 8, "transaction"),
    (Churn, "mysql", "other_mysql", 8, "row"),
    (Shop, "mysql", "other_mysql", 4, "transaction"),
]


@pytest.fixture(scope="session")
def other_mariadb() -> Iterator[Server]:
    with MariaDb() as server:
        yield server


def name(case: tuple[type[Workload], str, str, int, str]) -> str:
    kind, source, target, lanes, consistency = case
    return f"{kind.name}-{source}-{target}-{lanes}-{consistency}"


@pytest.mark.parametrize("case", [*COVERING, *(pytest.param(one, marks=pytest.mark.proof) for one in MORE)], ids=name)
def test_no_row_differs(
    case: tuple[type[Workload], str, str, int, str],
    make_rig: Callable[..., Rig],
    request: pytest.FixtureRequest,
) -> None:
    kind, source, target, lanes, consistency = case
    rig = make_rig(
        request.getfixturevalue(source),
        request.getfixturevalue(target),
        kind.name,
        lanes=lanes,
        consistency=consistency,
    )
    workload = rig.make(kind())
    rig.load(workload, CHANGES)
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_without_locks_churn_fails(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> None:
    """What the others prove is worth as much as this: the work does collide where nothing orders it."""
    rig = make_rig(mariadb, postgres, "unlocked", lanes=8, batch_rows=100)
    rig.load(rig.make(Churn()), 2 * CHANGES)
    command = [sys.executable, "-c", WITHOUT_LOCKS]
    code = Process(["run", str(rig.feed), "--until-caught-up"], rig.output, command).code(RUN_SECONDS)
    assert code in (0, 4), rig.said()
    assert rig.unique_violations() + rig.parked() + rig.differences().total > 0


@pytest.mark.proof
def test_every_combination_at_full_size() -> None:
    """The table of bench/results/proof.md."""
    changes = 200_000
    cases = list(proof.prove(changes))
    proof.write(cases, changes)
    assert len(cases) == 36
    assert [str(case) for case in cases if not case.exact] == []


def test_two_sources_of_one_table_of_which_one_lacks_a_unique_column(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server
) -> None:
    """They hand over a value: a row of the one has it written, a row of the other has it as the target's default."""
    rig = make_rig(mariadb, postgres, "two", lanes=8, batch_rows=10)
    rig.at_source("CREATE TABLE whole (id int PRIMARY KEY, tier varchar(9))")
    rig.at_source("CREATE TABLE narrow (id int PRIMARY KEY)")
    rig.at_target(f"CREATE TABLE {rig.schema}.pool (id int PRIMARY KEY, tier varchar(9) DEFAULT 'free')")
    rig.rules = [{"source": f"{rig.schema}.{name}", "target": f"{rig.schema}.pool"} for name in ("whole", "narrow")]
    rig.catch_up()  # `check` would refuse the index in a first run, as the source has none
    rig.at_target("CREATE UNIQUE INDEX tier ON pool (tier)")
    for number in range(0, 400, 2):
        rig.at_source(f"INSERT INTO whole VALUES ({number}, 'free'), ({number + 1000}, 't{number}')")
        rig.at_source(f"DELETE FROM whole WHERE id = {number}", f"INSERT INTO narrow VALUES ({number + 1})")
        rig.at_source(f"DELETE FROM narrow WHERE id = {number + 1}")
    rig.at_source("INSERT INTO narrow VALUES (1)")
    assert rig.catch_up_code() == 0, rig.said()
    assert rig.unique_violations() + rig.parked() == 0
    assert rig.rows("SELECT count(*)::text, count(DISTINCT tier)::text FROM pool") == [("201", "201")]
    assert rig.rows("SELECT id::text FROM pool WHERE tier = 'free'") == [("1",)]
