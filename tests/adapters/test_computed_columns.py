"""Generated columns that a source adds: what the target computes of rows that are there, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from bench.harness.rig import Rig, until
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.conversions import STRICT_MODE
from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl

T = TableName("shop", "t")
SOURCE = "id int PRIMARY KEY, a int, u int unsigned, m decimal(8,3), b varchar(9), d date, j json, f double"
COLUMNS = {
    "postgres": "id integer, a integer, u bigint, m numeric(8,3), b varchar(9), d date, j json, f double precision",
    "mysql": "id int, a int, u int unsigned, m decimal(8,3), b varchar(9), d date, j longtext, f double",
}


def runs(statement: str, dialect: Literal["mysql", "postgres"], *more: TargetColumn) -> list[str]:
    """Returns what a statement about `t` becomes."""
    former = moved(classify(Ddl("shop", f"CREATE TABLE t ({SOURCE})", "0-1", 6), "mysql"), {})[T]
    words = [part.strip().partition(" ") for part in COLUMNS[dialect].replace("(8,3)", "(8;3)").split(",")]
    columns = tuple(TargetColumn(name, type_.replace(";", ",")) for name, _, type_ in words)
    key = UniqueKey("PRIMARY" if dialect == "mysql" else "t_pkey", ("id",))
    ddl = classify(Ddl("shop", statement, "0-1", 7, sql_mode=STRICT_MODE, former=former), "mysql")
    return translate(ddl, dialect, lambda name: name, {T: TargetTable(T, (*columns, *more), ("id",), (key,))})


FOLLOWED = [
    ("int AS (a + 1)", "((`a` + 1))", '(("a")::numeric + (1)::numeric)'),
    ("decimal(9,2) AS (m * a)", "((`m` * `a`))", '(("m")::numeric * ("a")::numeric)'),
    ("tinyint AS (a >= 3 AND d IS NOT NULL)", "(`a` >= 3)", '("a" >= 3)'),
    ("int AS (IF(a > 0, a, NULL))", "CASE WHEN (`a` > 0) THEN `a` ELSE NULL END", 'THEN "a" ELSE NULL END'),
    ("varchar(20) AS (CONCAT(b, ' ', B))", "CONCAT(`b`, ' ', `b`)", "(\"b\" || ' ' || \"b\")"),
    ("varchar(20) AS (IFNULL(`b`, 'it''s')) VIRTUAL", "COALESCE(`b`, CONVERT(x'69742773' USING utf8mb4))",
     "COALESCE(\"b\", 'it''s')"),
    ("int GENERATED ALWAYS AS (char_length(b)) STORED", "char_length(`b`)", 'char_length("b")'),
]


@pytest.mark.parametrize(("column", "mysql", "postgres"), FOLLOWED, ids=[one[0] for one in FOLLOWED])
def test_rows_that_are_there_get_what_the_source_computes(column: str, mysql: str, postgres: str) -> None:
    added, passing = runs(f"ALTER TABLE t ADD COLUMN c {column}", "mysql")
    assert " DEFAULT (" in added and mysql in added
    assert passing == "ALTER TABLE `shop`.`t` ALTER COLUMN `c` SET DEFAULT NULL"
    added, plain = runs(f"ALTER TABLE t ADD COLUMN c {column}", "postgres")
    assert postgres in added and added.endswith("STORED")
    assert plain == 'ALTER TABLE "shop"."t" ALTER COLUMN "c" DROP EXPRESSION'


REFUSED = [
    "int AS (a / 2)", "int AS (u - 1)", "int AS (f + 1)", "double AS (a + 1)", "int AS (a * 1e0)", "int AS (b)",
    "varchar(9) AS (a)", "varchar(20) AS (CONCAT(b, a))", "int AS (b = 'x')", "varchar(9) AS (j ->> '$.a')",
    "char(20) AS (CONCAT(b, ' '))", "varchar(9) AS (IF(a > 0, b, a))", "int AS (m * m * m * m * m * m * m * m * m)",
    "varchar(9) AS (CONCAT(b, '\\n'))", "varchar(9) AS (CONCAT(b, _latin1'x'))", "int AS (LENGTH(b))", "int AS (z + 1)",
]  # fmt: skip


@pytest.mark.parametrize("column", REFUSED)
def test_what_servers_may_compute_in_other_ways_halts_and_shows_the_plain_column(column: str) -> None:
    for dialect in ("mysql", "postgres"):
        with pytest.raises(TargetError, match="column c is computed at the source") as refused:
            runs(f"ALTER TABLE t ADD COLUMN c {column}", dialect)
        assert "it would have run ALTER TABLE" in str(refused.value)
        assert "tidelock copy FEED --table shop.t" in refused.value.hint


@pytest.mark.parametrize("beside", ["MODIFY a bigint", "RENAME COLUMN a TO e", "DROP COLUMN a"])
def test_a_column_that_the_statement_changes_as_well_is_computed_from_by_nobody(beside: str) -> None:
    with pytest.raises(TargetError, match="is computed at the source"):
        runs(f"ALTER TABLE t ADD COLUMN c int AS (a + 1), {beside}", "mysql")


def test_a_column_that_is_there_stays_and_a_default_that_a_crash_has_left_goes() -> None:
    statement = "ALTER TABLE t ADD COLUMN c int AS (a + 1)"
    assert runs(statement, "postgres", TargetColumn("c", "integer")) == []
    assert runs(statement, "mysql", TargetColumn("c", "int")) == []
    assert runs(statement, "mysql", TargetColumn("c", "int", generated=True, default=True)) == []
    left = runs(statement, "mysql", TargetColumn("c", "int", default=True))
    assert left == ["ALTER TABLE `shop`.`t` ALTER COLUMN `c` SET DEFAULT NULL"]


def test_an_index_over_it_is_made_and_a_unique_one_is_left_out() -> None:
    added, _ = runs("ALTER TABLE t ADD COLUMN c int AS (a + 1) UNIQUE, ADD INDEX (c)", "mysql")
    assert "ADD INDEX `c` (`c`)" in added and "UNIQUE" not in added


def test_a_column_that_takes_the_name_of_another_one_is_made_behind_it() -> None:
    made = runs("ALTER TABLE t DROP COLUMN a, ADD COLUMN a int AS (id + 1)", "postgres")
    assert made[0] == 'ALTER TABLE "shop"."t" DROP COLUMN "a"' and "STORED" in made[1]
    with pytest.raises(TargetError, match="gives the name a away and takes it again"):
        runs("ALTER TABLE t DROP COLUMN a, ADD COLUMN a int AS (id + 1)", "mysql")


ROWS = """
INSERT INTO t VALUES (1, 1, 7, 0.125, 'abc', '2026-01-01'), (2, -3, 0, -2.375, 'é ', NULL)
INSERT INTO t VALUES (3, NULL, 1, NULL, NULL, NULL)
INSERT INTO t VALUES (4, 2147483, 9, 99999.999, '', '1999-12-31'), (5, 0, 3, 1.005, 'ABC  ', '2026-02-28')
""".strip().splitlines()
ADDED = """
ALTER TABLE t ADD COLUMN c1 bigint AS (a + u * 2)
ALTER TABLE t ADD COLUMN c2 decimal(12,2) AS (m * 3) STORED, ADD INDEX (c2)
ALTER TABLE t ADD COLUMN c3 int AS (m * 1.5), ADD COLUMN note varchar(9) NOT NULL DEFAULT 'none'
ALTER TABLE t ADD COLUMN c4 tinyint AS (a > 0 OR b IS NULL) VIRTUAL
ALTER TABLE t ADD COLUMN c5 varchar(30) AS (CONCAT(b, '-', IFNULL(b, 'it''s'))) STORED
ALTER TABLE t ADD c6 int AS (CASE WHEN a > 0 THEN 1 WHEN d IS NULL THEN 2 END), ADD c7 int AS (CHAR_LENGTH(b))
""".strip().splitlines()
PAIRS = [("mysql", "postgres"), ("mariadb", "mysql"), ("mysql", "mariadb")]


@pytest.mark.parametrize("pair", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_rows_before_and_behind_are_the_same_at_both_ends(
    pair: tuple[str, str], make_rig: Callable[..., Rig], request: pytest.FixtureRequest
) -> None:
    source, target = (request.getfixturevalue(name) for name in pair)
    rig = make_rig(source, target, "computed", lanes=2)
    rig.table("t", "id int PRIMARY KEY, a int, u int, m decimal(8,3), b varchar(9), d date")
    rig.catch_up()
    process = rig.run()
    rig.at_source(*ROWS)
    for number, statement in enumerate(ADDED, 10):
        rig.at_source(
            f"UPDATE t SET a = {number} WHERE id = 1", statement, f"INSERT INTO t (id, a, b) VALUES ({number}, 5, 'x')",
            f"UPDATE t SET a = -{number}, m = 0.335, b = 'new' WHERE id < 4",
        )  # fmt: skip
    until(lambda: not process.running or rig.equal(), "equal ends", 60)
    assert process.running, rig.said()[-2000:]
    rig.at_target("INSERT INTO t (id) VALUES (99)")
    left = rig.rows(f"SELECT c1, c5, c7 FROM {rig.schema}.t WHERE id = 99")
    assert [tuple(row) for row in left] == [(None, None, None)], "the target has plain columns, without a default"
    rig.at_target("DELETE FROM t WHERE id = 99")
    process.stop()
    rig.assert_exact()
