import pytest

from tests.engine.world import FAMILY, KEYLESS, bind, shape_of, table
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Binding, SchemaMismatch, TargetColumn, TargetTable, UniqueKey

NAME = TableName("shop", "account")


def columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(n, Kind.TEXT) for n in names)


def target(*names: str, key: tuple[str, ...] = ("id",), generated: str = "") -> TargetTable:
    return TargetTable(
        NAME,
        tuple(TargetColumn(n, "text", generated=n == generated) for n in names),
        key,
        (UniqueKey("primary", key), UniqueKey("email", ("email",))),
    )


def test_columns_line_up_by_name_not_by_place() -> None:
    binding = Binding(3, Shape(NAME, columns("email", "id", "note")), target("id", "note", "email"))
    assert [c and c.name for c in binding.columns] == ["email", "id", "note"]
    assert binding.key == (1,) and binding.key_of(("e", 7, "n")) == (7,)
    assert binding.unique_positions == (0, 1)
    assert (binding.number, binding.name, binding.has_target_only_columns) == (3, NAME, False)


@pytest.mark.parametrize(
    ("key", "want"), [(("b",), (2,)), (("c", "a"), (3, 1)), ((), (1, 2, 3))], ids=["one", "two", "the whole row"]
)
def test_what_identifies_a_row(key: tuple, want: tuple) -> None:
    assert bind(table("t", ["a", "b", "c"], key)).key_of((1, 2, 3)) == want


def test_a_logged_column_that_the_target_lacks_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match=r"has no column nick, age that the source logs for shop\.account; add it"):
        Binding(0, Shape(NAME, columns("id", "nick", "age")), target("id", "email"))


def test_a_key_column_that_is_not_logged_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match=r"key column id of shop\.account is not in the log"):
        Binding(0, Shape(NAME, columns("email")), target("id", "email"))


def test_a_generated_column_is_not_written_and_does_not_make_the_rows_partial() -> None:
    logged = Binding(0, Shape(NAME, columns("id", "email", "sum")), target("id", "email", "sum", generated="sum"))
    assert [c and c.name for c in logged.columns] == ["id", "email", None]
    unlogged = Binding(0, Shape(NAME, columns("id", "email")), target("id", "email", "sum", generated="sum"))
    assert not unlogged.has_target_only_columns


def test_a_column_of_the_targets_own_makes_the_rows_partial() -> None:
    assert Binding(0, Shape(NAME, columns("id", "email")), target("id", "email", "own")).has_target_only_columns


def test_positions_of_foreign_keys() -> None:
    mother, child = FAMILY.bindings()
    assert mother.foreign_positions == () and child.foreign_positions == (1,)


def test_bindings_are_told_apart_by_identity() -> None:
    visit = KEYLESS.bindings()[0].target
    one, other = Binding(0, shape_of(visit), visit), Binding(0, shape_of(visit), visit)
    assert one != other and len({one, other}) == 2
