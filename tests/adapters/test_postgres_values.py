"""Values of a real PostgreSQL: what its texts become, by kind, in both forms of the decoder."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.harness.logical import Log, decoded, log
from bench.harness.servers import Postgres
from tidelock.adapters.postgres.logical import messages
from tidelock.adapters.postgres.logical.damage import DamagedMessage
from tidelock.adapters.postgres.logical.row_values import code, reading, single
from tidelock.engine.model.records import Column, Kind, Row


@pytest.fixture
def made(postgres_source: Postgres) -> Iterator[Log]:
    with log(postgres_source, postgres_source.database("shop")) as found:
        yield found


def inserted(made: Log) -> tuple[tuple[Column, ...], list[Row]]:
    """The columns and rows of the one table that was written, which both forms read alike."""
    logged = made.messages()
    plain, _ = decoded(logged, made.start, made.catalogue, compiled=False)
    for images in (False, True):
        compiled, _ = decoded(logged, made.start, made.catalogue, images=images)
        assert compiled == plain and repr(compiled) == repr(plain)
    (shape,) = [shape for chunk in plain for shape in chunk.shapes.values()]
    return shape.columns, [row.after for chunk in plain for one in chunk.transactions for row in one.rows if row.after]


# type: (kind, [(literal, value), …])
VALUES: dict[str, tuple[Kind, list[tuple[str, Any]]]] = {
    "smallint": (Kind.INT, [("-32768", -32768), ("0", 0), ("NULL", None)]),
    "integer": (Kind.INT, [("2147483647", 2147483647), ("-1", -1)]),
    "bigint": (Kind.INT, [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    "oid": (Kind.INT, [("4294967295", 2**32 - 1)]),
    "boolean": (Kind.BOOL, [("true", 1), ("false", 0), ("NULL", None)]),
    "real": (
        Kind.FLOAT,
        [
            ("0.1", struct.unpack("f", struct.pack("f", 0.1))[0]), ("'-0'", -0.0), ("'NaN'", "NaN"),
            ("'-Infinity'", "-Infinity"), ("'3.4028235e38'", 3.4028234663852886e38), ("1e-45", 1.401298464324817e-45),
        ],
    ),
    "double precision": (
        Kind.DOUBLE,
        [
            ("0.1", 0.1), ("1e308", 1e308), ("'5e-324'", 5e-324), ("'-0'", -0.0), ("'Infinity'", "Infinity"),
            ("1e20", 1e20),
        ],
    ),
    "numeric(8,3)": (
        Kind.DECIMAL,
        [("1.5", "1.500"), ("-0.001", "-0.001"), ("'NaN'", "NaN"), ("0", "0.000"), ("NULL", None)],
    ),
    "numeric(3,0)": (Kind.DECIMAL, [("-12", "-12")]),
    "numeric(3,-2)": (Kind.DECIMAL, [("12345", "12300")]),
    "numeric": (Kind.OTHER, [("1.50", "1.50"), ("1e40", "1" + "0" * 40), ("'Infinity'", "Infinity")]),
    "date": (
        Kind.DATE,
        [
            ("'2026-11-25'", "2026-11-25"), ("'0044-03-15 BC'", "0044-03-15 BC"), ("'infinity'", "infinity"),
            ("'10000-01-01'", "10000-01-01"), ("'0001-01-01'", "0001-01-01"),
        ],
    ),
    "time": (
        Kind.TIME,
        [("'10:00'", "10:00:00.000000"), ("'24:00'", "24:00:00.000000"), ("'1:2:3.5'", "01:02:03.500000")],
    ),
    "time(0)": (Kind.TIME, [("'10:00:00.7'", "10:00:01")]),
    "timestamp": (
        Kind.DATETIME,
        [
            ("'2026-11-25 10:00:00'", "2026-11-25 10:00:00.000000"),
            ("'2026-11-25 10:00:00.123456'", "2026-11-25 10:00:00.123456"),
            ("'2026-11-25 10:00:00.5'", "2026-11-25 10:00:00.500000"), ("'-infinity'", "-infinity"),
            ("'0044-03-15 01:02:03.5 BC'", "0044-03-15 01:02:03.5 BC"),
            ("'294276-12-31 23:59:59.999999'", "294276-12-31 23:59:59.999999"),
        ],
    ),
    "timestamp(3)": (Kind.DATETIME, [("'2026-11-25 10:00:00.1'", "2026-11-25 10:00:00.100")]),
    "timestamp(0)": (Kind.DATETIME, [("'2026-11-25 10:00:00.4'", "2026-11-25 10:00:00")]),
    "timestamptz": (
        Kind.TIMESTAMP,
        [
            ("'2026-11-25 10:00:00.5+05:30'", "2026-11-25 04:30:00.500000"), ("'infinity'", "infinity"),
            ("'0044-03-15 00:00+00 BC'", "0044-03-15 00:00:00+00 BC"),
            ("'10000-01-01 00:00:00.5+00'", "10000-01-01 00:00:00.5+00"),
        ],
    ),
    "timestamptz(0)": (Kind.TIMESTAMP, [("'2026-03-29 02:30:00 Europe/Berlin'", "2026-03-29 01:30:00")]),
    "text": (
        Kind.TEXT,
        [("''", ""), ("'übers Meer 潮 \t\n\\'", "übers Meer 潮 \t\n\\"), ("repeat('x', 9000)", "x" * 9000)],
    ),
    "varchar(5)": (Kind.TEXT, [("'a  '", "a  ")]),
    "char(5)": (Kind.TEXT, [("'a'", "a"), ("''", ""), ("' b '", " b")]),
    '"char"': (Kind.OTHER, [("'z'", "z")]),
    "name": (Kind.TEXT, [("'n'", "n")]),
    "bytea": (Kind.BINARY, [("'\\x00ff'", b"\0\xff"), ("''", b""), ("'\\xDEADbeef'", b"\xde\xad\xbe\xef")]),
    "bit(3)": (Kind.BIT, [("B'101'", 5), ("B'000'", 0)]),
    "bit(64)": (Kind.BIT, [(f"B'{'1' * 64}'", 2**64 - 1)]),
    "bit(65)": (Kind.OTHER, [(f"B'{'10' * 32}1'", "10" * 32 + "1")]),
    "varbit(5)": (Kind.OTHER, [("B'0101'", "0101")]),
    "uuid": (
        Kind.UUID,
        [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
    ),
    "json": (Kind.JSON, [('\'{ "b":1,  "a" : 2 }\'', '{ "b":1,  "a" : 2 }')]),
    "jsonb": (Kind.JSON, [('\'{ "b":1,  "a" : 2 }\'', '{"a": 2, "b": 1}')]),
    "mood": (Kind.ENUM, [("'happy'", "happy"), ("'so, ''la'' \\'", "so, 'la' \\")]),
    "age": (Kind.INT, [("7", 7)]),
    "price": (Kind.DECIMAL, [("7", "7.00")]),
    "pair": (Kind.OTHER, [("ROW(1, 'a,b')", '(1,"a,b")'), ("ROW(NULL, NULL)", "(,)")]),
    "integer[]": (Kind.OTHER, [("'{1,NULL,3}'", "{1,NULL,3}"), ("'{{1},{2}}'", "{{1},{2}}"), ("'{}'", "{}")]),
    "text[]": (Kind.OTHER, [("ARRAY['a,b', '\"', NULL, 'NULL']", '{"a,b","\\"",NULL,"NULL"}')]),
    "mood[]": (Kind.OTHER, [("ARRAY['happy']::mood[]", "{happy}")]),
    "int4range": (Kind.OTHER, [("'[1,5)'", "[1,5)"), ("'empty'", "empty")]),
    "tstzrange": (Kind.OTHER, [("'[2026-01-01 00:00+01,)'", '["2025-12-31 23:00:00+00",)')]),
    "int4multirange": (Kind.OTHER, [("'{[1,3),[5,7)}'", "{[1,3),[5,7)}")]),
    "interval": (Kind.OTHER, [("'1 year 2 mons 3 days 04:05:06.7'", "1 year 2 mons 3 days 04:05:06.7")]),
    "timetz": (Kind.OTHER, [("'10:00:00.5+02'", "10:00:00.5+02")]),
    "inet": (Kind.OTHER, [("'10.0.0.1/8'", "10.0.0.1/8"), ("'::1'", "::1")]),
    "cidr": (Kind.OTHER, [("'10.0.0.0/8'", "10.0.0.0/8")]),
    "macaddr": (Kind.OTHER, [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")]),
    "money": (Kind.OTHER, [("'12.5'", "$12.50")]),
    "point": (Kind.OTHER, [("'(1,2.5)'", "(1,2.5)")]),
    "xml": (Kind.OTHER, [("'<a>1</a>'", "<a>1</a>")]),
    "tsvector": (Kind.OTHER, [("'a:1 b'", "'a':1 'b'")]),
    "pg_lsn": (Kind.OTHER, [("'16/B374D848'", "16/B374D848")]),
}  # fmt: skip
TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'happy', 'so, ''la'' \\');
CREATE DOMAIN age AS int CHECK (value >= 0);
CREATE DOMAIN price AS numeric(6,2);
CREATE TYPE pair AS (a int, b text);
"""


def test_each_type_gives_the_one_form_of_its_kind(made: Log) -> None:
    names = list(VALUES)
    most = max(len(values) for _, values in VALUES.values())
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(names))
    rows = [
        "(" + ", ".join([str(row), *(values[row % len(values)][0] for _, values in VALUES.values())]) + ")"
        for row in range(2 * most)  # the Python form reads the first row of each table
    ]
    made.run([TYPES, f"CREATE TABLE t (id int PRIMARY KEY, {columns})", f"INSERT INTO t VALUES {', '.join(rows)}"])
    described, found = inserted(made)
    assert {name: column.kind for name, column in zip(names, described[1:], strict=True)} == {
        name: kind for name, (kind, _) in VALUES.items()
    }
    for number, row in enumerate(found):
        wanted = {name: values[number % len(values)][1] for name, (_, values) in VALUES.items()}
        assert dict(zip(names, map(typed, row[1:]), strict=True)) == {name: typed(one) for name, one in wanted.items()}


def typed(value: Any) -> tuple[type, str]:
    """Tells 0.0 from -0.0 and 1 from True, too."""
    return type(value), repr(value)


def test_extensions_come_as_texts(made: Log, postgres_source: Postgres) -> None:
    there = {name for (name,) in made.ask("SELECT name::text FROM pg_available_extensions", ())}
    if not {"hstore", "citext"} <= there:
        pytest.fail("the server's extensions are not installed")
    made.run(
        [
            "CREATE EXTENSION hstore; CREATE EXTENSION citext",
            "CREATE TABLE t (id int PRIMARY KEY, h hstore, c citext)",
            "INSERT INTO t VALUES (1, 'a=>1, b=>NULL', 'MiXed')",
        ]
    )
    described, found = inserted(made)
    assert found == [(1, '"a"=>"1", "b"=>NULL', "MiXed")]
    assert [column.kind for column in described[1:]] == [Kind.OTHER, Kind.TEXT]


def test_a_text_in_another_encoding_stays_bytes(made: Log) -> None:
    """No server sends one: it looks at texts of a database without an encoding before it does."""
    made.run(["CREATE TABLE t (id int PRIMARY KEY, v text, c char(4))", "INSERT INTO t VALUES (1, 'xy', 'z')"])
    logged = [one._replace(data=one.data.replace(b"xy", b"\xffy").replace(b"z ", b"\xfe ")) for one in made.messages()]
    plain, compiled = (decoded(logged, made.start, made.catalogue, compiled=form)[0] for form in (False, True))
    assert compiled == plain
    assert plain[0].transactions[0].rows[0].after == (1, b"\xffy", b"\xfe")


UNREADABLE = {
    Kind.INT: ["", "-", "1_0", " 1", "+1", "9223372036854775808", "-9223372036854775809", "1.0", "٣"],
    Kind.BOOL: ["true", "", "T", "1"],
    Kind.DOUBLE: ["", "nan", "inf", "1_0", " 1", "1e999", "0x1p3", ".5", "1.", "1e"],
    Kind.FLOAT: ["1e39", "infinity", "--1"],
    Kind.BINARY: ["", "ff", "\\x0", "\\xzz", "\\x 00", "abc\\000"],
    Kind.BIT: ["", "2", "1" * 65, "-1"],
    Kind.DATE: ["2026-11-2é"],
    Kind.UUID: ["é"],
    Kind.DATETIME: ["2026-11-25 10:00:00.1234567", "2026-11-25 10:00:00.é"],
    Kind.TIMESTAMP: ["2026-11-25 10:00:00", "2026-11-25 10:00:00+05:30", "2026-11-25 10:00:00-07", "25/11/2026"],
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_text_that_the_pinned_settings_never_give_is_no_value(kind: Kind) -> None:
    column = Column("c", kind, length=8, scale=6)
    read = reading(code(column))
    for text in UNREADABLE[kind]:
        with pytest.raises(ValueError):
            read(text.encode())


@settings(max_examples=500)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_32_bit_number_is_the_one_that_its_text_is_of(value: float) -> None:
    """PostgreSQL writes as few digits as tell it from its neighbours."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            break
    assert single(text.encode(), float(text)) == value


def test_a_32_bit_number_is_not_rounded_twice() -> None:
    """The text is a hair above the middle of two 32-bit numbers, the 64-bit number next to it is that middle."""
    low, high = 1.0, struct.unpack("<f", struct.pack("<I", 0x3F800001))[0]
    middle = (low + high) / 2
    above = f"{middle:.40f}".rstrip("0") + "0000000001"
    below = f"{math.nextafter(middle, 0):.60f}"[:12] + f"{middle:.40f}".rstrip("0")[12:-1] + "4999999999"
    assert float(above) == middle == float(below)
    assert single(above.encode(), middle) == high and single(below.encode(), middle) == low
    assert single(f"{middle:.40f}".encode(), middle) == low, "the even one"


def test_numbers_of_both_forms_are_the_same(made: Log) -> None:
    texts = ["1.00000005960464477539062500001", "1.00000005960464477539062499999", "1.000000059604644775390625"]
    made.run(["CREATE TABLE t (id int PRIMARY KEY, v float4)", "INSERT INTO t VALUES (1, 1), (2, 1)"])
    logged = made.messages()
    place = [place for place, one in enumerate(logged) if one.data[0] == messages.INSERT][1]  # the first is left
    for text in [*texts, "NaN", "-Infinity", "1e-45", "3.4028235e+38", "-0"]:
        insert = logged[place]
        data = insert.data[:-5] + len(text).to_bytes(4) + text.encode()
        changed = [*logged[:place], insert._replace(data=data), *logged[place + 1 :]]
        plain, _ = decoded(changed, made.start, made.catalogue, compiled=False)
        assert repr(decoded(changed, made.start, made.catalogue)[0]) == repr(plain)


def test_settings_that_are_not_pinned_end_the_reading(postgres_source: Postgres) -> None:
    """What another session's settings give is another text, which would be read as another day."""
    database = postgres_source.database("shop")
    with log(postgres_source, database) as made:
        made.run(["CREATE TABLE t (id int PRIMARY KEY, at timestamptz, b bytea)"])
        made.ask("SELECT set_config('timezone', 'Asia/Kolkata', false)", ())
        made.run(["INSERT INTO t VALUES (1, now(), NULL)"])
        with pytest.raises(DamagedMessage, match="another time zone than UTC"):
            inserted(made)
        made.ask("SELECT set_config('timezone', 'UTC', false), set_config('bytea_output', 'escape', false)", ())
        made.run(["DELETE FROM t; INSERT INTO t VALUES (1, NULL, '\\x00')"])
        with pytest.raises(DamagedMessage, match="not in hexadecimal digits"):
            inserted(made)
