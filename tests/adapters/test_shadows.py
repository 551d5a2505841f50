"""Shadow tables as they are known behind each statement, and what an exchange of names becomes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tidelock.adapters.config.feed import TableRule
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.former_tables import moved
from tidelock.adapters.ddl.kept_shadows import Shadows
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ddl.shadows import noted
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.capture.concern import related
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind, FormerTable

T = TableName("shop", "t")
TAKEN = [T, U := TableName("shop", "u")]
MAPPING = Mapping([Rule(str(name), str(name)) for name in TAKEN], "tidelock")
RULES = DdlRules(select=lambda name: TableRule(source=str(name)) if name in TAKEN else None)
SWAP = "RENAME TABLE t TO _t_del, _t_gho TO t"
MADE = "CREATE TABLE _t_gho LIKE t"
ADDED = "ALTER TABLE _t_gho ADD COLUMN d int"
VREPL = "_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_"
COLUMNS = tuple(TargetColumn(name, "int") for name in ("id", "a", "b"))
TABLE = TargetTable(T, COLUMNS, ("id",), (UniqueKey("PRIMARY", ("id",)), UniqueKey("u_ab", ("a", "b"))))


FORM = (
    "(`id` int NOT NULL AUTO_INCREMENT, `a` varchar(9) COLLATE utf8mb4_bin DEFAULT NULL, `b` int DEFAULT 5, "
    "PRIMARY KEY (`id`), UNIQUE KEY `u_ab` (`a`,`b`), KEY `by_b` (`b`)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
)
FORMER = moved(classify(Ddl("shop", f"CREATE TABLE t {FORM}", "", 0), "mysql"), {})[T]
WHOLE = f"CREATE TABLE `shop`.`_t_new` {FORM}"
NEW_SWAP = "RENAME TABLE `t` TO `_t_old`, `_t_new` TO `t`"


def read(statement: str, former: FormerTable | None = FORMER) -> Ddl:
    ddl = replace(classify(Ddl("shop", statement, "0-1", 7), "mysql"), former=former)
    return related(ddl, MAPPING)


def at(*statements: str, dialect: Dialect = "mysql") -> list[str]:
    """Return what the last statement becomes behind the others, which change nothing at the target."""
    shadows: Shadows = {}
    made: list[str] = []
    for statement in statements:
        ddl = read(statement)
        made = [] if ddl.kind is DdlKind.UNRELATED else _translated(ddl, shadows, dialect)
        if ddl.kind is not DdlKind.UNRELATED:
            shadows = noted(ddl, shadows, RULES.takes)
    return [words.replace("`shop`.", "").replace("`", "") for words in made]


def _translated(ddl: Ddl, shadows: Shadows, dialect: Dialect) -> list[str]:
    return translate(ddl, dialect, lambda name: name, {T: TABLE, U: TABLE}, RULES, shadows)


FOLLOWED = {
    "gh-ost": ([MADE, ADDED, SWAP], ["ALTER TABLE t ADD COLUMN d int"]),
    "several statements": (
        [MADE, ADDED, "ALTER TABLE _t_gho DROP INDEX u_ab", SWAP],
        ["ALTER TABLE t ADD COLUMN d int, DROP INDEX u_ab"],
    ),
    "pt-online-schema-change": (
        ["CREATE TABLE __t_new LIKE t", "ALTER TABLE __t_new ADD d int", "RENAME TABLE t TO _t_old, __t_new TO t"],
        ["ALTER TABLE t ADD COLUMN d int"],
    ),
    "a whole CREATE TABLE": ([WHOLE, "ALTER TABLE `_t_new` ADD d int, DROP COLUMN id", NEW_SWAP],
                             ["ALTER TABLE t ADD COLUMN d int, DROP COLUMN id"]),
    "Vitess": (
        [f"CREATE TABLE {VREPL} LIKE t", f"ALTER TABLE {VREPL} ADD d int",
         f"RENAME TABLE t TO s, {VREPL} TO t, s TO {VREPL}"],
        ["ALTER TABLE t ADD COLUMN d int"],
    ),
    "only an index": ([MADE, "ALTER TABLE _t_gho ADD INDEX (a), ENGINE=InnoDB", "ALTER TABLE t ADD INDEX (b)",
                       SWAP], ["ALTER TABLE t ADD INDEX a (a)"]),
    "begun anew": ([MADE, "ALTER TABLE _t_gho DROP a", "DROP TABLE _t_gho", MADE, ADDED, SWAP],
                   ["ALTER TABLE t ADD COLUMN d int"]),
    "made where it is not": ([MADE, ADDED, "CREATE TABLE IF NOT EXISTS _t_gho LIKE t", SWAP],
                             ["ALTER TABLE t ADD COLUMN d int"]),
    "named anew": ([MADE, ADDED, "RENAME TABLE _t_gho TO x", "RENAME TABLE t TO y, x TO t"],
                   ["ALTER TABLE t ADD COLUMN d int"]),
    "another table": ([MADE, ADDED, "ALTER TABLE u ADD COLUMN x int", SWAP], ["ALTER TABLE t ADD COLUMN d int"]),
    "of another": (["CREATE TABLE _x_gho LIKE t", "DROP TABLE IF EXISTS _x_gho"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_an_exchange_is_what_altered_the_shadow(name: str) -> None:
    statements, wanted = FOLLOWED[name]
    assert at(*statements) == wanted


DOUBTED = {
    "not seen": ([SWAP], "has not seen how it was made"),
    "altered alone": ([ADDED, SWAP], "has not seen how it was made"),
    "gone": ([MADE, "DROP TABLE _t_gho", SWAP], "has not seen how it was made"),
    "of another table": (["CREATE TABLE _t_gho LIKE u", SWAP], "in the form of shop.u"),
    "perhaps there before": (["CREATE TABLE IF NOT EXISTS _t_gho LIKE t", SWAP], "may have been there before"),
    "emptied": ([MADE, "TRUNCATE _t_gho", SWAP], "is not understood"),
    "not understood": ([MADE, "ALTER TABLE _t_gho FROBNICATE", SWAP], "is not understood"),
    "its table altered": ([MADE, "ALTER TABLE t ADD x int", SWAP], "was changed itself"),
    "its table emptied": ([MADE, "TRUNCATE t", SWAP], "was changed itself"),
    "used twice": ([MADE, SWAP, SWAP], "has not seen how it was made"),
    "another column": ([WHOLE.replace("`b` int", "`b` bigint"), NEW_SWAP], "made with b bigint, and shop.t had b int"),
    "another collation": ([WHOLE.replace("utf8mb4_bin", "utf8mb4_general_ci"), NEW_SWAP], "made with a varchar"),
    "one column less": ([WHOLE.replace("`b` int DEFAULT 5, ", "").replace(",`b`", "").replace("KEY `by_b` (`b`)",
                         "KEY (`a`)"), NEW_SWAP], "not made with the columns of"),
    "another unique index": ([WHOLE.replace("(`a`,`b`)", "(`a`)"), NEW_SWAP], "unique index over a, which the target"),
    "a unique index of a beginning": ([WHOLE.replace("(`a`,`b`)", "(`a`(4))"), NEW_SWAP], "not of whole columns"),
    "made where it may be": ([WHOLE.replace("TABLE", "TABLE IF NOT EXISTS"), NEW_SWAP], "may have been there before"),
    "a unique index": ([MADE, "ALTER TABLE _t_gho ADD UNIQUE (a)", SWAP], "a unique index is new"),
    "a primary key": ([MADE, "ALTER TABLE _t_gho ADD PRIMARY KEY (a)", SWAP], "a unique index is new"),
    "a part of a key": ([MADE, "ALTER TABLE _t_gho DROP COLUMN b", SWAP], "one of several of unique index u_ab"),
    "a column named anew": ([MADE, "ALTER TABLE _t_gho RENAME COLUMN a TO c", SWAP], "may have left its values"),
    "a column made anew": (
        [MADE, "ALTER TABLE _t_gho DROP COLUMN a", "ALTER TABLE _t_gho ADD COLUMN a int", SWAP], "goes and comes",
    ),
    "the time of its copy": (
        [MADE, "ALTER TABLE _t_gho ADD d datetime DEFAULT CURRENT_TIMESTAMP", SWAP],
        "time at which each row was copied",
    ),
    "another type": ([MADE, "ALTER TABLE _t_gho MODIFY a tinyint", SWAP], "defined anew"),
    "into another of the feed": ([MADE, "RENAME TABLE t TO u, _t_gho TO t"], "did not take so far"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTED)
def test_an_exchange_that_may_change_rows_halts(name: str) -> None:
    statements, why = DOUBTED[name]
    with pytest.raises(TargetError, match=why):
        at(*statements)


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE _x_gho LIKE x", "DROP TABLE _t_del", "CREATE TABLE _t_ghc (id int)", "ALTER TABLE _x_new ADD a int"],
)
def test_what_is_no_shadow_of_the_feeds_says_nothing(statement: str) -> None:
    assert read(statement).kind is DdlKind.UNRELATED


def test_a_whole_create_table_is_no_shadow_where_the_table_is_not_known() -> None:
    shadows = noted(read(WHOLE, former=None), {}, RULES.takes)
    with pytest.raises(TargetError, match=r"how shop\.t was when it was made is not known"):
        _translated(read(NEW_SWAP), shadows, "mysql")


def test_between_sites_nothing_is_noted() -> None:
    """There the exchange itself halts."""
    found = classify(Ddl("shop", MADE, "0-1", 7), "mysql")
    assert related(found, MAPPING, between_sites=True).kind is DdlKind.UNRELATED
