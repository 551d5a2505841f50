"""The grants that `init` prints, run to the letter for a user that has none, suffice for all that a feed does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Postgres, Server
from bench.harness.tidelock import Process
from tidelock.adapters.bookkeeping.tables import TABLES, create_statements

SECONDS = 180.0
PASSWORD = "s3cret"


def as_strangers(rig: Rig) -> None:
    """The feed's users have no right at either end."""
    user = f"u{rig.schema}"
    rig.at_source(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
    rig.source_url = rig.source.url(user=user, password=PASSWORD)
    if isinstance(rig.target, Postgres):
        rig.at_target(f"CREATE USER {user} PASSWORD '{PASSWORD}'")
        rig.target_url = rig.target.url("postgres", user, PASSWORD)
    else:
        rig.at_target(f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")
        rig.target_url = rig.target.url(user=user, password=PASSWORD)


def follow_init(rig: Rig) -> None:
    """Run the grants that `init` prints, until it prints none; then let it do the rest."""
    for _ in range(3):
        said = rig.command("init", "@", "--json")
        assert said.code == 0, said
        grants = [s for s in said.json["statements"] if s["administrator"]]
        for grant in grants:
            (rig.at_source if grant["side"] == "source" else rig.at_target)(grant["sql"])
        if not grants:
            break
    else:
        pytest.fail(f"init still asks for {grants}")
    applied = rig.command("init", "@", "--apply")
    assert applied.code == 0, applied


@pytest.mark.parametrize("target", ["mysql", pytest.param("make_mariadb", marks=pytest.mark.proof), "postgres"])
def test_what_init_prints_suffices(
    target: str, mariadb: Server, make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    """Also where the user sees no table on either side; copy, run, verify, repair and resync."""
    found = request.getfixturevalue(target)
    rig = make_rig(mariadb, found() if callable(found) else found, "rights", start="copy")
    rig.options["schema"] = f"{rig.schema}_books"  # not yet there, whatever other tests have made
    rig.at_source("CREATE TABLE parent (id bigint PRIMARY KEY, v int)")
    rig.at_source("CREATE TABLE child (id bigint PRIMARY KEY, p bigint, FOREIGN KEY (p) REFERENCES parent (id))")
    rig.at_source("INSERT INTO parent VALUES (1, 1), (2, 2)", "INSERT INTO child VALUES (1, 1)")
    rig.tables = ["parent", "child"]
    as_strangers(rig)
    follow_init(rig)
    checked = rig.command("check")
    assert checked.code == 0 and "GRANT" not in checked.out, checked.out

    running = rig.run()
    until(rig.equal, "the copy", SECONDS)
    rig.at_source("UPDATE parent SET v = 3 WHERE id = 2", "ALTER TABLE parent ADD COLUMN w int")
    rig.at_source("CREATE TABLE later (id bigint PRIMARY KEY)", "INSERT INTO later VALUES (1)", "TRUNCATE child")
    rig.tables.append("later")
    until(rig.equal, "what came later", SECONDS)

    rig.at_target(f"UPDATE {rig.schema}.parent SET v = 9 WHERE id = 1")
    report = rig.folder / "report.json"
    verify = Process(["verify", str(rig.feed), "--report", str(report)], rig.folder / "verify.log")
    assert verify.code(SECONDS) == 3, (rig.folder / "verify.log").read_text()
    repair = Process(["repair", str(rig.feed), "--from-report", str(report), "--yes"], rig.folder / "repair.log")
    assert repair.code(SECONDS) == 0, (rig.folder / "repair.log").read_text()
    running.stop()
    rig.assert_exact()

    rig.at_target(f"UPDATE {rig.schema}.parent SET v = 9 WHERE id = 1")
    resync = rig.command("resync", "@", "--yes")
    assert resync.code == 0, resync
    rig.catch_up(SECONDS)
    rig.assert_exact()


@pytest.mark.parametrize("tables", [2, *(pytest.param(tables, marks=pytest.mark.proof) for tables in (0, len(TABLES)))])
def test_what_init_prints_suffices_where_others_made_the_bookkeeping(
    tables: int, mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    """PostgreSQL asks for CREATE on the database before it sees that the schema is there; a table is its maker's."""
    rig = make_rig(mariadb, postgres, "guest")
    rig.table("account", "id bigint PRIMARY KEY, v int")
    books = rig.options["schema"] = f"{rig.schema}_books"
    rig.at_target(*create_statements("postgres", books)[: 1 + tables])
    as_strangers(rig)
    follow_init(rig)
    rig.at_source("INSERT INTO account VALUES (1, 1)")
    rig.catch_up()
    rig.assert_exact()


def test_a_database_without_tables_is_no_mistake(
    mariadb: Server, postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mariadb, postgres, "bare")
    checked = rig.command("check")
    assert checked.code == 0 and "warning" in checked.out and "matches" in checked.out, checked
    assert rig.command("init", "@", "--apply").code == 0
    rig.catch_up()
    rig.at_source("CREATE TABLE first (id bigint PRIMARY KEY, v int)", "INSERT INTO first VALUES (1, 1)")
    rig.catch_up()
    rig.tables = ["first"]
    rig.assert_exact()
    rig.rules = [{"source": f"{rig.schema}_typo.*"}]
    wrong = rig.command("check")
    assert wrong.code == 1 and "Correct `tables`" in wrong.out, wrong
