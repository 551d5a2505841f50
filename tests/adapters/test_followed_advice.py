"""Halts whose message names statements for the source: each is taken from it and run as it stands; no row differs then.

Rows came, went and changed before and behind what halts, also while the advice is followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from tests.adapters.postgres_feed import insert, made

COPY_SECONDS = 180.0
pytestmark = pytest.mark.proof


def advice(rig: Rig, words: str) -> str:
    """Has the feed halt with these words, and returns what the halt says to do."""
    assert rig.catch_up_code() == 4, rig.said()[-2000:]
    halted = rig.command("status", "@", "--json").json["halted"]
    assert halted is not None, rig.said()[-2000:]
    _, message, hint, *_ = halted["alarm"]
    assert words in message, (message, hint)
    return str(hint)


def copied_anew(rig: Rig, hint: str) -> None:
    assert "`tidelock resync FEED`" in hint, hint
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()


def two_tables(rig: Rig) -> None:
    rig.table("account", "id bigint PRIMARY KEY, v int")
    rig.table("note", "id bigint PRIMARY KEY, v int")
    rig.start_at = rig.here()
    rig.at_source("INSERT INTO account VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO note VALUES (1, 1), (2, 2)")
    rig.catch_up()
    rig.at_source("DELETE FROM account WHERE id = 3", "INSERT INTO account VALUES (4, 4)")


def settings(hint: str) -> list[str]:
    return re.findall(r"SET GLOBAL \w+ ?= ?\w+", hint)


@pytest.mark.parametrize("scheme", ["mariadb", "mysql"])
def test_names_of_columns(
    scheme: str,
    make_mariadb: Callable[..., MariaDb],
    make_mysql: Callable[..., MySql],
    postgres: Server,
    make_rig: Callable[..., Rig],
) -> None:
    """The table was another one at a row, by a session that logs nothing; no row of it is named before the advice."""
    rig = make_rig(make_mariadb() if scheme == "mariadb" else make_mysql(), postgres, "nameless")
    rig.at_source("SET GLOBAL binlog_row_metadata=MINIMAL")
    two_tables(rig)
    rig.at_source("SET sql_log_bin=0", "ALTER TABLE account MODIFY v smallint", "SET sql_log_bin=1")
    rig.at_source("UPDATE account SET v = 7 WHERE id = 1")
    rig.at_source("SET sql_log_bin=0", "ALTER TABLE account MODIFY v int", "SET sql_log_bin=1")
    rig.at_source("DELETE FROM account WHERE id = 2", "UPDATE note SET v = 22 WHERE id = 2")
    hint = advice(rig, "does not name the columns")
    statements = settings(hint)
    assert [one.replace(" ", "") for one in statements] == ["SETGLOBALbinlog_row_metadata=FULL"], hint
    rig.at_source(*statements, "INSERT INTO account VALUES (5, 5)")
    copied_anew(rig, hint)
    rig.at_source("INSERT INTO account VALUES (6, 6)", "ALTER TABLE note ADD COLUMN w int", "UPDATE note SET w = 1")
    rig.catch_up()
    rig.assert_exact()


def test_an_alter_table_in_two_parts(
    make_mariadb: Callable[..., MariaDb], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(make_mariadb(), postgres, "parts")
    rig.at_source("SET GLOBAL binlog_row_metadata=NO_LOG", "SET GLOBAL binlog_alter_two_phase=ON")
    rig.at_source("SET SESSION binlog_alter_two_phase=ON")
    two_tables(rig)
    rig.at_source("ALTER TABLE note ADD COLUMN w int", "UPDATE note SET w = 1")
    hint = advice(rig, "tells an ALTER TABLE where it begins")
    statements = settings(hint)
    assert len(statements) == 2, hint
    rig.at_source(*statements, "INSERT INTO account VALUES (5, 5)")
    rig.at_target(f"ALTER TABLE {rig.schema}.note ADD COLUMN w int")
    copied_anew(rig, hint)


@pytest.mark.parametrize("option", ["binlog-ignore-db", "binlog-do-db"])
def test_a_database_that_is_logged_again(
    option: str, make_mariadb: Callable[..., MariaDb], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(make_mariadb(), postgres, "unlogged")
    two_tables(rig)
    before = rig.source.extra
    rig.source.extra = [*before, f"--{option}={rig.schema if option == 'binlog-ignore-db' else 'elsewhere'}"]
    rig.source.restart()
    rig.reconnect()
    rig.at_source("DELETE FROM account WHERE id = 1", "INSERT INTO note VALUES (9, 9)")
    hint = advice(rig, "does not log the database")
    rig.source.extra = before
    rig.source.restart()
    rig.reconnect()
    rig.at_source("UPDATE note SET v = 5 WHERE id = 9")
    assert rig.catch_up_code() == 1, "nothing in the log says that something is missing"
    assert "resync" in rig.said().splitlines()[-1]
    copied_anew(rig, hint)


def statement(hint: str, begins: str) -> str:
    found = re.search(rf"{begins} .*?(?:\)|;)(?=;| |$)", hint)
    assert found is not None, hint
    return found[0].rstrip(";")


HARMS = {"dropped": "has no publication", "narrowed": "leaves changes out", "made anew": "had no publication where"}


@pytest.mark.parametrize("harm", HARMS)
def test_a_publication(
    harm: str, postgres_source: Postgres, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    """It was dropped, maybe for a while, or publishes no deletes any more."""
    rig = made(make_rig, postgres_source, postgres, "publication")
    insert(rig, 1, 10)
    rig.catch_up()
    ((name,),) = postgres_source.execute("SELECT pubname::text FROM pg_publication", database=rig.schema)
    rig.at_source(
        f"ALTER PUBLICATION \"{name}\" SET (publish = 'insert')" if harm == "narrowed" else f'DROP PUBLICATION "{name}"'
    )
    rig.at_source("DELETE FROM item WHERE id < 4", "UPDATE item SET name = 'x' WHERE id = 5")
    insert(rig, 11, 20)
    if harm == "made anew":
        rig.at_source(f'CREATE PUBLICATION "{name}" FOR TABLE item WITH (publish_via_partition_root = true)')
    hint = advice(rig, HARMS[harm])
    if harm != "made anew":
        rig.at_source(statement(hint, "CREATE PUBLICATION" if harm == "dropped" else "ALTER PUBLICATION"))
    insert(rig, 21, 30)
    said = rig.command("resync", "@", "--yes")
    assert said.code == 0, said
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
    rig.at_source("DELETE FROM item WHERE id > 25", "UPDATE item SET name = 'y' WHERE id = 6")
    rig.catch_up()
    rig.assert_exact()


def test_a_system_versioned_table_that_is_none_any_more(
    make_mariadb: Callable[..., MariaDb], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(make_mariadb(), postgres, "versioned")
    two_tables(rig)
    rig.at_source("ALTER TABLE account ADD SYSTEM VERSIONING", "UPDATE account SET v = 40 WHERE id = 4")
    rig.at_source("DELETE FROM account WHERE id = 1")
    hint = advice(rig, "is system-versioned")
    rig.at_source(statement(hint + ";", "ALTER TABLE"), "UPDATE account SET v = 41 WHERE id = 4")
    copied_anew(rig, hint)


def test_a_table_that_gets_a_replica_identity(
    postgres_source: Postgres, postgres: Postgres, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(postgres_source, postgres, "identity")
    rig.table("bare", "v int", "v int")
    assert rig.catch_up_code() in (1, 4), rig.said()
    found = re.search(r"ALTER TABLE \S+ REPLICA IDENTITY FULL", rig.said())
    assert found is not None, rig.said()
    rig.at_source(found[0])
    rig.catch_up()
    rig.at_source("INSERT INTO bare VALUES (1), (2)", "UPDATE bare SET v = 3 WHERE v = 1")
    rig.at_source("DELETE FROM bare WHERE v = 2")
    rig.catch_up()
    rig.assert_exact()


@pytest.mark.proof
def test_a_target_that_keeps_names_in_lower_case(
    mariadb: MariaDb, make_mariadb: Callable[..., MariaDb], make_rig: Callable[..., Rig]
) -> None:
    """`init` would make the table under another name, again and again: the check names the rule that helps."""
    rig = make_rig(mariadb, make_mariadb(extra=["--lower-case-table-names=1"]), "folds")
    rig.start_at = rig.here()
    rig.at_source("CREATE TABLE Item (id int PRIMARY KEY, v int)", "INSERT INTO Item VALUES (1, 1), (2, 2)")
    assert rig.command("init", "--apply").code == 0
    said = rig.command("check", "--json").json
    (hint,) = [one["hint"] for one in said["findings"] if one["kind"] == "target-folds"]
    (target,) = re.findall(r"`target: (\S+)`", hint)
    rig.rules = [{"source": f"{rig.schema}.Item", "target": target}]
    rig.catch_up()
    assert rig.rows("SELECT concat(id, ''), concat(v, '') FROM item ORDER BY 1") == [("1", "1"), ("2", "2")]
    rig.at_source("TRUNCATE TABLE Item", "INSERT INTO Item VALUES (5, 5)")
    rig.catch_up()
    assert rig.rows("SELECT concat(id, '') FROM item") == [("5",)]

SETTINGS = {
    "binlog_row_image=NOBLOB": ("which leaves columns out", "only some columns"),
    "binlog_format=MIXED": ("replication needs", "as a statement"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_that_is_wrong_at_the_start(
    setting: str, make_mariadb: Callable[..., MariaDb], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    """The advice lets the run begin, which halts at what was logged meanwhile, and says what to do with that."""
    first, then = SETTINGS[setting]
    rig = make_rig(make_mariadb(), postgres, "setting")
    rig.table("doc", "id int PRIMARY KEY, v int, t text")
    rig.at_source("INSERT INTO doc VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    rig.catch_up()
    rig.at_source(f"SET GLOBAL {setting}", f"SET SESSION {setting}", "UPDATE doc SET v = 10 WHERE id = 1")
    rig.at_source("DELETE FROM doc WHERE id = 2", "REPLACE INTO doc VALUES (3, 3, '')")
    rig.at_source("INSERT INTO doc (id) VALUES (5)")
    assert rig.catch_up_code() == 1 and first in rig.said(), rig.said()
    (mend,) = settings(rig.said())
    rig.at_source(mend, mend.replace("GLOBAL", "SESSION"))
    copied_anew(rig, advice(rig, then))


def test_rights_that_were_taken_away(
    make_mariadb: Callable[..., MariaDb], postgres: Server, make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(make_mariadb(), postgres, "rights")
    two_tables(rig)
    rights = ("REPLICATION SLAVE, BINLOG MONITOR ON *.*", f"SELECT ON {rig.schema}.*")
    rig.at_source("CREATE USER poor IDENTIFIED BY 'p'", *(f"GRANT {one} TO poor" for one in rights))
    rig.source_url = rig.source.url(user="poor", password="p")
    rig.catch_up()
    rig.at_source(*(f"REVOKE {one} FROM poor" for one in rights), "DELETE FROM account WHERE id = 1")
    assert rig.catch_up_code() == 1, rig.said()
    printed = rig.command("init", "@")
    rig.at_source(*re.findall(r"GRANT [^;]*;", printed.out))
    rig.catch_up()
    rig.assert_exact()


def test_a_chunk_that_the_target_refused(mariadb: MariaDb, postgres: Server, make_rig: Callable[..., Rig]) -> None:
    """A trigger refuses whatever is written: not for the fault of some rows."""
    rig = make_rig(mariadb, postgres, "refused", start="copy")
    rig.table("t", "id int PRIMARY KEY, v int NOT NULL")
    rig.at_source("INSERT INTO t SELECT seq, seq FROM seq_1_to_50")
    rig.at_target(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE check_violation; END'",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION no()",
    )
    assert "Correct the target" in advice(rig, "the target refused rows of chunk")
    rig.at_source("UPDATE t SET v = 0 WHERE id = 10", "DELETE FROM t WHERE id = 50")
    rig.at_target("DROP TRIGGER no ON t")
    rig.catch_up(COPY_SECONDS)
    rig.assert_exact()
