"""Databases that a source drops and makes while a feed runs: their tables go and come at the target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server

PAIRS = [("mariadb", "postgres"), ("mysql", "mariadb")]
CHILD = "id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES account (id)"


@pytest.fixture(params=PAIRS, ids=["-".join(pair) for pair in PAIRS])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig]) -> Rig:
    source, target = (request.getfixturevalue(name) for name in request.param)
    made = make_rig(source, target, "databases", lanes=2)
    made.rules = [{"source": f"{made.schema}.*"}]
    return made


def names(rig: Rig, schema: str) -> list[str]:
    """Returns the target's tables."""
    found = rig.rows(
        "SELECT CONCAT(table_name, '') FROM information_schema.tables WHERE table_schema = "
        f"'{schema}' AND table_name NOT LIKE 'tidelock%'"
    )
    return sorted(str(row[0]) for row in found)


def values(rig: Rig, asked: str) -> list[str]:
    """Returns the first value of each row."""
    return [str(row[0]) for row in rig.rows(asked)]


def test_a_dropped_database_takes_the_tables_that_came_from_it(rig: Rig) -> None:
    """Tables that the target has for itself stay, and the database that is made anew is followed."""
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.table("child", CHILD)
    rig.at_target("CREATE TABLE own (id int PRIMARY KEY)", "INSERT INTO own VALUES (1)")
    rig.catch_up()
    process = rig.run()
    rig.tables = ["account", "child"]
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2)", "INSERT INTO child VALUES (1, 1), (2, 2)")
    rig.at_source("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (1)")
    until(lambda: not process.running or "late" in names(rig, rig.schema), "the table made last", 60)
    rig.at_source(f"DROP DATABASE {rig.schema}", f"CREATE DATABASE {rig.schema}", f"USE {rig.schema}")
    rig.at_source("CREATE TABLE account (id int PRIMARY KEY, w varchar(9))", "INSERT INTO account VALUES (1, 'new')")
    rig.tables = ["account"]
    until(lambda: not process.running or names(rig, rig.schema) == ["account", "own"], "the tables behind it", 60)
    assert process.running, rig.said()[-2000:]
    until(lambda: not process.running or rig.equal(), "equal ends", 60)
    process.stop()
    rig.assert_exact()
    assert len(rig.rows(f"SELECT id FROM {rig.schema}.own")) == 1


def test_a_table_in_a_new_database_makes_the_schema_at_the_target(rig: Rig) -> None:
    new, other = f"{rig.schema}_n", f"{rig.schema}_m"
    rig.rules = [{"source": f"{rig.schema}*.*"}]
    rig.table("account", "id int PRIMARY KEY, v int")
    rig.catch_up()
    process = rig.run()
    try:
        rig.at_source(f"CREATE DATABASE {new}", f"CREATE TABLE {new}.fresh (id int PRIMARY KEY, v int)")
        rig.at_source(f"INSERT INTO {new}.fresh VALUES (1, 7)", f"CREATE DATABASE {other}")
        rig.at_source(f"RENAME TABLE account TO {other}.account", f"INSERT INTO {other}.account VALUES (3, 3)")
        until(lambda: not process.running or names(rig, other) == ["account"], "the table that moved", 60)
        assert process.running, rig.said()[-2000:]
        asked = f"SELECT v FROM {other}.account WHERE id = 3"
        until(lambda: not process.running or values(rig, asked) == ["3"], "its row", 60)
        assert values(rig, f"SELECT v FROM {new}.fresh") == ["7"]
        rig.at_source(f"DROP DATABASE {new}", f"INSERT INTO {other}.account VALUES (4, 4)")
        until(lambda: not process.running or names(rig, new) == [], "the database that went", 60)
        assert process.running, rig.said()[-2000:]
        process.stop()
    finally:
        for name in (new, other):
            rig.at_source(f"DROP DATABASE IF EXISTS {name}")
            rig.at_target(f"DROP SCHEMA IF EXISTS {name}" + (" CASCADE" if "postgres" in rig.target_url else ""))


@pytest.mark.parametrize("target", ["postgres", "mysql"])
def test_a_renamed_schema_takes_its_tables_to_a_new_one_at_the_target(
    target: str, make_rig: Callable[..., Rig], postgres_source: Server, request: pytest.FixtureRequest
) -> None:
    """As event triggers tell it, table by table."""
    rig = make_rig(postgres_source, request.getfixturevalue(target), "renamed", lanes=2)
    new = f"{rig.schema}_n"
    rig.rules = [{"source": f"{rig.schema}*.*"}]
    rig.at_source("CREATE TABLE one (id int PRIMARY KEY, v int)", "CREATE TABLE two (id int PRIMARY KEY, v int)")
    assert rig.command("ddl", "install", "@", "--apply").code == 0, rig.said()
    rig.begin_here()
    rig.tables = ["one", "two"]
    process = rig.run()
    try:
        rig.at_source("INSERT INTO one VALUES (1, 1)", "INSERT INTO two VALUES (1, 1)")
        until(lambda: not process.running or rig.equal(), "the first rows", 60)
        rig.at_source(f"ALTER SCHEMA {rig.schema} RENAME TO {new}")
        rig.at_source(f"INSERT INTO {new}.one VALUES (2, 2)", f"UPDATE {new}.two SET v = 3")
        until(lambda: not process.running or names(rig, new) == ["one", "two"], "tables in the new schema", 60)
        assert process.running, rig.said()[-2000:]
        asked = f"SELECT id FROM {new}.one ORDER BY id"
        until(lambda: not process.running or values(rig, asked) == ["1", "2"], "the row behind it", 60)
        until(lambda: not process.running or values(rig, f"SELECT v FROM {new}.two") == ["3"], "the changed row", 60)
        assert process.running, rig.said()[-2000:]
        process.stop()
    finally:
        rig.at_target(f"DROP SCHEMA IF EXISTS {new}" + (" CASCADE" if target == "postgres" else ""))
