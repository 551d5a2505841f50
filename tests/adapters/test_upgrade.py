"""Bookkeeping that an older version made: a run adds what is missing where it may, and says how where it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.numbers import numbers
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from tidelock.adapters.bookkeeping.tables import needed
from tidelock.adapters.config.url import parse
from tidelock.adapters.operator.upgrade import look, upgrade
from tidelock.adapters.wiring.session import session

_numbers = numbers()


@pytest.fixture(params=["postgres", "mariadb"])
def rig(request: pytest.FixtureRequest, make_rig: Callable[..., Rig], mysql: MySql) -> Rig:
    """A feed that has run, whose bookkeeping then loses a table and two columns, as if they came later."""
    target: Server = request.getfixturevalue(request.param)
    made = make_rig(mysql, target, "upgrade")
    made.options["schema"] = books(made)
    made.table("account", "id int PRIMARY KEY")
    made.at_source("INSERT INTO account VALUES (1)")
    made.catch_up()
    made.at_target(
        f"DROP TABLE {books(made)}.tidelock_wanted",
        f"ALTER TABLE {books(made)}.tidelock_owner DROP COLUMN halt, DROP COLUMN desired_state",
    )
    made.at_source("INSERT INTO account VALUES (2)")
    return made


def books(rig: Rig) -> str:
    return f"{rig.schema}_books"


def lacking(rig: Rig) -> int:
    found = rig.rows(
        "SELECT CONCAT(count(*), '') FROM information_schema.columns "
        f"WHERE table_schema = '{books(rig)}' AND (table_name, column_name) IN "
        "(('tidelock_wanted', 'mode'), ('tidelock_owner', 'halt'), ('tidelock_owner', 'desired_state'))"
    )
    return 3 - int(found[0][0])


def stranger(rig: Rig) -> None:
    """The feed's user may read and write the rows of all tables, and no more."""
    schemas, rights = (rig.schema, books(rig)), "SELECT, INSERT, UPDATE, DELETE"
    if isinstance(rig.target, Postgres):
        rig.at_target(f"CREATE ROLE {rig.name} LOGIN PASSWORD 's3cret'")
        for schema in schemas:
            rig.at_target(f"GRANT USAGE ON SCHEMA {schema} TO {rig.name}")
            rig.at_target(f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {rig.name}")
    else:
        rig.at_target(f"CREATE USER {rig.name}@'%' IDENTIFIED BY 's3cret'")
        for schema in schemas:
            rig.at_target(f"GRANT {rights} ON {schema}.* TO {rig.name}@'%'")
    rig.target_url = rig.target.url(user=rig.name, password="s3cret")


def alters(said: str) -> list[str]:
    return [line.strip().removesuffix(";") for line in said.splitlines() if line.strip().startswith("ALTER TABLE")]


def advised(said: str) -> list[str]:
    """The statements of the refusal, to be followed to the letter."""
    return [statement.strip() for statement in said.partition("Run as ")[2].partition(":\n")[2].split(";\n")][:-1]


def test_the_next_run_adds_what_is_missing(rig: Rig) -> None:
    assert lacking(rig) == 3
    checked = rig.command("check")
    assert checked.code == 0, checked.out
    assert "older version: they lack tidelock_wanted, tidelock_owner.desired_state, tidelock_owner.halt" in checked.out
    status = rig.command("status")
    assert (status.code, "older version" in status.err, "init --apply" in status.err) == (1, True, True)
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()
    assert lacking(rig) == 0
    assert "NOT RUNNING" in rig.command("status").out
    assert "older" not in rig.command("check").out


@pytest.mark.parametrize("rig", ["mariadb", pytest.param("postgres", marks=pytest.mark.proof)], indirect=True)
def test_init_prints_and_applies_it(rig: Rig) -> None:
    printed = rig.command("init")
    assert len(alters(printed.out)) == 1, printed.out
    assert "CREATE TABLE" in printed.out
    assert rig.command("init", "--apply", "@").code == 0
    assert lacking(rig) == 0
    assert "nothing is missing" in rig.command("init").out


@pytest.mark.parametrize("rig", ["postgres", pytest.param("mariadb", marks=pytest.mark.proof)], indirect=True)
def test_a_user_who_may_not_is_told_the_statements(rig: Rig) -> None:
    stranger(rig)
    assert rig.catch_up_code() == 1
    told = advised(rig.said())
    assert len(told) == (3 if isinstance(rig.target, Postgres) else 2), rig.said()
    assert "Traceback" not in rig.said()
    assert "s3cret" not in rig.said()
    checked = rig.command("check")
    assert checked.code == 1
    assert alters(checked.out) == [told[1]]
    assert "by an administrator" in rig.command("init").out
    rig.at_target(*told)
    assert rig.catch_up_code() == 0, rig.said()
    rig.assert_exact()


def test_tables_of_sites_are_made_for_feeds_with_sites(
    make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres
) -> None:
    plain, sited = make_rig(mariadb, postgres, "plain"), make_rig(mariadb, postgres, "sited")
    sited.options["sites"] = {"source": f"here{next(_numbers)}", "target": f"there{next(_numbers)}"}
    for rig in (plain, sited):
        rig.options["schema"] = books(plain)
        rig.table("account", "id int PRIMARY KEY")
        rig.at_source("INSERT INTO account VALUES (1)")
        rig.catch_up()
        rig.assert_exact()
        listed, checked = rig.command("conflicts", "list", "@"), rig.command("check", "@")
        assert (listed.code, checked.code) == (0, 0), f"{listed.err}{checked.out}"
        assert "older version" not in checked.out
        there = {str(row[0]) for row in rig.rows(
            f"SELECT CAST(table_name AS char(64)) FROM information_schema.tables WHERE table_schema = '{books(plain)}'"
        )}
        made = {name.strip() for name in there}
        assert made == set(needed(sites=rig is sited))
    shown = plain.command("conflicts", "show", "@", "a:1:1:1")
    assert (shown.code, "No lost row" in shown.err) == (1, True), shown.err


async def test_runs_that_begin_at_once_wait_for_none(postgres: Postgres) -> None:
    """PostgreSQL refuses whoever comes second, also with IF NOT EXISTS, at each table anew."""
    schema = f"at_once{next(_numbers)}"
    target = parse(postgres.url(), Path())

    async def begin(all_saw: asyncio.Barrier) -> None:
        async with session(target) as opened:
            seen = await look(opened, schema)
            await all_saw.wait()
            await upgrade(opened, schema, seen, "postgres")

    together = asyncio.Barrier(5)
    await asyncio.gather(*(begin(together) for _ in range(5)))
    async with session(target) as opened:
        assert not await look(opened, schema)
