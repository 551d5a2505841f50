"""Another definition of a column: whether values may change, by the type of before, and what the target runs then."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidelock.adapters.app.ddl_plan import PlannedStatement, ddl_plan
from tidelock.adapters.config.loader import read
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.conversions import STRICT_MODE, changes_values
from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.ddl.operations import AlterTable, ChangeColumn
from tidelock.adapters.ddl.statement import operations
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable

T = TableName("shop", "t")
PAD = 1 << 31

# old type, new definition: whether the values certainly stay in strict mode, and without it
JUDGED = [
    ("int", "bigint", True, True),
    ("int", "int unsigned", True, False),
    ("int unsigned", "bigint", True, True),
    ("bigint", "smallint", True, False),
    ("int", "decimal(10,2)", True, False),
    ("int", "decimal(12,2)", True, True),
    ("decimal(6,2)", "decimal(8,4)", True, True),
    ("decimal(6,2)", "decimal(6,4)", True, False),
    ("decimal(6,2)", "decimal(9,1)", False, False),
    ("decimal(6,2)", "int", False, False),
    ("decimal(6,0)", "int", True, True),
    ("float", "double", True, True),
    ("double", "float", False, False),
    ("int", "double", False, False),
    ("varchar(10)", "varchar(20)", True, True),
    ("varchar(20)", "varchar(10)", False, False),
    ("char(10)", "varchar(10)", True, True),
    ("char(10)", "char(5)", True, False),
    ("varchar(10)", "char(10)", False, False),
    ("varchar(100)", "text", True, True),
    ("varchar(20000)", "tinytext", False, False),
    ("tinytext", "varchar(255)", True, True),
    ("text", "mediumtext", True, True),
    ("text", "varchar(9000)", False, False),
    ("text CHARACTER SET latin1", "text CHARACTER SET utf8mb4", False, False),
    ("text CHARACTER SET latin1", "mediumtext CHARACTER SET utf8mb4", True, True),
    ("varchar(9) CHARACTER SET latin1", "varchar(9) CHARACTER SET utf8mb4", True, True),
    ("varchar(9) CHARACTER SET utf8mb4", "varchar(9) CHARACTER SET latin1", False, False),
    ("varchar(9) CHARACTER SET utf8mb4", "varchar(9)", False, False),
    ("varchar(9) CHARACTER SET utf16", "varchar(9) CHARACTER SET utf8mb3", False, False),
    ("varchar(9) COLLATE utf8mb4_bin", "varchar(9) COLLATE utf8mb4_general_ci", True, True),
    ("enum('a','b')", "enum('a','b','c')", True, True),
    ("enum('a','b')", "enum('b','a')", False, False),
    ("enum('a','b')", "enum('a')", False, False),
    ("enum('a','bcd')", "varchar(3)", True, True),
    ("enum('a','bcd')", "varchar(2)", False, False),
    ("varchar(3)", "enum('a')", False, False),
    ("set('a','b')", "set('a','b','c')", True, True),
    ("datetime", "datetime(3)", True, True),
    ("datetime(3)", "datetime", False, False),
    ("timestamp NULL", "timestamp(6) NULL", True, True),
    ("timestamp NULL", "datetime", False, False),
    ("datetime", "timestamp NULL", False, False),
    ("date", "datetime", True, True),
    ("datetime", "date", False, False),
    ("time", "time(2)", True, True),
    ("varbinary(9)", "varbinary(10)", True, True),
    ("binary(9)", "binary(10)", False, False),
    ("binary(9)", "varbinary(9)", True, True),
    ("blob", "longblob", True, True),
    ("blob", "varbinary(9)", False, False),
    ("bit(4)", "bit(9)", True, True),
    ("int", "int NOT NULL", True, False),
    ("int NOT NULL", "bigint NOT NULL", True, True),
    ("timestamp NULL", "timestamp NOT NULL", False, False),
    ("int", "varchar(20)", False, False),
    ("json", "json", True, True),
    ("json", "longtext", False, False),
]


def before(columns: str) -> FormerTable:
    found = moved(classify(Ddl("shop", f"CREATE TABLE t ({columns})", "0-1", 6), "mariadb"), {})[T]
    assert found is not None
    return found


def clause(definition: str) -> ChangeColumn:
    (alter,) = operations(Ddl("shop", f"ALTER TABLE t MODIFY {definition}", "0-1", 7))
    assert isinstance(alter, AlterTable)
    (made,) = alter.clauses
    assert isinstance(made, ChangeColumn)
    return made


@pytest.mark.parametrize(("old", "new", "strict", "loose"), JUDGED, ids=[f"{o} → {n}" for o, n, *_ in JUDGED])
def test_whether_values_may_change(old: str, new: str, strict: bool, loose: bool) -> None:
    table, change = before(f"id int PRIMARY KEY, c {old}"), clause(f"c {new}")
    reasons = [changes_values(table, table.columns[1], change.new, mode) for mode in (STRICT_MODE, 0)]
    assert [not reason for reason in reasons] == [strict, loose], reasons


def test_a_char_may_get_spaces_and_a_generated_column_another_value() -> None:
    table = before("id int PRIMARY KEY, c char(4), d int")
    c, d = table.columns[1:]
    for mode in (None, STRICT_MODE | PAD):
        assert "PAD_CHAR" in changes_values(table, c, clause("c varchar(9)").new, mode)
    computed = msgspec.structs.replace(
        table, columns=(*table.columns, msgspec.structs.replace(d, column=clause("g int").new.column, generated=True))
    )
    assert not changes_values(computed, d, clause("d bigint").new, STRICT_MODE)
    assert "column g" in changes_values(computed, d, clause("d decimal(20,2)").new, STRICT_MODE)


FEED = "feed: f\nsource: mariadb://u:p@source:1\ntarget: {}\ntables: [{{source: shop.*}}]\n"
SOURCE = (
    "CREATE TABLE t (id int PRIMARY KEY AUTO_INCREMENT, a int NOT NULL, b varchar(9), c enum('x','y'), "
    "e char(4) CHARACTER SET ascii, f bit(3), UNIQUE KEY by_a (a)) CHARSET latin1;\n"
)


def planned(statement: str, target: str) -> PlannedStatement:
    url = {"mysql": "mysql://u:p@target:1", "postgres": "postgresql://u:p@target:1/d"}[target]
    return ddl_plan(SOURCE + statement, read(FEED.format(url), Path("feed.yaml")))[-1]


RUNS = [
    ("MODIFY b varchar(20) NULL DEFAULT 'it''s' COMMENT 'x'",
     ["MODIFY COLUMN b varchar(20) NULL DEFAULT 'it''s' COMMENT 'x'"], ["ALTER COLUMN b TYPE varchar(20)"]),
    ("MODIFY a bigint FIRST", ["MODIFY COLUMN a bigint NULL FIRST"],
     ["ALTER COLUMN a TYPE bigint", "ALTER COLUMN a DROP NOT NULL"]),
    ("MODIFY b varchar(9) NOT NULL AFTER id", ["MODIFY COLUMN b varchar(9) NOT NULL AFTER id"],
     ["ALTER COLUMN b SET NOT NULL"]),
    ("MODIFY id bigint unsigned AUTO_INCREMENT", ["MODIFY COLUMN id bigint unsigned NOT NULL AUTO_INCREMENT"],
     ["ALTER COLUMN id TYPE numeric(20)"]),
    ("CHANGE a d bigint NOT NULL", ["CHANGE COLUMN a d bigint NOT NULL"],
     ["RENAME COLUMN a TO d", "ALTER COLUMN d TYPE bigint"]),
    ("MODIFY c enum('x','y','z')", ["MODIFY COLUMN c enum('x','y','z') NULL"], ["DROP CONSTRAINT IF EXISTS t_c_label"]),
    ("MODIFY e varchar(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
     ["MODIFY COLUMN e varchar(4) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL"], []),
    ("MODIFY b varchar(9) DEFAULT 'x'", [], []),
    ("ALTER COLUMN b SET DEFAULT 'x'", ["ALTER COLUMN b SET DEFAULT 'x'"], ["ALTER COLUMN b SET DEFAULT 'x'"]),
    ("ALTER a SET DEFAULT NULL", ["ALTER COLUMN a SET DEFAULT NULL"], ["ALTER COLUMN a SET DEFAULT NULL"]),
    ("ALTER a SET DEFAULT 5.5", ["ALTER COLUMN a SET DEFAULT '5.5'"], []),
    ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
     ["CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"], []),
    ("DROP b, MODIFY a bigint NOT NULL", ["DROP COLUMN b, MODIFY COLUMN a bigint NOT NULL"],
     ["DROP COLUMN b", "ALTER COLUMN a TYPE bigint"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "mysql", "postgres"), RUNS, ids=[one[0] for one in RUNS])
def test_what_the_target_runs(words: str, mysql: list[str], postgres: list[str]) -> None:
    for target, wanted in (("mysql", mysql), ("postgres", postgres)):
        quote = "`" if target == "mysql" else '"'
        made = planned(f"ALTER TABLE t {words}", target)
        assert made.outcome in ("applied", "translated", "passed"), made.why
        runs = [run.replace(quote, "").removeprefix("ALTER TABLE shop.t ") for run in made.runs]
        assert runs == wanted


REFUSED = [
    ("MODIFY b varchar(5)", "texts may be longer", "varchar(5)"),
    ("MODIFY a int NOT NULL AUTO_INCREMENT", "numbers are given", ""),
    ("MODIFY a timestamp", "TIMESTAMP without NULL", "timestamp"),
    ("CONVERT TO CHARACTER SET latin2", "column b: latin2 may lack", ""),
    ("MODIFY a int UNIQUE", "it makes a key as well", ""),
    ("MODIFY zz int", "has no column zz", ""),
]


@pytest.mark.parametrize(("words", "why", "would"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_halts_says_why_and_what_it_would_have_run(words: str, why: str, would: str) -> None:
    for target in ("mysql", "postgres"):
        made = planned(f"ALTER TABLE t {words}", target)
        assert made.outcome == "halts" and why in made.why, made.why
        assert not would or f"{would}" in made.why.partition("it would have run ")[2]
    assert planned("ALTER TABLE t MODIFY f bit(9)", "mysql").outcome == "applied"
    assert "at the other end" in planned("ALTER TABLE t MODIFY f bit(9)", "postgres").why
    unknown = planned("ALTER TABLE u MODIFY a bigint", "mysql")
    assert unknown.outcome == "halts" and "before is not known" in unknown.why
    assert "`tidelock copy FEED --table shop.u`" in unknown.why


def at_target(type_: str, statement: str, collation: str = "") -> list[str]:
    """Return what runs at a MySQL target whose column has this type already."""
    columns = (TargetColumn("id", "int", nullable=False), TargetColumn("b", type_, collation=collation))
    table = TargetTable(T, columns, ("id",), (UniqueKey("PRIMARY", ("id",)),))
    ddl = classify(Ddl("shop", f"ALTER TABLE t {statement}", "0-1", 7, sql_mode=STRICT_MODE), "mysql")
    assert ddl.kind is DdlKind.ALTERED
    former = before("id int PRIMARY KEY, b varchar(9)")
    return translate(msgspec.structs.replace(ddl, former=former), "mysql", lambda name: name, {T: table})


def test_what_ran_is_done_and_a_type_of_the_targets_own_stays() -> None:
    (made,) = at_target("varchar(9)", "MODIFY b varchar(20)", "utf8mb3_bin")
    assert made.endswith("MODIFY COLUMN `b` varchar(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_bin NULL"), made
    assert at_target("varchar(20)", "MODIFY b varchar(20)") == []
    assert at_target("longtext", "MODIFY b varchar(20)") == []
    with pytest.raises(TargetError, match=r"has b as varchar\(15\), neither as varchar\(9\) nor as varchar\(20\)"):
        at_target("varchar(15)", "MODIFY b varchar(20)")
    assert at_target("varchar(9)", "MODIFY b varchar(9) AFTER id") == []
    with pytest.raises(TargetError, match="neither of x and y"):
        at_target("varchar(9)", "CHANGE x y int")


@pytest.mark.parametrize(
    ("type_", "new", "would"),
    [("bytea", "varbinary(9)", ""), ("text", "varchar(9)", ""), ("bigint", "int", ""), ("smallint", "int", "integer")],
)
def test_a_halt_shows_no_other_type_where_the_target_has_one_that_holds_all(type_: str, new: str, would: str) -> None:
    """The type of before is not known, as at the beginning of a feed."""
    columns = (TargetColumn("id", "integer", nullable=False), TargetColumn("b", type_))
    table = TargetTable(T, columns, ("id",), (UniqueKey("t_pkey", ("id",)),))
    ddl = classify(Ddl("shop", f"ALTER TABLE t MODIFY b {new}", "0-1", 7, sql_mode=STRICT_MODE), "mysql")
    with pytest.raises(TargetError, match="before is not known") as halted:
        translate(ddl, "postgres", lambda name: name, {T: table})
    assert (f'"b" TYPE {would}' in str(halted.value)) if would else ("would have run" not in str(halted.value))


KNOWN = "id int PRIMARY KEY, a varchar(9), b int"
MOVED = [
    ("ALTER TABLE t ADD d int, DROP b", "id a d"),
    ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int", "id a b"),
    ("ALTER TABLE t CHANGE a d bigint, COMMENT 'x'", "id d b"),
    ("ALTER TABLE t RENAME COLUMN a TO d, ADD UNIQUE (b)", "id d b"),
    ("CREATE TABLE IF NOT EXISTS t (z int)", "id a b"),
    ("TRUNCATE t", "id a b"),
    ("CREATE INDEX i ON t (a)", "id a b"),
    ("ALTER TABLE t DEFAULT CHARACTER SET utf8mb4", None),
    ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", None),
    ("ALTER TABLE t ADD d int AS (b + 1)", "id a b d"),
    ("ALTER TABLE t /*!80000 ADD d int */", "id a b d"),  # a server logs what it has not run without the mark
    ("DROP TABLE t", None),
    ("DROP DATABASE shop", None),
    ("not a statement at all", None),
]


@pytest.mark.parametrize(("statement", "columns"), MOVED, ids=[one[0] for one in MOVED])
def test_a_table_is_moved_forward_or_not_known_any_more(statement: str, columns: str | None) -> None:
    known = {T: before(KNOWN)}
    behind = {**known, **moved(classify(Ddl("shop", statement, "0-1", 7), "mariadb"), known)}[T]
    assert (behind and " ".join(one.column.name for one in behind.columns)) == columns


def test_a_table_takes_its_form_to_another_name_and_gives_it_to_another() -> None:
    known, u, v = {T: before(KNOWN)}, TableName("shop", "u"), TableName("shop", "v")
    made = moved(classify(Ddl("shop", "RENAME TABLE t TO u, u TO v", "0-1", 7), "mariadb"), known)
    assert made == {T: None, u: None, v: known[T]}
    assert moved(classify(Ddl("shop", "CREATE TABLE u LIKE t", "0-1", 7), "mariadb"), known) == {u: known[T]}
