"""Foreign keys that `init` makes: those that a copy needs out of its way, those that the target cannot hold."""

from __future__ import annotations

from msgspec.structs import replace

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.definition import Default, Definition
from tidelock.adapters.schema.computed import with_computed
from tidelock.adapters.schema.defaults import translated
from tidelock.adapters.schema.foreign_keys import Keys, PlannedKey, foreign_keys, is_there, waiting
from tidelock.adapters.schema.not_made import parts_not_made
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import Equality, ForeignKey, UniqueKey


def name(table: str) -> TableName:
    return TableName("shop", table)


def key(child: str, parent: str, *, acts: bool = False) -> PlannedKey:
    made = ForeignKey(f"{child}_{parent}", name(child), (parent,), name(parent), ("id",))
    return PlannedKey(made, "", acts)


def waits(*keys: PlannedKey, all_may: bool = False) -> list[str]:
    return [one.key.name for one in waiting(keys, all_may=all_may)]


def test_one_key_of_a_cycle_waits_for_copied_rows() -> None:
    assert waits(key("store", "staff"), key("staff", "store"), key("staff", "staff")) == ["staff_store"]
    assert waits(key("a", "b"), key("b", "c"), key("c", "a"), key("d", "a")) == ["c_a"]
    assert waits(key("a", "b"), key("a", "c"), key("b", "c")) == []


def test_a_key_that_acts_on_rows_waits_only_where_the_log_has_them() -> None:
    keys = key("a", "b"), key("b", "a", acts=True)
    assert waits(*keys) == ["a_b"]
    assert waits(*keys, all_may=True) == ["b_a"]
    assert waits(key("a", "b", acts=True), key("b", "a", acts=True)) == []


TEXT = Column("code", Kind.TEXT, length=3, charset="utf8mb4")


def texts(kind: str, equality: Equality, dialect: Dialect = "postgres") -> Keys:
    column = SourceColumn(TEXT, kind, nullable=False)
    parent = SourceTable(name("p"), (column,), (UniqueKey("PRIMARY", ("code",)),))
    refers = ForeignKey("k", name("c"), ("code",), name("p"), ("code",))
    child = SourceTable(name("c"), (column,), foreign_keys=(refers,))
    tables = {table.name: table for table in (parent, child)}
    rules = {(name("c"), "k"): ("CASCADE", "RESTRICT")}
    return foreign_keys(tables, tables, lambda one: one, rules, dialect, lambda _: {"code": equality})


def test_a_key_over_texts_is_made_where_they_are_equal_by_their_bytes() -> None:
    (made,) = texts("varchar(3)", Equality.EXACT).planned[name("c")]
    assert made.acts and made.sql.endswith('REFERENCES "shop"."p" ("code") ON UPDATE CASCADE')
    assert texts("char(3)", Equality.PADDED).planned and texts("varchar(3)", Equality.FOLDED, "mysql").planned
    for kind, equality in (("varchar(3)", Equality.PADDED), ("char(3)", Equality.FOLDED_PADDED)):
        ((table, words, why),) = texts(kind, equality).left_out
        assert (table, words) == (name("c"), "FOREIGN KEY k (code) REFERENCES shop.p") and "another way" in why


def test_a_key_is_known_by_its_columns_whatever_their_order() -> None:
    wanted = ForeignKey("k", name("c"), ("a", "b"), name("p"), ("x", "y"))
    assert is_there(wanted, [replace(wanted, name="other", columns=("b", "a"), parent_columns=("y", "x"))])
    assert not is_there(wanted, [replace(wanted, parent_columns=("y", "x"))])
    assert not is_there(wanted, [replace(wanted, parent=name("q"))])


NUMBER = Column("a", Kind.INT, length=4, type="integer")


def computed(expression: str, column: Column = NUMBER, *keys: ForeignKey) -> SourceTable:
    plain = SourceColumn(NUMBER, "integer", nullable=False)
    other = replace(column, name="b")
    made = SourceColumn(other, column.type, True, generated=True, expression=expression, logged=False)
    return SourceTable(name("t"), (plain, made), foreign_keys=keys)


def test_what_postgres_computes_is_computed_at_mysql_where_that_is_the_same() -> None:
    def at_mysql(table: SourceTable) -> list[str]:
        bare = replace(table, columns=table.columns[:1])
        made = with_computed(bare, table, {"a": "a", "b": "b"}, {})
        left = parts_not_made(table, made, Definition(), ("postgres", "mysql"), {"a": "a", "b": "b"}, {})
        return [column.expression for column in made.columns[1:]] + [what for what, _ in left]

    assert at_mysql(computed("(a + 1)")) == ["(`a` + 1)"]
    truth = Column("b", Kind.BOOL, length=1, type="boolean")
    assert at_mysql(computed("(a > 1)", truth)) == ["(`a` > 1)"]
    refers = ForeignKey("k", name("t"), ("a",), name("t"), ("a",))
    for table in (computed("(a / 2)"), computed("(a + 1)", NUMBER, refers), computed("(a * a) * (a * a)")):
        assert at_mysql(table)[0].startswith("column b AS")


def test_what_a_table_loses_is_said() -> None:
    day = SourceColumn(Column("day", Kind.DATE), "date", True, generated=True)
    flags = SourceColumn(Column("flags", Kind.SET, labels=("a",)), "set('a')", True)
    part = UniqueKey("by_part", ("flags",), "over a prefix of a column")
    table = SourceTable(name("t"), (day, flags), (part,))
    names = {"day": "day", "flags": "flags"}
    definition = Definition(partitioned="HASH (id)")
    said = dict(parts_not_made(table, table, definition, ("mysql", "postgres"), names, {}))
    assert said["UNIQUE by_part (flags)"] == "over a prefix of a column"
    assert said.keys() >= {"day GENERATED", "PARTITION BY HASH (id)", "members of flags"}


def test_a_default_behind_a_character_set_is_a_literal() -> None:
    long = SourceColumn(Column("t", Kind.TEXT, charset="utf8mb4"), "text", True)
    assert translated(long, Default(expression="_utf8mb4'it''s'"), "mysql", "postgres") == "'it''s'"
    document = SourceColumn(Column("d", Kind.JSON, type="jsonb"), "jsonb", True)
    assert translated(document, Default("{}", "'{}'::jsonb"), "postgres", "mysql") == "('{}')"
