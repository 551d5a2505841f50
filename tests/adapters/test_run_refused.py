"""Bad input: each is told in one paragraph that says what to do, with its exit code, and nothing is written."""

import re
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Server

REFUSED, USAGE = 1, 2


@pytest.fixture
def shop(make_rig: Callable[..., Rig], mariadb: Server, postgres: Server) -> Rig:
    """A table whose rows wait to be replicated, from a source account of the feed's own."""
    rig = make_rig(mariadb, postgres, "refused")
    rig.table("account", "id bigint PRIMARY KEY, email varchar(64) UNIQUE")
    rig.at_source("INSERT INTO account VALUES (1, 'a@example.com')")
    return rig


def refused(rig: Rig, *words: str, code: int = REFUSED, commands: tuple[str, ...] = ("check", "run")) -> str:
    """`check` and `run` both end with `code` and say all `words`; neither writes a row or makes bookkeeping."""
    said = ""
    for command in commands:
        before = written(rig)
        done = rig.command(command) if command == "check" else rig.command("run", "@", "--until-caught-up")
        said = done.out + done.err
        assert done.code == code, f"{command}: exit code {done.code}\n{said}"
        for word in words:
            assert word in said, f"{command}: no {word!r} in\n{said}"
        assert "Traceback" not in said
        assert len(said) < 1500, said
        assert not re.search(r"s3cret", said)
        assert written(rig) == before
    return said


def written(rig: Rig) -> list[list[tuple[object, ...]]]:
    """Returns what a run could have written at the target."""
    tables = rig.rows(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables"
        f" WHERE table_schema IN ('{rig.schema}', 'tidelock') ORDER BY 1"
    )
    return [tables, *(rig.rows(f"SELECT CONCAT(count(*), '') FROM {name}") for (name,) in tables)]


def account(rig: Rig, *grants: str, password: str = "s3cret") -> None:
    """A source user with these rights, in the feed's URL."""
    user = rig.name
    rig.at_source(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")
    for grant in grants:
        rig.at_source(f"GRANT {grant} TO {user}@'%'")
    rig.source_url = rig.source.url(user=user, password=password)


RIGHTS = ("REPLICATION SLAVE, BINLOG MONITOR ON *.*",)


def test_a_user_with_the_documented_rights_runs(shop: Rig) -> None:
    account(shop, *RIGHTS, f"SELECT ON {shop.schema}.*")
    assert shop.catch_up_code() == 0, shop.said()
    shop.assert_exact()


def test_wrong_password_at_the_source(shop: Rig) -> None:
    account(shop, *RIGHTS)
    shop.source_url = shop.source.url(user=shop.name, password="s3cret-wrong")
    refused(shop, "ccess denied", shop.name)


def test_wrong_password_at_the_target(make_rig: Callable[..., Rig], mariadb: Server, mysql: Server) -> None:
    rig = make_rig(mariadb, mysql, "refused")
    rig.table("account", "id bigint PRIMARY KEY")
    rig.at_target(f"CREATE USER {rig.name}@'%' IDENTIFIED BY 's3cret'")
    rig.target_url = mysql.url(user=rig.name, password="s3cret-wrong")
    refused(rig, "ccess denied", rig.name)


def test_nobody_listens(shop: Rig) -> None:
    shop.source_url = "mariadb://root@127.0.0.1:1"
    refused(shop, "127.0.0.1:1")
    shop.source_url, shop.target_url = shop.source.url(), "postgresql://postgres@127.0.0.1:1/postgres"
    refused(shop, "127.0.0.1:1")


def test_missing_replication_grant(shop: Rig) -> None:
    account(shop, f"SELECT ON {shop.schema}.*")
    refused(shop, "GRANT", "REPLICATION")


def test_missing_select_grant(shop: Rig) -> None:
    account(shop, *RIGHTS)
    refused(shop, "GRANT SELECT", shop.schema)


@pytest.mark.parametrize("missing", ["USAGE ON SCHEMA", "INSERT"])
def test_missing_grant_at_the_target(missing: str, shop: Rig) -> None:
    user = shop.name
    shop.at_target(
        f"CREATE USER {user} PASSWORD 's3cret'",
        "CREATE SCHEMA IF NOT EXISTS tidelock",
        f"GRANT ALL ON DATABASE postgres TO {user}",
        f"GRANT ALL ON SCHEMA tidelock TO {user}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA tidelock TO {user}",
    )
    if missing == "INSERT":
        shop.at_target(
            f"GRANT USAGE ON SCHEMA {shop.schema} TO {user}; GRANT SELECT ON {shop.schema}.account TO {user}"
        )
    shop.target_url = shop.target.url("postgres", user, "s3cret")
    refused(shop, "GRANT", shop.schema)


@pytest.mark.parametrize(
    ("setting", "mend"),
    [
        ("--binlog-format=STATEMENT", "binlog_format"),
        ("--binlog-row-image=MINIMAL", "binlog_row_image"),
    ],
)
def test_an_unsuitable_log(
    setting: str, mend: str, make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], postgres: Server
) -> None:
    rig = make_rig(make_mariadb(extra=[setting]), postgres, "refused")
    rig.table("account", "id bigint PRIMARY KEY")
    refused(rig, f"SET GLOBAL {mend}", mend)


def test_an_unsuitable_log_of_mysql(
    make_rig: Callable[..., Rig], make_mysql: Callable[..., MySql], postgres: Server
) -> None:
    rig = make_rig(make_mysql(extra=["--binlog-row-image=MINIMAL"]), postgres, "refused")
    rig.table("account", "id bigint PRIMARY KEY")
    refused(rig, "SET GLOBAL binlog_row_image", "binlog_row_image")
    assert "Traceback" not in rig.said()
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.account") == [("0",)]


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_purged_position(
    kind: str, make_rig: Callable[..., Rig], postgres: Server, request: pytest.FixtureRequest
) -> None:
    rig = make_rig(request.getfixturevalue(f"make_{kind}")(), postgres, "refused")
    rig.table("account", "id bigint PRIMARY KEY")
    rig.at_source("INSERT INTO account VALUES (1)")
    rig.purge()
    refused(rig, rig.start_at.partition(":")[0])


def test_a_position_that_was_purged_between_two_runs(
    make_rig: Callable[..., Rig], make_mariadb: Callable[..., MariaDb], postgres: Server
) -> None:
    rig = make_rig(make_mariadb(), postgres, "refused")
    rig.table("account", "id bigint PRIMARY KEY")
    rig.catch_up()
    rig.at_source("INSERT INTO account VALUES (1)")
    rig.purge()
    assert rig.catch_up_code() in (1, 4)
    assert "binlog.000001" in rig.said()
    assert rig.rows(f"SELECT count(*)::text FROM {rig.schema}.account") == [("0",)]


def test_the_target_table_is_missing(shop: Rig) -> None:
    shop.at_target(f"DROP TABLE {shop.schema}.account")
    refused(shop, f"{shop.schema}.account", "tidelock init")


@pytest.mark.parametrize(
    "columns",
    ["id bigint PRIMARY KEY, email date UNIQUE", "id bigint PRIMARY KEY, email varchar(10) UNIQUE",
     "id integer PRIMARY KEY, email varchar(64) UNIQUE", "id bigint PRIMARY KEY",
     "id bigint PRIMARY KEY, email varchar(64) UNIQUE, more int NOT NULL"],
)  # fmt: skip
def test_the_target_table_has_other_columns(columns: str, shop: Rig) -> None:
    shop.at_target(f"DROP TABLE {shop.schema}.account", f"CREATE TABLE {shop.schema}.account ({columns})")
    refused(shop, f"{shop.schema}.account", "ALTER TABLE")


def test_the_target_has_a_unique_key_that_the_source_lacks(shop: Rig) -> None:
    shop.table("person", "id bigint PRIMARY KEY, name varchar(20)", "id bigint PRIMARY KEY, name varchar(20) UNIQUE")
    refused(shop, f"{shop.schema}.person", "name", "UNIQUE")


def test_a_pattern_that_matches_nothing(shop: Rig) -> None:
    shop.rules = [{"source": f"{shop.schema}.acount"}]
    refused(shop, f"{shop.schema}.acount")


def test_an_unknown_key(shop: Rig) -> None:
    shop.options["lane"] = 4
    refused(shop, "lane", "lanes", code=USAGE)


def test_a_place_not_supported_yet(shop: Rig) -> None:
    shop.source_url = "kafka://localhost:9092"
    refused(shop, "kafka", "yet", code=USAGE)
