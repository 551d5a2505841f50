"""Changes that event triggers of a PostgreSQL source tell, as statements at each kind of target: what is still open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.rules import DdlRules
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.hive.run import _is_bare
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.logical.type_changes import changes_values
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable, UniqueKey
from tidelock.engine.model.schema_change import AddedColumn, Ddl, DdlKind, ToldChange, ToldColumn, ToldTable, ToldUnique

T = TableName("public", "t")
INT, BIGINT = (Column("a", Kind.INT, length=size, type=type_) for size, type_ in ((4, "integer"), (8, "bigint")))
TEXT = Column("b", Kind.TEXT, type="text")
TYPES: dict[Dialect, dict[str, str]] = {
    "postgres": {"a": "integer", "b": "text"},
    "mysql": {"a": "int", "b": "longtext"},
}


def table(dialect: Dialect, *uniques: UniqueKey, key: tuple[str, ...] = ("a",), **types: str) -> TargetTable:
    automatic = dialect == "mysql"
    columns = [TargetColumn(name, type_, False) for name, type_ in {**TYPES[dialect], **types}.items()]
    columns[0] = TargetColumn("a", columns[0].type, False, automatic=automatic)
    primary = UniqueKey("PRIMARY" if dialect == "mysql" else "t_pkey", key)
    return TargetTable(T, tuple(columns), key, (primary, *uniques))


def made(
    dialect: Dialect, there: TargetTable | None, told: ToldChange, added: Sequence[AddedColumn] = (), **rules: Any
) -> list[str]:
    kind = DdlKind.CREATE_TABLE if told.made is not None else DdlKind.ALTERED
    ddl = Ddl("", "words", "s:1", 1, kind, (T,), added=tuple(added), told=told)
    tables = {T: there} if there is not None else {}
    return translate(ddl, dialect, lambda name: name, tables, DdlRules(**rules))


WIDER = ToldChange(retyped=((ToldColumn(INT, False), ToldColumn(BIGINT, False)),))
NEW_KEY = ToldChange(rekeyed=(("a",), ("a", "b")))
UNIQUE = ToldChange(uniques=(ToldUnique("", "u", ("b",)),))
OF_NEW = ToldChange(uniques=(ToldUnique("", "u", ("d",)),))
D = AddedColumn(Column("d", Kind.INT, length=4, type="integer"))


@pytest.mark.parametrize(
    ("dialect", "told", "statements"),
    [
        ("postgres", WIDER, ['ALTER TABLE "public"."t" ALTER COLUMN "a" TYPE bigint']),
        ("mysql", WIDER, ["ALTER TABLE `public`.`t` MODIFY COLUMN `a` bigint NOT NULL AUTO_INCREMENT"]),
        (
            "postgres",
            NEW_KEY,
            [
                'ALTER TABLE "public"."t" DROP CONSTRAINT "t_pkey"',
                'ALTER TABLE "public"."t" ADD PRIMARY KEY ("a", "b")',
            ],
        ),
        ("mysql", NEW_KEY, ["ALTER TABLE `public`.`t` DROP PRIMARY KEY, ADD PRIMARY KEY (`a`, `b`)"]),
        ("postgres", UNIQUE, ['ALTER TABLE "public"."t" ADD CONSTRAINT "t_u" UNIQUE ("b")']),
        ("mysql", UNIQUE, []),  # a long text has no index there, and a target that is less strict refuses no row
    ],
)
def test_what_is_open_is_done(dialect: Dialect, told: ToldChange, statements: list[str]) -> None:
    assert made(dialect, table(dialect), told) == statements


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_what_ran_before_is_not_done_again(dialect: Dialect) -> None:
    assert made(dialect, table(dialect, a="bigint"), WIDER) == []
    assert made(dialect, table(dialect, key=("a", "b")), NEW_KEY) == []
    name = "u" if dialect == "mysql" else "t_u"
    assert made(dialect, table(dialect, UniqueKey(name, ("b",)), b="varchar(9)"), UNIQUE) == []
    gone = ToldChange(uniques=(ToldUnique("u", "", ("b",)),))
    assert made(dialect, table(dialect), gone) == []
    with pytest.raises(TargetError, match="neither as"):
        made(dialect, table(dialect, a="smallint"), WIDER)


def test_a_key_of_a_new_column_comes_behind_it() -> None:
    add, key = made("mysql", table("mysql"), OF_NEW, [D])
    assert (add, key) == (
        "ALTER TABLE `public`.`t` ADD COLUMN `d` int NULL",
        "ALTER TABLE `public`.`t` ADD UNIQUE KEY `u` (`d`)",
    )
    assert made("mysql", table("mysql", d="int"), OF_NEW, [D]) == [key], "which ran before the process ended"


NEW = ToldChange(
    made=ToldTable(
        (
            ToldColumn(INT, False),
            ToldColumn(Column("b", Kind.TEXT, length=9, type="character varying(9)")),
            ToldColumn(Column("j", Kind.JSON, type="jsonb")),
            ToldColumn(Column("g", Kind.INT, length=4, type="integer"), expression="(a + 1)"),
        ),
        ("a",),
        (("u", ("b",)),),
    )
)


def test_a_new_table_is_made_as_init_makes_it() -> None:
    (words,) = made("postgres", None, NEW)
    assert '"j" jsonb' in words and 'CONSTRAINT "t_u" UNIQUE ("b")' in words
    assert '"g" integer GENERATED ALWAYS AS ((a + 1)) STORED' in words
    (words,) = made("mysql", None, NEW, mariadb=True)
    assert "`b` varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" in words and "`g`" not in words
    (words,) = made("mysql", None, NEW)
    assert "COLLATE utf8mb4_0900_bin" in words and "`j` json" in words
    long = ToldChange(made=ToldTable((ToldColumn(TEXT, False),), ("b",)))
    with pytest.raises(TargetError, match="too long for an index"):
        made("mysql", None, long)


def test_hive_passes_what_says_only_which_values_rows_may_have() -> None:
    def bare(told: ToldChange) -> bool:
        return _is_bare(Ddl("", "", "s", 1, DdlKind.ALTERED, (T,), told=told))

    assert bare(UNIQUE) and bare(ToldChange(retyped=((ToldColumn(INT, False), ToldColumn(INT)),)))
    assert not bare(WIDER) and not bare(NEW_KEY) and not bare(ToldChange(dropped=("a",)))


def column(type_: str, kind: Kind, **more: int) -> Column:
    return Column("c", kind, type=type_, **more)


NUMERIC = column("numeric(6,2)", Kind.DECIMAL, precision=6, scale=2)
NINE = column("character varying(9)", Kind.TEXT, length=9)
MOMENT = column("timestamp(3) without time zone", Kind.DATETIME, scale=3)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (INT, BIGINT, ""),
        (BIGINT, INT, ""),  # a number that did not fit would have failed the command
        (INT, column("oid", Kind.INT, unsigned=True, length=4), "not told"),
        (INT, column("numeric", Kind.OTHER), ""),
        (NUMERIC, column("numeric(5,2)", Kind.DECIMAL, precision=5, scale=2), ""),
        (NUMERIC, column("numeric(9,1)", Kind.DECIMAL, precision=9, scale=1), "rounded"),
        (INT, column("numeric(3,-2)", Kind.DECIMAL, precision=5), "rounded"),
        (MOMENT, column("timestamp(6) without time zone", Kind.DATETIME, scale=6), ""),
        (MOMENT, column("timestamp(0) without time zone", Kind.DATETIME), "rounded"),
        (MOMENT, column("timestamp(3) with time zone", Kind.TIMESTAMP, scale=3), "not told"),
        (column("real", Kind.FLOAT), column("double precision", Kind.DOUBLE), ""),
        (column("double precision", Kind.DOUBLE), column("real", Kind.FLOAT), "not told"),
        (NINE, TEXT, ""),
        (NINE, column("character varying(8)", Kind.TEXT, length=8), "longer"),
        (TEXT, NINE, "longer"),
        (column("character(9)", Kind.TEXT, length=9), TEXT, "not told"),
        (TEXT, column("character(9)", Kind.TEXT, length=9), "not told"),
        (TEXT, column("citext", Kind.TEXT), "not told"),
        (column("public.mood", Kind.ENUM), TEXT, ""),
        (column("json", Kind.JSON), column("jsonb", Kind.JSON), "not told"),
    ],
)
def test_types_that_leave_values_as_they_are(before: Column, after: Column, reason: str) -> None:
    found = changes_values(before, after)
    assert reason in found and bool(reason) == bool(found)
