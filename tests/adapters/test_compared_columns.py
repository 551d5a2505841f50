"""Which columns `verify: image` compares, and which failed changes a row takes with it when the source's is taken."""

import pytest

from tidelock.adapters.app.take_source import FailedChange, chosen
from tidelock.adapters.target.compared_columns import compared, left_out, may_be_gone
from tidelock.engine.batch.parked_rows import ParkedChange
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName
from tidelock.engine.model.schema import Binding, ForeignKey, TargetColumn, TargetTable, UniqueKey

NAME, PARENT = TableName("shop", "t"), TableName("shop", "parent")
ID = Column("id", Kind.INT, length=8)


def bound(column: Column, type_: str, *, generated: bool = False, cascades: bool | None = None) -> Binding:
    foreign = () if cascades is None else (ForeignKey("f", NAME, ("c",), PARENT, ("id",), cascades),)
    columns = (TargetColumn("id", "bigint", False), TargetColumn("c", type_, generated=generated))
    table = TargetTable(NAME, columns, ("id",), (UniqueKey("p", ("id",)),), foreign)
    return Binding(0, Shape(NAME, (ID, column), ("id",)), table)


FLOAT, JSON = Column("c", Kind.FLOAT), Column("c", Kind.JSON)
OF_POSTGRES = {"float": Column("c", Kind.FLOAT, type="real"), "json": Column("c", Kind.JSON, type="json")}
CASES = [
    ("postgres", FLOAT, "real", True),
    ("mysql", FLOAT, "float", True),
    ("mysql", FLOAT, "float(7,2)", False),
    ("mysql", OF_POSTGRES["float"], "float", False),
    ("postgres", JSON, "jsonb", True),
    ("postgres", JSON, "json", False),
    ("postgres", JSON, "text", False),
    ("mysql", JSON, "json", True),
    ("mysql", JSON, "longtext", False),
    ("postgres", OF_POSTGRES["json"], "json", True),
    ("postgres", Column("c", Kind.GEOMETRY), "bytea", False),
    ("mysql", Column("c", Kind.DECIMAL, precision=9, scale=2), "int", False),
    ("mysql", Column("c", Kind.TEXT, length=9), "varchar(9)", True),
]


@pytest.mark.parametrize(("dialect", "column", "type_", "exact"), CASES)
def test_what_is_not_exact_is_left_out_and_named(dialect: str, column: Column, type_: str, exact: bool) -> None:
    binding = bound(column, type_)
    assert compared(binding, dialect) == ((1,) if exact else ())  # type: ignore[arg-type]
    assert [name for name, _ in left_out(binding, dialect)] == ([] if exact else ["c"])  # type: ignore[arg-type]


def test_what_a_cascade_may_have_changed_is_left_out_and_a_row_may_be_gone() -> None:
    for cascades in (True, False):
        binding = bound(Column("c", Kind.INT, length=8), "bigint", cascades=cascades)
        assert compared(binding, "postgres") == (() if cascades else (1,))
        assert may_be_gone(binding) is cascades
    assert compared(bound(Column("c", Kind.INT), "bigint", generated=True), "postgres") == ()


def failure(id_: str, before: Row | None, after: Row | None) -> FailedChange:
    return FailedChange(id_, NAME, ParkedChange(Shape(NAME, (ID, FLOAT), ("id",)), before, after))


def test_a_row_takes_all_that_failed_of_it_along_under_whatever_key() -> None:
    failed = [failure("a", (1, 0.5), (2, 0.5)), failure("b", (2, 0.5), (3, 0.5)), failure("c", None, (9, 0.5))]
    (part,) = chosen(failed, ["b"], {NAME: ("id",)}).parts
    assert (part.table, sorted(part.keys)) == (NAME, [(1,), (2,), (3,)])
    (part,) = chosen(failed, [], {NAME: ("id",)}).parts
    assert sorted(part.keys) == [(1,), (2,), (3,), (9,)]


def test_rows_without_a_key_are_left_and_told() -> None:
    work = chosen([failure("a", None, (1, 0.5))], [], {})
    assert not work.parts and "no table with a key" in work.left[0].why
    work = chosen([failure("a", None, (1, 0.5))], [], {NAME: ("other",)})
    assert not work.parts and "present key" in work.left[0].why
