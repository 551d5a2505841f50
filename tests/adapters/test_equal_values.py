"""Values that a server takes for one and that are not the same: the two zeros of floating point numbers, 1 and 1.0 in
documents, texts of a collation that folds, and one moment in columns of two types."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres

POSTGRES_PAIRS = {
    "double": ("double precision", "0", "-0"),
    "real": ("real", "0", "-0"),
    "jsonb": ("jsonb", "1", "1.0"),
    "json": ("json", '{"a":1}', '{"a": 1}'),
    "text": ('text COLLATE "{schema}".ci', "a", "A"),
}
MYSQL_PAIRS = {"zeros": ("double", "0e0", "-0e0"), "documents": ("json", "'1'", "'1.0'")}


def exact(rig: Rig, table: str, column: str) -> list[tuple[str, ...]]:
    return sorted(rig.rows(f"SELECT {column}::text FROM {rig.schema}.{table}"))


def test_of_rows_without_a_key_the_very_one_goes(
    make_rig: Callable[..., Rig], postgres_source: Postgres, postgres: Postgres
) -> None:
    rig = make_rig(postgres_source, postgres, "same", lanes=2)
    for at in (rig.at_source, rig.at_target):
        at(f"CREATE COLLATION {rig.schema}.ci (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
    for name, (type_, *_) in POSTGRES_PAIRS.items():
        rig.table(name, f"v {type_.format(schema=rig.schema)}")
        rig.at_source(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
    rig.begin_here()
    for name, (_, one, other) in POSTGRES_PAIRS.items():
        rig.at_source(f"INSERT INTO {name} VALUES ('{one}'), ('{other}'), ('{one}'), ('{other}')")
        rig.at_source(f"DELETE FROM {name} WHERE v::text COLLATE \"C\" = '{other}'")
    rig.catch_up()
    for name, (_, one, _other) in POSTGRES_PAIRS.items():
        assert exact(rig, name, "v") == [(one,), (one,)], name


def test_of_rows_without_a_key_the_very_one_goes_at_mysql(
    make_rig: Callable[..., Rig], mysql: MySql, other_mysql: MySql
) -> None:
    rig = make_rig(mysql, other_mysql, "same", lanes=2)
    for name, (type_, one, other) in MYSQL_PAIRS.items():
        rig.table(name, f"n int, v {type_}")
        rig.at_source(*(f"INSERT INTO {name} VALUES (1, {text})" for text in (one, other, one, other)))
        rig.at_source(f"DELETE FROM {name} WHERE CAST(v AS CHAR) IN ('-0', '1.0')")
    rig.catch_up()
    left = {name: rig.rows(f"SELECT CAST(v AS CHAR) FROM {name}") for name in MYSQL_PAIRS}
    assert left == {"zeros": [("0",)] * 2, "documents": [("1",)] * 2}


def test_a_zero_whose_sign_the_target_does_not_keep_goes_too(
    make_rig: Callable[..., Rig], mysql: MySql, mariadb: MariaDb
) -> None:
    rig = make_rig(mysql, mariadb, "unsigned", lanes=2)
    rig.table("zeros", "n int, v double")
    rig.at_source("INSERT INTO zeros VALUES (1, 0e0), (1, -0e0), (1, -0e0)")
    rig.at_source("DELETE FROM zeros WHERE CAST(v AS CHAR) = '-0'")
    rig.catch_up()
    assert rig.rows("SELECT v FROM zeros") == [("0",)]


@pytest.mark.parametrize("consistency", ["row", "transaction"])
def test_a_zero_of_a_key_gets_its_sign(
    make_rig: Callable[..., Rig], mysql: MySql, postgres: Postgres, consistency: str
) -> None:
    rig = make_rig(mysql, postgres, "zero", lanes=2, consistency=consistency)
    rig.table("k", "v double PRIMARY KEY, n int", "v double precision PRIMARY KEY, n int")
    rig.table("u", "id int PRIMARY KEY, v double UNIQUE, n int", "id int PRIMARY KEY, v double precision UNIQUE, n int")
    rig.at_source("INSERT INTO k VALUES (0, 1)", "INSERT INTO u VALUES (1, 0, 1)")
    rig.catch_up()
    rig.at_source("UPDATE k SET v = -0e0, n = 2", "UPDATE u SET v = -0e0, n = 2")
    rig.catch_up()
    assert rig.rows("SELECT v::text, n::text FROM k UNION ALL SELECT v::text, n::text FROM u") == [("-0", "2")] * 2


SHARDS = [
    pytest.param("datetime", "datetime(6)", "timestamp(6)", "'2020-01-01 00:00:{:02d}'", id="moments"),
    pytest.param("decimal(9,1)", "decimal(9,2)", "numeric(12,2)", "{}.5", id="decimals", marks=pytest.mark.proof),
    pytest.param("int", "decimal(9,0)", "numeric(12,0)", "{}", id="integers", marks=pytest.mark.proof),
]


@pytest.mark.parametrize(("one", "other", "pooled", "word"), SHARDS)
def test_a_row_that_goes_to_a_table_which_spells_its_key_otherwise(
    make_rig: Callable[..., Rig], mariadb: MariaDb, postgres: Postgres, one: str, other: str, pooled: str, word: str
) -> None:
    """Deleted in one table and inserted in another one, on lanes that know nothing of each other, a row was lost."""
    rig = make_rig(mariadb, postgres, "shards", lanes=8, batch_rows=5)
    rig.at_source(f"CREATE TABLE a (k {one} PRIMARY KEY, v int)", f"CREATE TABLE b (k {other} PRIMARY KEY, v int)")
    rig.at_target(f"CREATE TABLE {rig.schema}.pool (k {pooled} PRIMARY KEY, v int)")
    rig.rules = [{"source": f"{rig.schema}.{name}", "target": f"{rig.schema}.pool"} for name in ("a", "b")]
    wanted = list[tuple[str]]()
    for number in range(1, 41):
        key = word.format(number)
        for _ in range(4):
            rig.at_source(
                f"INSERT INTO a VALUES ({key}, {number})", f"DELETE FROM a WHERE k = {key}",
                f"INSERT INTO b VALUES ({key}, {number})", f"DELETE FROM b WHERE k = {key}",
            )  # fmt: skip
        rig.at_source(f"INSERT INTO b VALUES ({key}, {number})")
        wanted.append((str(number),))
    rig.catch_up()
    assert rig.rows("SELECT v::text FROM pool ORDER BY k") == wanted
    assert (rig.unique_violations(), rig.parked()) == (0, 0)
