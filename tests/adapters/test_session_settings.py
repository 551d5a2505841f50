"""Settings that a server gives every session: none cuts what a feed reads, shows it what is rolled back later, or has
the target change by itself what the feed leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from bench.harness import session
from bench.harness.rig import Rig, tidelock, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server

COPY_SECONDS = 180.0
OPERATOR = 4
ACCOUNT = "id int PRIMARY KEY, name varchar(40)"
STAMPED = "ts timestamp NOT NULL DEFAULT current_timestamp ON UPDATE current_timestamp"
Make = Callable[..., Server]


@pytest.fixture
def make(make_mariadb: Callable[..., MariaDb], make_mysql: Callable[..., MySql]) -> Make:
    return lambda scheme, **options: (make_mariadb if scheme == "mariadb" else make_mysql)(**options)


@pytest.mark.parametrize("small_rows", [20_000, pytest.param(0, marks=pytest.mark.proof)], ids=["direct", "spark"])
@pytest.mark.parametrize("scheme", ["mariadb", pytest.param("mysql", marks=pytest.mark.proof)])
def test_a_copy_has_all_rows_and_none_that_is_not_committed(
    make: Make, postgres: Postgres, make_rig: Callable[..., Rig], scheme: str, small_rows: int
) -> None:
    """A limit of 30 rows would cut 40; a row that is rolled back is in no log, and would stay for ever."""
    source = make(scheme)
    level = "tx_isolation" if scheme == "mariadb" else "transaction_isolation"
    source.execute(f"SET GLOBAL {level}='READ-UNCOMMITTED'")
    rig = make_rig(source, postgres, "settings", start="copy", spark={"small_rows": small_rows})
    rig.table("account", ACCOUNT)
    rig.at_source(*(f"INSERT INTO account VALUES ({n}, 'of {n}')" for n in range(40)))
    source.execute("SET GLOBAL sql_select_limit=30")
    with closing(session.connect(source.url(rig.schema))) as other:
        other.send("BEGIN")
        other.send("INSERT INTO account VALUES (999, 'never committed')")
        other.send("UPDATE account SET name='never committed' WHERE id=3")
        rig.catch_up(COPY_SECONDS)
        other.send("ROLLBACK")
    assert rig.command("verify").code == 0
    source.execute("SET GLOBAL sql_select_limit=DEFAULT")  # of who compares, too
    rig.assert_exact()


FORMS = {
    "a unique index": f"id int PRIMARY KEY, x int, name varchar(40), {STAMPED}, UNIQUE u (ts, id)",
    "two of them": f"id int PRIMARY KEY, x int, name varchar(40), {STAMPED}, UNIQUE v (name), UNIQUE u (ts, id)",
    "the key": f"id int, x int, name varchar(40), {STAMPED}, PRIMARY KEY (id, ts)",
}


@pytest.mark.parametrize("options", [{}, {"verify": "image"}], ids=["blind", "image"])
@pytest.mark.parametrize("form", [*FORMS])
@pytest.mark.parametrize(
    ("source", "target"), [("mysql", "mariadb"), pytest.param("mariadb", "mysql", marks=pytest.mark.proof)]
)
def test_a_time_that_the_source_left_alone_stays(
    request: pytest.FixtureRequest,
    make_rig: Callable[..., Rig],
    source: str,
    target: str,
    form: str,
    options: dict[str, Any],
) -> None:
    """Unchanged columns of unique indexes are not set, and the target's ON UPDATE made them the time of now."""
    rig = make_rig(request.getfixturevalue(source), request.getfixturevalue(target), "kept", **options)
    rig.table("account", FORMS[form])
    rig.at_source(
        *(f"INSERT INTO account VALUES ({n}, 1, 'of {n}', '2020-01-01 00:00:0{n}')" for n in range(1, 6)),
        *(f"UPDATE account SET x = {n}, ts = ts WHERE id = {n}" for n in (2, 3)),
    )
    rig.catch_up()
    rig.assert_exact()
    rig.at_source(
        "UPDATE account SET x = 5, ts = ts WHERE id = 1",
        "UPDATE account SET name = 'z', ts = ts WHERE id = 2",
        "UPDATE account SET id = 9, ts = ts WHERE id = 3",
        "UPDATE account SET x = 7 WHERE id = 4",
    )
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.parametrize(
    "mode",
    ["ORACLE,EMPTY_STRING_IS_NULL", pytest.param("ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH", marks=pytest.mark.proof)],
)
def test_a_mode_that_takes_statements_for_others(make: Make, make_rig: Callable[..., Rig], mode: str) -> None:
    """Commands and runs ended with a syntax error or a NOT NULL that no row broke, and told to look at rights."""
    rig = make_rig(make("mariadb"), make("mariadb"), "modes", start="copy")
    for end in (rig.source, rig.target):
        end.execute(f"SET GLOBAL sql_mode='{mode}'")
    rig.table("account", "id int PRIMARY KEY, code char(5), name varchar(40)")
    rig.at_source("INSERT INTO account VALUES (1, 'a', ''), (2, '', 'b')")
    made = rig.command("init", "--apply")
    assert made.code == 0, made
    rig.catch_up(COPY_SECONDS)
    rig.at_source("INSERT INTO account VALUES (3, 'c', '')", "UPDATE account SET name = '' WHERE id = 2")
    rig.catch_up()
    for words in ("verify", "pause", "resume"):
        said = rig.command(words)
        assert said.code == 0, said
    rig.assert_exact()


def test_row_security_of_the_source_lets_no_copy_read_fewer_rows(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    """It comes when the feed has run; a copy replaced the target's rows with those that it saw."""
    rig = make_rig(postgres_source, postgres, "hidden")
    rig.table("account", "id int PRIMARY KEY, name text")
    reader = f"reader_{rig.name}"
    rig.at_source(
        f"CREATE ROLE {reader} LOGIN REPLICATION PASSWORD 'secret'",
        f"GRANT USAGE ON SCHEMA {rig.schema} TO {reader}",
        f"GRANT SELECT ON account TO {reader}",
    )
    rig.begin_here()
    rig.source_url = rig.source_url.replace("postgres@", f"{reader}:secret@")
    rig.at_source("INSERT INTO account SELECT n, 'of ' || n FROM generate_series(1, 6) n")
    rig.catch_up()
    rig.at_source("ALTER TABLE account ENABLE ROW LEVEL SECURITY", "CREATE POLICY part ON account USING (id > 3)")
    process, table = rig.run(), f"{rig.schema}.account"
    refused = tidelock("copy", str(rig.feed), "--table", table, "--yes", seconds=COPY_SECONDS)
    assert refused.code == 1 and f'ALTER ROLE "{reader}" BYPASSRLS' in refused.out, refused
    rig.assert_exact()
    rig.at_source(f'ALTER ROLE "{reader}" BYPASSRLS', "UPDATE account SET name = 'later' WHERE id = 1")
    done = tidelock("copy", str(rig.feed), "--table", table, "--yes", seconds=COPY_SECONDS)
    assert done.code == 0, done
    until(rig.equal, "equal ends")
    process.stop()
    rig.assert_exact()


def test_a_role_of_the_target_changes_no_value_and_hides_no_row(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    rig = make_rig(postgres_source, postgres, "given")
    rig.table("account", "id int PRIMARY KEY, names text[]")
    writer = f"writer_{rig.name}"
    rig.begin_here()
    rig.at_target(
        f"CREATE ROLE {writer} LOGIN PASSWORD 'secret'",
        f"ALTER ROLE {writer} SET array_nulls = off",
        *(f"GRANT ALL ON SCHEMA {name} TO {writer}" for name in ("tidelock", rig.schema)),
        *(f"GRANT ALL ON ALL TABLES IN SCHEMA {name} TO {writer}" for name in ("tidelock", rig.schema)),
    )
    rig.target_url = rig.target_url.replace("postgres@", f"{writer}:secret@")
    rig.at_source("INSERT INTO account VALUES (1, '{a,NULL}'), (2, '{NULL}'), (3, NULL)")
    rig.catch_up()
    rig.assert_exact()
    rig.at_target("ALTER TABLE account ENABLE ROW LEVEL SECURITY")
    rig.at_source("DELETE FROM account WHERE id = 1")
    assert rig.catch_up_code() == OPERATOR, rig.said()
    rig.at_target("ALTER TABLE account DISABLE ROW LEVEL SECURITY")
    rig.catch_up()
    rig.assert_exact()
