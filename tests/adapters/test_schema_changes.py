"""What schema changes become at a target whose tables are known: what is open runs, what is done does not."""

from __future__ import annotations

import msgspec
import pytest

from tidelock.adapters.config.feed import Columns, TableRule
from tidelock.adapters.config.schema_changes import FeedDdl
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.classify import classify
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ddl.translate import emptied, reshaped, translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.target.told_statements import told
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey, SecondaryIndex, TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import Ddl, DdlKind

T, U = TableName("shop", "t"), TableName("shop", "u")


def read(statement: str) -> Ddl:
    return classify(Ddl("shop", statement, "0-1", 7), "mariadb")


def table(dialect: Dialect, name: TableName = T) -> TargetTable:
    """id, a (unique), b NOT NULL, c with a default; a foreign key over b; a plain index."""
    columns = (
        TargetColumn("id", "integer" if dialect == "postgres" else "int", nullable=False),
        TargetColumn("a", "integer" if dialect == "postgres" else "int"),
        TargetColumn("b", "text", nullable=False),
        TargetColumn("c", "text", default=True),
    )
    primary = "t_pkey" if dialect == "postgres" else "PRIMARY"
    key = ForeignKey("to_u", name, ("b",), U, ("b",))
    uniques = (UniqueKey(primary, ("id",)), UniqueKey("u_a", ("a",)))
    first = "t_first" if dialect == "postgres" else "first"
    return TargetTable(name, columns, ("id",), uniques, (key,), plain_indexes=(SecondaryIndex(first, ("c",)),))


def same(name: TableName) -> TableName:
    return name


def at(dialect: Dialect, statement: str, rules: DdlRules = DdlRules(), *names: TableName) -> list[str]:
    """The statements at a target that has these tables; `t` alone where none is named."""
    ddl = read(statement)
    tables = {name: table(dialect, name) for name in names or (T,)}
    quote = '"' if dialect == "postgres" else "`"
    made = translate(ddl, dialect, same, tables, rules)
    return [words.replace(f"{quote}shop{quote}.", "").replace(quote, "") for words in made]


RENAMED = [
    "ALTER TABLE t RENAME TO u",
    "ALTER INDEX t_pkey RENAME TO u_pkey",
    "ALTER INDEX t_first RENAME TO u_first",
]
OPEN = [
    ("ALTER TABLE t DROP COLUMN A", ["ALTER TABLE t DROP COLUMN a"], ["ALTER TABLE t DROP COLUMN a"]),
    ("ALTER TABLE t DROP zzz", [], []),
    ("ALTER TABLE t RENAME COLUMN a TO d", ["ALTER TABLE t RENAME COLUMN a TO d"], None),
    (
        "ALTER TABLE t DROP a, ADD COLUMN d int NOT NULL, RENAME COLUMN b TO e, COMMENT 'x'",
        [
            "ALTER TABLE t DROP COLUMN a",
            "ALTER TABLE t RENAME COLUMN b TO e",
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS d integer NOT NULL DEFAULT '0'",
        ],
        ["ALTER TABLE t DROP COLUMN a, ADD COLUMN d int NOT NULL DEFAULT '0', RENAME COLUMN b TO e"],
    ),
    ("ALTER TABLE t ADD COLUMN a int, DROP zzz", [], []),
    (
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
        ["ALTER TABLE t DROP CONSTRAINT t_pkey", "ALTER TABLE t ADD PRIMARY KEY (id, b)"],
        ["ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)"],
    ),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id)", [], []),
    ("ALTER TABLE t ADD UNIQUE (b)", ["ALTER TABLE t ADD CONSTRAINT t_b UNIQUE (b)"], None),
    ("CREATE UNIQUE INDEX by_b ON t (b, c) USING BTREE", ["ALTER TABLE t ADD CONSTRAINT t_by_b UNIQUE (b, c)"], None),
    ("ALTER TABLE t ADD UNIQUE u_a (a)", [], []),
    (
        "DROP INDEX u_a ON t",
        ["ALTER TABLE t DROP CONSTRAINT IF EXISTS u_a", "DROP INDEX IF EXISTS u_a"],
        ["ALTER TABLE t DROP INDEX u_a"],
    ),
    ("ALTER TABLE t RENAME INDEX u_a TO v", ["ALTER INDEX u_a RENAME TO t_v"], None),
    ("ALTER TABLE t RENAME INDEX plain TO v, DROP zzz", [], []),
    (
        "ALTER TABLE t DROP FOREIGN KEY to_u",
        ["ALTER TABLE t DROP CONSTRAINT to_u"],
        ["ALTER TABLE t DROP FOREIGN KEY to_u"],
    ),
    ("DROP TABLE t, u", ["DROP TABLE IF EXISTS t, u"], None),
    ("RENAME TABLE t TO u", RENAMED, ["RENAME TABLE t TO u"]),
    ("ALTER TABLE t RENAME u", RENAMED, ["RENAME TABLE t TO u"]),
    ("RENAME TABLE u TO t", [], []),
    ("ALTER TABLE t DROP INDEX first", ["DROP INDEX t_first"], ["ALTER TABLE t DROP INDEX first"]),
    ("ALTER TABLE t RENAME INDEX first TO x", ["ALTER INDEX t_first RENAME TO t_x"], None),
    ("ALTER TABLE t ADD UNIQUE first (b)", ["ALTER TABLE t ADD UNIQUE (b)"], None),
    (
        "ALTER TABLE t ADD INDEX by_ab (a, b(4) DESC), ADD d varchar(9), ADD KEY (d)",
        [
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS d varchar(9)",
            "CREATE INDEX t_by_ab ON t (a, (left(b, 4)) DESC)",
            "CREATE INDEX t_d ON t (d)",
        ],
        ["ALTER TABLE t ADD INDEX by_ab (a, b(4) DESC), ADD COLUMN d varchar(9), ADD INDEX d (d)"],
    ),
    (
        "ALTER TABLE t ADD d int UNIQUE",
        ["ALTER TABLE t ADD COLUMN IF NOT EXISTS d integer", "ALTER TABLE t ADD CONSTRAINT t_d UNIQUE (d)"],
        ["ALTER TABLE t ADD COLUMN d int, ADD UNIQUE KEY d (d)"],
    ),
    ("CREATE INDEX first ON t (a) COMMENT 'x' LOCK=NONE", [], []),
    ("ALTER TABLE t ADD INDEX (a)", ["CREATE INDEX t_a ON t (a)"], ["ALTER TABLE t ADD INDEX a (a)"]),
    ("CREATE INDEX u_a ON t (b(3))", [], []),
    (
        "ALTER TABLE t DROP INDEX first, ADD INDEX first (a)",
        ["DROP INDEX t_first", "CREATE INDEX t_first ON t (a)"],
        ["ALTER TABLE t DROP INDEX first, ADD INDEX first (a)"],
    ),
    (
        "ALTER TABLE t RENAME INDEX first TO x, ADD INDEX first (a)",
        ["ALTER INDEX t_first RENAME TO t_x", "CREATE INDEX t_first ON t (a)"],
        ["ALTER TABLE t RENAME INDEX first TO x, ADD INDEX first (a)"],
    ),
    ("ALTER TABLE t RENAME INDEX x TO first, DROP INDEX first", [], []),
    ("CREATE FULLTEXT INDEX words ON t (b, c)", [], ["ALTER TABLE t ADD FULLTEXT INDEX words (b, c)"]),
    ("ALTER TABLE t ALTER a SET DEFAULT -5", [], ["ALTER TABLE t ALTER COLUMN a SET DEFAULT '-5'"]),
    ("ALTER TABLE t ALTER COLUMN b SET DEFAULT 'x'", [], ["ALTER TABLE t ALTER COLUMN b SET DEFAULT ('x')"]),
    (
        "ALTER TABLE t RENAME COLUMN a TO d, ALTER a DROP DEFAULT",
        ["ALTER TABLE t ALTER COLUMN a DROP DEFAULT", "ALTER TABLE t RENAME COLUMN a TO d"],
        ["ALTER TABLE t RENAME COLUMN a TO d, ALTER COLUMN a DROP DEFAULT"],
    ),
    ("RENAME TABLE IF EXISTS x TO y", [], []),
    ("ALTER TABLE IF EXISTS x RENAME y", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "postgres", "mysql"), OPEN, ids=[one[0] for one in OPEN])
def test_what_is_open_runs(statement: str, postgres: list[str], mysql: list[str] | None) -> None:
    assert read(statement).kind is DdlKind.ALTERED
    assert at("postgres", statement) == postgres
    if mysql is not None:
        assert at("mysql", statement) == mysql


def test_a_table_made_like_another_has_indexes_of_its_own_name() -> None:
    made = at("postgres", "CREATE TABLE v LIKE t")
    assert made[0] == "CREATE TABLE v (LIKE t INCLUDING ALL)"
    assert "ALTER INDEX" in made[1]
    assert at("mysql", "CREATE TABLE v LIKE t") == ["CREATE TABLE IF NOT EXISTS v LIKE t"]
    assert at("postgres", "CREATE TABLE t LIKE u", DdlRules(), T, U) == []


def test_names_that_go_round_run_where_a_transaction_holds_them() -> None:
    """MySQL commits a statement before anybody notes it: whether it ran shows in the names alone."""
    swap = "RENAME TABLE t TO x, u TO t, x TO u"
    made = at("postgres", swap, DdlRules(), T, U)
    assert [words for words in made if "TABLE" in words] == [
        "ALTER TABLE t RENAME TO x", "ALTER TABLE u RENAME TO t", "ALTER TABLE x RENAME TO u",
    ]  # fmt: skip
    assert [words for words in made if "first" in words] == [
        "ALTER INDEX t_first RENAME TO x_first", "ALTER INDEX x_first RENAME TO u_first",
    ]  # fmt: skip
    with pytest.raises(TargetError, match="exchanges names"):
        at("mysql", swap, DdlRules(), T, U)
    ghost = "RENAME TABLE t TO _t_old, u TO t"
    assert at("mysql", ghost, DdlRules(), T, U) == ["RENAME TABLE t TO _t_old, u TO t"]
    assert at("mysql", ghost, DdlRules(), T, TableName("shop", "_t_old")) == []
    with pytest.raises(TargetError, match=r"the target has shop\.t: RENAME"):
        at("mysql", ghost)
    again = "ALTER TABLE t DROP a, ADD a int"
    assert at("postgres", again) == [
        "ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN IF NOT EXISTS a integer",
    ]  # fmt: skip
    with pytest.raises(TargetError, match="gives the name a away"):
        at("mysql", again)


HALTS = [
    ("ALTER TABLE t RENAME COLUMN a TO b", "both of a and b"),
    ("ALTER TABLE t RENAME COLUMN x TO y", "neither of x and y"),
    ("ALTER TABLE t ADD COLUMN a varchar(9), DROP b", "has a already"),
    ("ALTER TABLE t DROP FOREIGN KEY other", "foreign key to_u may be"),
    ("ALTER TABLE u DROP COLUMN a", r"no table shop\.u"),
    ("RENAME TABLE x TO y", "none of them"),
    ("CREATE TABLE v LIKE x", r"no table shop\.x"),
    ("ALTER TABLE t RENAME INDEX a TO b, RENAME INDEX b TO a", "gives the name b of an index away"),
]


@pytest.mark.parametrize(("statement", "why"), HALTS, ids=[one[0] for one in HALTS])
@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_what_cannot_be_told_halts(statement: str, why: str, dialect: Dialect) -> None:
    with pytest.raises(TargetError, match=why) as refused:
        at(dialect, statement)
    assert statement in str(refused.value)


def test_an_index_of_another_name_may_be_the_one() -> None:
    """PostgreSQL chose the names of the unique indexes that `init` made."""
    with pytest.raises(TargetError, match="unique index u_a may be what it drops"):
        at("postgres", "DROP INDEX by_a ON t")
    assert at("mysql", "DROP INDEX by_a ON t") == []


def test_a_unique_index_may_stand_for_the_primary_key_that_is_dropped() -> None:
    """Or it may not, and has another one in the source's table: there the primary key is dropped already."""
    statement = "ALTER TABLE t DROP PRIMARY KEY"
    keyed = table("postgres")
    unkeyed = msgspec.structs.replace(keyed, key=("a",), uniques=(UniqueKey("t_first", ("a",)),), primary="")
    with pytest.raises(TargetError, match="unique index t_first may stand for it"):
        translate(read(statement), "postgres", same, {T: unkeyed})
    bare = msgspec.structs.replace(unkeyed, key=(), uniques=())
    assert translate(read(statement), "postgres", same, {T: bare}) == []
    named = msgspec.structs.replace(keyed, primary=keyed.uniques[0].name)
    assert translate(read(statement), "postgres", same, {T: named}) == [
        f'ALTER TABLE "shop"."t" DROP CONSTRAINT "{keyed.uniques[0].name}"'
    ]


def test_a_numbered_index_may_be_one_that_a_statement_did_not_name() -> None:
    """Where a plain index over `a` is there, the source names a unique one `a_2`; the target, without it, `a`."""
    unnamed = msgspec.structs.replace(table("mysql"), uniques=(UniqueKey("PRIMARY", ("id",)), UniqueKey("a", ("a",))))
    for statement in ("DROP INDEX a_2 ON t", "ALTER TABLE t RENAME INDEX A_2 TO v"):
        with pytest.raises(TargetError, match="unique index a may be what it"):
            translate(read(statement), "mysql", same, {T: unnamed})
    assert translate(read("DROP INDEX b_2 ON t"), "mysql", same, {T: unnamed}) == []


def test_an_index_does_not_take_the_name_of_a_table() -> None:
    """PostgreSQL has one namespace for both, and makes no table over an index, without an error."""
    ddl = read("CREATE TABLE t (id int PRIMARY KEY, u int, UNIQUE KEY u (u))")
    for names, word in (((T, U), 'CONSTRAINT "t_u" UNIQUE ("u")'), ((T, TableName("shop", "t_u")), '\n  UNIQUE ("u")')):
        (made,) = translate(ddl, "postgres", same, {name: table("postgres", name) for name in names})
        assert word in made


def test_sites_are_told_of_no_table_that_is_left_out() -> None:
    ddl = msgspec.structs.replace(read("CREATE TABLE v (id int PRIMARY KEY)"), path=("eu",))
    left_out = translate(ddl, "postgres", same, {}, of(FeedDdl(create_table="skip")))
    assert told(ddl, same, translate(ddl, "postgres", same), "back")[1:]
    assert told(ddl, same, left_out, "back") == []


@pytest.mark.parametrize("clause", ["DROP CONSTRAINT small", "DROP CHECK Small", "ALTER CHECK small NOT ENFORCED"])
@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_a_check_goes_at_a_target_that_has_it(clause: str, dialect: Dialect) -> None:
    """`init` makes CHECKs too, by the source's names."""
    bare = msgspec.structs.replace(table(dialect), uniques=table(dialect).uniques[:1], foreign_keys=())
    ddl = read(f"ALTER TABLE t {clause}")
    assert translate(ddl, dialect, same, {T: bare}) == []
    (made,) = translate(ddl, dialect, same, {T: msgspec.structs.replace(table(dialect), checks=("small",))})
    assert made.replace('"', "").replace("`", "") == "ALTER TABLE shop.t DROP CONSTRAINT small"
    assert read("ALTER TABLE t ALTER CHECK small ENFORCED").kind is DdlKind.UNRELATED


WITHOUT = [
    ("CREATE INDEX i ON t (b)", "postgres", "i of shop.t: a row may have more bytes in it than PostgreSQL takes"),
    ("CREATE INDEX i ON t (b)", "mysql", "b as text, of which it indexes a beginning alone"),
    ("CREATE INDEX i ON t (b(800))", "mysql", "longer at the target than an index takes"),
    ("CREATE INDEX i ON t (a(4))", "mysql", "a as int, which has no beginning"),
    ("CREATE INDEX i ON t (a(4))", "postgres", "a as integer, whose beginning is no key there"),
    ("CREATE INDEX i ON t ((a + 1))", "mysql", "it is over an expression"),
    ("CREATE INDEX i ON t (x)", "postgres", "the target has no column x"),
    ("CREATE SPATIAL INDEX i ON t (a)", "mysql", "not a geometry there"),
    ("ALTER TABLE t ADD FULLTEXT KEY i (b)", "postgres", "PostgreSQL has no FULLTEXT index"),
    ("ALTER TABLE t ALTER a SET DEFAULT (1 + 1)", "mysql", "an expression is not constant"),
    ("ALTER TABLE t ALTER a SET DEFAULT 5", "postgres", "the column's type at the source is not known"),
]


@pytest.mark.parametrize(("statement", "dialect", "why"), WITHOUT, ids=[f"{one[1]} {one[0]}" for one in WITHOUT])
def test_what_the_target_goes_without_is_said(statement: str, dialect: Dialect, why: str) -> None:
    """No row depends on it, so it halts no feed; a target that is stricter than its source would refuse rows."""
    said: list[str] = []
    assert at(dialect, statement, DdlRules(say=said.append)) == []
    assert why in "".join(said)


def test_a_column_gets_the_moment_where_the_log_tells_it() -> None:
    ddl = read("ALTER TABLE t ADD s timestamp DEFAULT CURRENT_TIMESTAMP, ADD d datetime NOT NULL DEFAULT now()")
    ddl = msgspec.structs.replace(ddl, moment_us=1_700_000_000_000_000, zone="-03:30")
    there = {T: table("postgres")}
    made = translate(ddl, "postgres", same, {T: table("postgres")})
    assert [words.partition("\"t\" ")[2] for words in made] == [
        "ADD COLUMN IF NOT EXISTS \"s\" timestamptz(0) DEFAULT '2023-11-14 22:13:20+00'",
        "ADD COLUMN IF NOT EXISTS \"d\" timestamp(0) NOT NULL DEFAULT '2023-11-14 18:43:20'",
        'ALTER COLUMN "s" SET DEFAULT CURRENT_TIMESTAMP(0)', 'ALTER COLUMN "d" SET DEFAULT LOCALTIMESTAMP(0)',
    ]  # fmt: skip
    made = translate(ddl, "mysql", same, {T: table("mysql")})
    assert [words.partition("`t` ")[2] for words in made] == [
        ("ADD COLUMN `s` timestamp NULL DEFAULT '2023-11-14 22:13:20', "
         "ADD COLUMN `d` datetime NOT NULL DEFAULT '2023-11-14 18:43:20'"),
        "ALTER COLUMN `s` SET DEFAULT (CURRENT_TIMESTAMP)", "ALTER COLUMN `d` SET DEFAULT (CURRENT_TIMESTAMP)",
    ]  # fmt: skip
    for lacking in ({"moment_us": None}, {"zone": "SYSTEM"}, {"zone": ""}):
        with pytest.raises(TargetError, match=r"is not known|time zone"):
            translate(msgspec.structs.replace(ddl, **lacking), "postgres", same, there)
    stated = msgspec.structs.replace(ddl, statement=f"SET STATEMENT timestamp=5 FOR {ddl.statement}")
    with pytest.raises(TargetError, match="is not known"):
        translate(stated, "postgres", same, there)


def test_no_row_depends_on_an_index_or_a_default() -> None:
    """So between sites such a statement passes, and failed rows of the table do not stand in its way."""
    for statement in ("CREATE INDEX i ON t (a)", "ALTER TABLE t ADD KEY (a), ALTER b DROP DEFAULT, COMMENT 'x'"):
        assert read(statement).optional
        assert reshaped(read(statement), same) == ()
    for statement in ("ALTER TABLE t ADD KEY (a), DROP c", "DROP INDEX i ON t", "RENAME TABLE t TO u"):
        assert not read(statement).optional
        assert T in reshaped(read(statement), same)


def test_what_ran_once_of_indexes_is_not_taken_back() -> None:
    """As after a crash between the statement and the note that it ran, at a server that commits it at once."""
    rename = "ALTER TABLE t RENAME INDEX first TO x, ADD INDEX first (a)"
    drop = "ALTER TABLE t DROP INDEX x, RENAME INDEX first TO x"
    both = tuple(SecondaryIndex(name) for name in ("first", "x"))
    for statement, indexes in ((rename, both), (drop, both[1:])):
        there = {T: msgspec.structs.replace(table("mysql"), plain_indexes=indexes)}
        assert translate(read(statement), "mysql", same, there) == [], statement
    unnamed = {T: msgspec.structs.replace(table("mysql"), plain_indexes=(SecondaryIndex("a", ("a", "b(4)")),))}
    assert translate(read("ALTER TABLE t ADD INDEX (a, b(4))"), "mysql", same, unnamed) == []
    (made,) = translate(read("ALTER TABLE t ADD INDEX (a)"), "mysql", same, unnamed)
    assert made.endswith("ADD INDEX `a_2` (`a`)")


def of(ddl: FeedDdl = FeedDdl(), **rule: object) -> DdlRules:
    made = TableRule(source="shop.*", **rule)  # type: ignore[arg-type]
    return DdlRules(ddl, lambda name: made)


def test_columns_have_their_names_at_the_target_and_those_left_out_stay_out() -> None:
    rules = of(columns=Columns(exclude=("d",), rename={"x": "a"}))
    assert at("mysql", "ALTER TABLE t DROP d", rules) == []
    assert at("mysql", "ALTER TABLE t ADD d int", rules) == []
    assert at("mysql", "ALTER TABLE t ADD d int, ADD x int", rules) == ["ALTER TABLE t ADD COLUMN a int"]
    assert at("mysql", "ALTER TABLE t ADD UNIQUE (d)", rules) == []
    (made,) = at("mysql", "CREATE TABLE v (id int PRIMARY KEY, x int UNIQUE, d int)", rules)
    assert "  a int" in made and "  d " not in made and "UNIQUE KEY x (a)" in made
    for statement in ("ALTER TABLE t RENAME COLUMN x TO y", "ALTER TABLE t RENAME COLUMN b TO d"):
        with pytest.raises(TargetError, match="its `tables` must change with it"):
            at("mysql", statement, rules)
    with pytest.raises(TargetError, match="the feed names column a"):
        at("postgres", "ALTER TABLE t DROP a", of(where="A > 5"))
    with pytest.raises(TargetError, match="leaves out column d"):
        at("postgres", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (d)", rules)


POLICIES = [
    ("CREATE TABLE v (id int)", "create_table"), ("CREATE TABLE v LIKE t", "create_table"),
    ("DROP TABLE t", "drop_table"), ("RENAME TABLE t TO u", "rename_table"), ("TRUNCATE t", "truncate"),
    ("ALTER TABLE t ADD d int", "add_column"), ("ALTER TABLE t DROP a", "drop_column"),
    ("ALTER TABLE t RENAME COLUMN a TO d", "rename_column"), ("ALTER TABLE t ADD UNIQUE (b)", "keys"),
    ("CREATE INDEX i ON t (a)", "indexes"), ("ALTER TABLE t ALTER a DROP DEFAULT", "set_default"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "kind"), POLICIES, ids=[one[0] for one in POLICIES])
def test_the_feed_says_what_becomes_of_a_kind(statement: str, kind: str) -> None:
    halting, skipping = (of(FeedDdl(**{kind: policy})) for policy in ("halt", "skip"))
    others = of(FeedDdl(default="halt", **{kind: "apply"}))
    assert at("postgres", statement, others)
    assert at("postgres", statement, skipping) == []
    with pytest.raises(TargetError, match=f"says `halt` for {kind}"):
        at("postgres", statement, halting)


def test_lenient_drops_nothing_at_the_target() -> None:
    lenient = of(FeedDdl(default="lenient"))
    for statement in ("DROP TABLE t", "ALTER TABLE t DROP a, DROP c"):
        assert at("postgres", statement, lenient) == []
    assert at("postgres", "ALTER TABLE t ADD d int, DROP a", lenient) == [
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS d integer"
    ]
    for statement, why in (
        ("ALTER TABLE t DROP b", "takes no rows without a value"),
        ("ALTER TABLE t DROP id", "takes no rows without a value"),
        ("CREATE TABLE t (id int)", "its rows would be of both"),
    ):
        with pytest.raises(TargetError, match=why):
            at("postgres", statement, lenient)
    assert emptied(read("DROP TABLE t"), same, lenient) == ()
    assert emptied(read("DROP TABLE t"), same) == (T,)
    assert emptied(read("TRUNCATE t"), same, of(FeedDdl(truncate="skip"))) == ()
