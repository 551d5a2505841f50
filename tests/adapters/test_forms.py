"""When values of two servers are equal, and which text each server is asked for."""

import itertools

import pytest

from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.spark.comparable_values import Form, form, normal, shown
from tidelock.engine.model.records import Column, Kind

EQUAL = [
    (Form.NUMBER, ["1.5", "1.50", "001.5", "15e-1"]),
    (Form.NUMBER, ["0", "-0", "0.00", "-0.000"]),
    (Form.NUMBER, ["9" * 65, "9" * 65 + ".0"]),
    (Form.DOUBLE, [0.0, -0.0]),
    (Form.MOMENT, ["2024-02-29 23:59:59.5", "2024-02-29 23:59:59.500000"]),
    (Form.MOMENT, ["2024-02-29", "2024-02-29 00:00:00", "2024-02-29 00:00:00.000"]),
    (Form.TIME, ["838:59:59", "838:59:59.000000", "34 days 22:59:59"]),
    (Form.TIME, ["-00:00:01.5", "-00:00:01.500"]),
    (Form.TIME, ["24:00:00", "1 day"]),
    (Form.TIME, ["100:36:39", "-2 days +148:36:39", "4 days 04:36:39"]),
    (Form.JSON, ['{"a": 1, "bb": [1.0, 2]}', '{"bb":[1,2.0],"a":1e0}']),
    (Form.JSON, ['"é"', '"\\u00e9"']),
    (Form.ADDRESS, ["::1.2.3.4", "::102:304"]),
    (Form.BITS, ["0101", "101"]),
]
DIFFERENT = [
    (Form.NUMBER, ["1", "10", "1.0000000000000000000000000000000001", None]),
    (Form.NUMBER, ["9" * 65, "9" * 64 + "8"]),
    (Form.DOUBLE, [0.1, 0.30000000000000004, 0.3, None]),
    (Form.MOMENT, ["2024-02-29 00:00:00.000001", "2024-02-29 00:00:00", "2024-02-29 00:00:01", "0000-00-00", None]),
    (Form.TIME, ["00:00:00", "00:00:00.000001", "-00:00:00.000001", "1 mon", "", None]),
    (Form.TEXT, ["", " ", "a", "a ", "A", "\u0061\u0301", "\u00e1", None]),
    (Form.JSON, ["1", '"1"', "[1]", '{"a": 1}', '{"a": "1"}', '{"a": null}', "{}", "null", "no json", None]),
    (Form.JSON, ["123456789012345678901234567890", "123456789012345678901234567891"]),
    (Form.ADDRESS, ["0.0.0.1", "::1", None]),
    (Form.BYTES, ["", "00", "0000", None]),
]


@pytest.mark.parametrize(("of", "values"), EQUAL)
def test_equal_values_in_another_spelling_are_equal(of: Form, values: list[object]) -> None:
    assert len({normal(of)(value) for value in values}) == 1


@pytest.mark.parametrize(("of", "values"), DIFFERENT)
def test_other_values_are_other(of: Form, values: list[object]) -> None:
    read = [normal(of)(value) for value in values]
    assert all(one != other for one, other in itertools.combinations(read, 2)), read


def test_not_a_number_equals_itself() -> None:
    assert normal(Form.DOUBLE)(float("nan")) == normal(Form.DOUBLE)(float("nan"))


@pytest.mark.parametrize(
    ("of", "text", "said"),
    [(Form.TIME, "-838:59:58.5", "-838:59:58.500000"), (Form.TIME, "1 day", "24:00:00"), (Form.ADDRESS, "::1", "::1")],
)
def test_values_are_shown_as_people_write_them(of: Form, text: str, said: str) -> None:
    assert shown(of, normal(of)(text)) == said


@pytest.mark.parametrize(
    ("column", "target", "expected"),
    [
        (Column("c", Kind.BIT, length=8), "bit(8)", Form.BITS),
        (Column("c", Kind.BIT, length=1), "boolean", Form.NUMBER),
        (Column("c", Kind.TEXT), "bytea", Form.BYTES),
        (Column("c", Kind.TEXT), "json", Form.JSON),
        (Column("c", Kind.JSON), "text", Form.JSON),
        (Column("c", Kind.DECIMAL, precision=10, scale=2), "character varying(64)", Form.NUMBER),
        (Column("c", Kind.BINARY, length=16), "uuid", Form.BYTES),
        (Column("c", Kind.INET6), "inet", Form.ADDRESS),
        (Column("c", Kind.TIME, scale=6), "interval", Form.TIME),
    ],
)
def test_columns_are_compared_as_what_the_target_holds(column: Column, target: str, expected: Form) -> None:
    assert form(SourceColumn(column, "", True), target) is expected
