"""Row filters against SQL itself: SQLite evaluates the same condition over the same row."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelock.engine.capture.row_filter import (
    And,
    Compare,
    Condition,
    FilterError,
    In,
    IsNull,
    Not,
    Or,
    compile_filter,
)
from tidelock.engine.model.records import Column, Kind

COLUMNS = (
    Column("i", Kind.INT),
    Column("d", Kind.DOUBLE),
    Column("t", Kind.TEXT),
    Column("day", Kind.DATE),
    Column("at", Kind.DATETIME, scale=2),
)
NUMBERS = ("-1", "0", "0.1", "1", "2.5")
LITERALS = {
    "i": NUMBERS,
    "d": NUMBERS,
    "t": ("", "a", "A", "b"),
    "day": ("0000-00-00", "2024-01-01", "2024-01-02"),
    "at": ("2024-01-01 00:00:00.00", "2024-01-01 00:00:00.50", "2024-01-02 00:00:00.00"),
}
VALUES = {**LITERALS, "i": (-1, 0, 1), "d": (-1.0, 0.1, 2.5)}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


@st.composite
def leaves(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from([c.name for c in COLUMNS]))
    literal = st.sampled_from(LITERALS[column])
    return draw(
        st.one_of(
            st.builds(Compare, st.just(column), st.sampled_from(OPERATORS), literal),
            st.builds(In, st.just(column), st.lists(literal, min_size=1, max_size=3).map(tuple)),
            st.builds(IsNull, st.just(column)),
        )
    )


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(And),
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(Or),
    ),
    max_leaves=6,
)
ROWS = st.tuples(*(st.sampled_from((None, *VALUES[c.name])) for c in COLUMNS))


def sql(condition: Condition) -> str:
    match condition:
        case Compare(column, op, literal):
            return f"{column} {op} {quoted(column, literal)}"
        case In(column, literals):
            return f"{column} IN ({', '.join(quoted(column, x) for x in literals)})"
        case IsNull(column):
            return f"{column} IS NULL"
        case Not(of):
            return f"NOT ({sql(of)})"
        case And(of):
            return "(" + " AND ".join(map(sql, of)) + ")"
        case Or(of):
            return "(" + " OR ".join(map(sql, of)) + ")"


def quoted(column: str, literal: str) -> str:
    return literal if column in ("i", "d") else f"'{literal}'"


@settings(max_examples=40, deadline=None)
@given(CONDITIONS, ROWS)
def test_a_filter_says_what_sql_says_null_included(condition: Condition, row: tuple) -> None:
    names = ", ".join(f"? AS {c.name}" for c in COLUMNS)
    with sqlite3.connect(":memory:") as database:
        (want,) = database.execute(f"SELECT {sql(condition)} FROM (SELECT {names})", row).fetchone()
    database.close()
    assert compile_filter(condition, COLUMNS)(row) == (None if want is None else bool(want))


def says(kind: Kind, value: object, literal: str, op: str = "=", scale: int = 0) -> bool | None:
    return compile_filter(Compare("c", op, literal), (Column("c", kind, scale=scale),))((value,))


def test_numbers_compare_as_numbers() -> None:
    assert says(Kind.DECIMAL, "10.00", "10") and says(Kind.DECIMAL, "9.50", "10", "<")
    assert says(Kind.INT, 2**64 - 1, str(2**64 - 1)) and not says(Kind.INT, 2**64 - 1, str(2**64 - 2))
    assert says(Kind.DECIMAL, "0." + "3" * 30, "0." + "3" * 30)
    assert says(Kind.YEAR, 2024, "2024") and says(Kind.BIT, 5, "4", ">")


def test_binary_floats_compare_as_the_server_compares_them() -> None:
    """A DOUBLE 0.1 is `0.1`; the FLOAT 0.1 is 0.10000000149011612, and neither server calls that `0.1`."""
    assert says(Kind.DOUBLE, 0.1, "0.1") and says(Kind.DOUBLE, 0.1, "0.10")
    assert not says(Kind.FLOAT, 0.10000000149011612, "0.1") and says(Kind.FLOAT, 0.5, "0.5")


@pytest.mark.parametrize("literal", ["2024-01-01", "2024-01-01 00:00:00", "2024-01-01T00:00:00.0", "2024-01-01 00:00:00.000000"])  # fmt: skip  # noqa: E501
@pytest.mark.parametrize(("scale", "value"), [(0, "2024-01-01 00:00:00"), (3, "2024-01-01 00:00:00.000")])
def test_a_moment_is_the_same_in_every_spelling(literal: str, scale: int, value: str) -> None:
    later = "2024-01-01 00:00:01" + (".000" if scale else "")
    for kind in (Kind.DATETIME, Kind.TIMESTAMP):
        assert says(kind, value, literal, "=", scale) and not says(kind, value, literal, ">", scale)
        assert says(kind, later, literal, ">", scale)


def test_a_literal_finer_than_its_column_still_has_its_place() -> None:
    assert says(Kind.DATETIME, "2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "<")
    assert says(Kind.DATETIME, "2024-01-01 00:00:00.12", "2024-01-01 00:00:00.123", "<", 2)
    assert says(Kind.DATETIME, "2024-01-01 00:00:00.13", "2024-01-01 00:00:00.123", ">", 2)


def test_text_compares_byte_for_byte_whatever_the_collation() -> None:
    assert not says(Kind.TEXT, "EU", "eu") and not says(Kind.TEXT, "eu ", "eu")
    assert says(Kind.ENUM, "eu", "eu") and says(Kind.SET, "a,b", "a,b")
    assert says(Kind.UUID, "0000aaaa-0000-0000-0000-000000000000", "0000AAAA-0000-0000-0000-000000000000")


def test_undecodable_text_is_neither_equal_nor_unequal() -> None:
    assert says(Kind.TEXT, b"\xff", "a") is None is says(Kind.TEXT, b"\xff", "a", "<>")


@pytest.mark.parametrize(
    ("kind", "literal", "told"),
    [
        (Kind.INT, "eu", "c is a number, 'eu' is not"),
        (Kind.DOUBLE, "nan", "c is a number, 'nan' is not"),
        (Kind.DECIMAL, "Infinity", "c is a number, 'Infinity' is not"),
        (Kind.DATE, "2024-1-1", "c is a date, write '2024-1-1' as YYYY-MM-DD"),
        (Kind.DATE, "2024-01-01 10:00:00", "as YYYY-MM-DD"),
        (Kind.DATETIME, "yesterday", r"c is a datetime, write 'yesterday' as YYYY-MM-DD \[HH:MM:SS"),
        (Kind.JSON, "{}", "column c of kind json cannot be compared"),
        (Kind.BINARY, "a", "column c of kind binary cannot be compared"),
        (Kind.TIME, "10:00:00", "column c of kind time cannot be compared"),
    ],
)
def test_what_cannot_be_compared_exactly_is_refused(kind: Kind, literal: str, told: str) -> None:
    for condition in (Compare("c", "=", literal), In("c", (literal,)), Not(Or((Compare("c", "<", literal),)))):
        with pytest.raises(FilterError, match=told):
            compile_filter(condition, (Column("c", kind),))


def test_an_unknown_column_is_refused() -> None:
    for condition in (Compare("x", "=", "1"), In("x", ("1",)), IsNull("x"), And((IsNull("i"), IsNull("x")))):
        with pytest.raises(FilterError, match="there is no column x"):
            compile_filter(condition, COLUMNS)


def test_any_column_may_be_asked_for_null() -> None:
    test = compile_filter(IsNull("c"), (Column("c", Kind.JSON),))
    assert (test((None,)), test(("{}",))) == (True, False)


@pytest.mark.parametrize("kind", [Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE])
def test_what_only_postgresql_has_compares_as_it_does_there(kind: Kind) -> None:
    """NaN is greater than every number, the infinities are where they belong, and a filter meets them in a stream."""
    columns = (Column("x", kind, type="double precision"),)
    above, equal = (compile_filter(Compare("x", op, "1e300"), columns) for op in (">", "="))
    assert [above((value,)) for value in ("NaN", "Infinity", "-Infinity", None)] == [True, True, False, None]
    assert not any(equal((value,)) for value in ("NaN", "Infinity", "-Infinity"))


def test_a_boolean_is_the_number_that_it_is() -> None:
    test = compile_filter(Compare("x", "=", "1"), (Column("x", Kind.BOOL, type="boolean"),))
    assert [test((value,)) for value in (1, 0, None)] == [True, False, None]
