"""A key from how verify shows it back to the log's own value, and as a predicate of either server."""

import pytest

from tidelock.adapters.spark.comparable_values import Form, normal, shown
from tidelock.adapters.spark.keys import MOST_WIDE, NoSuchKey, SideColumn, canonical, predicates
from tidelock.engine.model.records import Column, Kind

SPELLED = [
    # form, column of the source, a server's text, value of the log
    (Form.NUMBER, Column("c", Kind.INT, length=8), "-42", -42),
    (Form.NUMBER, Column("c", Kind.INT, unsigned=True, length=8), str(2**64 - 1), 2**64 - 1),
    (Form.NUMBER, Column("c", Kind.YEAR), "0", 0),
    (Form.NUMBER, Column("c", Kind.BIT, length=1), "1", 1),
    (Form.NUMBER, Column("c", Kind.DECIMAL, precision=10, scale=2), "1.5", "1.50"),
    (Form.NUMBER, Column("c", Kind.DECIMAL, precision=10, scale=2), "-100", "-100.00"),
    (Form.NUMBER, Column("c", Kind.DECIMAL, precision=10, scale=2), "0.005", "0.005"),
    (Form.NUMBER, Column("c", Kind.DECIMAL, precision=65), "9" * 65, "9" * 65),
    (Form.BITS, Column("c", Kind.BIT, length=7), "0010101", 21),
    (Form.DOUBLE, Column("c", Kind.FLOAT), 0.10000000149011612, 0.10000000149011612),
    (Form.DOUBLE, Column("c", Kind.DOUBLE), -0.0, 0.0),
    (Form.MOMENT, Column("c", Kind.DATE), "2024-02-29", "2024-02-29"),
    (Form.MOMENT, Column("c", Kind.DATETIME, scale=3), "2024-02-29", "2024-02-29 00:00:00.000"),
    (Form.MOMENT, Column("c", Kind.DATETIME), "2024-02-29 00:00:01.500000", "2024-02-29 00:00:01.5"),
    (Form.MOMENT, Column("c", Kind.TIMESTAMP, scale=6), "2024-02-29 23:59:59.5", "2024-02-29 23:59:59.500000"),
    (Form.TIME, Column("c", Kind.TIME), "-00:00:01", "-00:00:01"),
    (Form.TIME, Column("c", Kind.TIME, scale=2), "34 days 22:59:59.5", "838:59:59.50"),
    (Form.TEXT, Column("c", Kind.TEXT), "é ", "é "),
    (Form.TEXT, Column("c", Kind.ENUM), "", ""),
    (Form.TEXT, Column("c", Kind.UUID), "123e4567-e89b-12d3-a456-426655440000", "123e4567-e89b-12d3-a456-426655440000"),
    (Form.BYTES, Column("c", Kind.BINARY, length=3), "00ff27", b"\x00\xff\x27"),
    (Form.BYTES, Column("c", Kind.TEXT), "c3a9", "é"),
    (Form.BYTES, Column("c", Kind.INT), "3432", 42),
    (Form.ADDRESS, Column("c", Kind.INET4), "10.0.0.1", "10.0.0.1"),
    (Form.ADDRESS, Column("c", Kind.INET6), "0:0:0::102:304", "::1.2.3.4"),
    (Form.ADDRESS, Column("c", Kind.INET6), "::ffff:1.2.3.4", "::ffff:1.2.3.4"),
]
NO_KEYS = [
    (Form.NUMBER, Column("c", Kind.INT), "1.5"),
    (Form.NUMBER, Column("c", Kind.DECIMAL), "NaN"),
    (Form.DOUBLE, Column("c", Kind.DOUBLE), float("nan")),
    (Form.MOMENT, Column("c", Kind.DATETIME), "infinity"),
    (Form.MOMENT, Column("c", Kind.DATETIME), "0044-03-15 BC"),
    (Form.TIME, Column("c", Kind.TIME), "1 mon"),
    (Form.JSON, Column("c", Kind.JSON), "[]"),
    (Form.TEXT, Column("c", Kind.TEXT), None),
]


@pytest.mark.parametrize(("form", "column", "text", "value"), SPELLED)
def test_what_verify_shows_of_a_key_is_the_logs_value_again(
    form: Form, column: Column, text: object, value: object
) -> None:
    found = canonical(form, column, shown(form, normal(form)(text)))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("form", "column", "text"), NO_KEYS)
def test_what_no_row_of_the_source_can_have_is_no_key(form: Form, column: Column, text: object) -> None:
    with pytest.raises(NoSuchKey, match="column c"):
        canonical(form, column, shown(form, normal(form)(text)))


def columns(*pairs: tuple[str, Kind]) -> list[SideColumn]:
    return [SideColumn(f"c{n}", type_, Column(f"c{n}", kind)) for n, (type_, kind) in enumerate(pairs)]


def test_keys_are_written_as_each_server_reads_them() -> None:
    one, two = columns(("text", Kind.TEXT)), columns(("text", Kind.TEXT), ("bytea", Kind.BINARY))
    assert predicates("postgres", one, ["q0"], [("it's",), ("é",)]) == ["q0 IN ('it''s', 'é')"]
    assert predicates("mysql", one, ["q0"], [("it's",)]) == ["q0 IN (_utf8mb4 x'69742773')"]
    assert predicates("postgres", two, ["q0", "q1"], [("a", b"\1")]) == [r"(q0, q1) IN (('a', '\x01'))"]
    assert predicates("mysql", two, ["q0", "q1"], [("a", b"\1")]) == ["(q0 = _utf8mb4 x'61' AND q1 = x'01')"]


def test_a_key_that_a_server_cannot_hold_is_left_out_there() -> None:
    text = columns(("text", Kind.TEXT))
    assert predicates("postgres", text, ["q0"], [("a\0b",), ("c",)]) == ["q0 IN ('c')"]
    assert predicates("postgres", text, ["q0"], [("a\0b",)]) == ["1 = 0"]


def test_many_keys_are_asked_for_in_parts() -> None:
    wide = columns(("integer", Kind.INT), ("integer", Kind.INT))
    assert len(predicates("mysql", wide, ["q0", "q1"], [(n, n) for n in range(MOST_WIDE + 1)])) == 2
