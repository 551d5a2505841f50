"""The PostgreSQL sink against a real server: values of every type."""

from typing import Any

import pytest

from tests.adapters.postgres_sink.sink_target import MANY_ROWS, START, Target, bind, committed, failed
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.postgres.target.statements import FEW_ROWS
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows

VALUES: list[tuple[Column, str, Any, str]] = [
    (Column("c", Kind.INT, length=1), "smallint", -128, "-128"),
    (Column("c", Kind.INT, length=1), "boolean", 1, "true"),
    (Column("c", Kind.INT, length=1), "boolean", 0, "false"),
    (Column("c", Kind.INT, True, 4), "bigint", 4294967295, "4294967295"),
    (Column("c", Kind.INT, True, 8), "numeric(20)", 18446744073709551615, "18446744073709551615"),
    (Column("c", Kind.YEAR), "smallint", 1901, "1901"),
    (Column("c", Kind.YEAR), "smallint", 0, "0"),
    (Column("c", Kind.BIT, length=1), "boolean", 1, "true"),
    (Column("c", Kind.BIT, length=1), "bit(1)", 1, "1"),
    (Column("c", Kind.BIT, length=10), "bit(10)", 5, "0000000101"),
    (Column("c", Kind.BIT, length=64), "bit(64)", 2**64 - 1, "1" * 64),
    (Column("c", Kind.BIT, length=4), "bit varying(8)", 5, "0101"),
    (Column("c", Kind.BIT, length=4), "bigint", 5, "5"),
    (Column("c", Kind.FLOAT), "real", 0.10000000149011612, "0.1"),
    (Column("c", Kind.DOUBLE), "double precision", 1.7976931348623157e308, "1.7976931348623157e+308"),
    (Column("c", Kind.DOUBLE), "double precision", -5e-324, "-5e-324"),
    (Column("c", Kind.DECIMAL, scale=30), "numeric(65,30)", "-1." + "0" * 29 + "1", "-1." + "0" * 29 + "1"),
    (Column("c", Kind.DATE), "date", "9999-12-31", "9999-12-31"),
    (Column("c", Kind.DATETIME, scale=6), "timestamp(6)", "1000-01-01 00:00:00.000001", "1000-01-01 00:00:00.000001"),
    (Column("c", Kind.TIMESTAMP), "timestamptz", "2024-03-31 02:30:00", "2024-03-31 02:30:00+00"),
    (Column("c", Kind.TIME, scale=3), "interval", "-838:59:59.123", "-838:59:59.123"),
    (Column("c", Kind.TIME), "time", "23:59:59", "23:59:59"),
    (Column("c", Kind.TEXT), "text", "é漢😀 '\"\\{},\t\n\r NULL", "é漢😀 '\"\\{},\t\n\r NULL"),
    (Column("c", Kind.TEXT), "text", "", ""),
    (Column("c", Kind.TEXT), "text", "NULL", "NULL"),
    (Column("c", Kind.TEXT), "text", "\\N", "\\N"),
    (Column("c", Kind.TEXT, length=3), "character(3)", "a", "a  "),
    (Column("c", Kind.TEXT, length=3), "character varying(3)", "漢漢漢", "漢漢漢"),
    (Column("c", Kind.TEXT), "bytea", "é", "\\xc3a9"),
    (Column("c", Kind.BINARY, length=4), "bytea", b"\x00\\'\xff", "\\x005c27ff"),
    (Column("c", Kind.BINARY, length=16), "uuid", bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.ENUM, labels=("a", "b")), "text", "", ""),
    (Column("c", Kind.ENUM, labels=("a'", "b")), "mood", "a'", "a'"),
    (Column("c", Kind.SET, labels=("a", "b")), "text", "a,b", "a,b"),
    (Column("c", Kind.JSON), "jsonb", '"\\\\u0000"', '"\\\\u0000"'),
    (Column("c", Kind.JSON), "jsonb", '{"b": 123456789012345678901234567890.5, "a": "\\"x\\\\"}',
     '{"a": "\\"x\\\\", "b": 123456789012345678901234567890.5}'),
    (Column("c", Kind.JSON), "json", '{"b":1, "a":2}', '{"b":1, "a":2}'),
    (Column("c", Kind.JSON), "text", '{"b":1}', '{"b":1}'),
    (Column("c", Kind.TEXT), "jsonb", "[1]", "[1]"),
    (Column("c", Kind.GEOMETRY), "bytea", b"\xe6\x10\x00\x00\x01\x02", "\\x0102"),
    (Column("c", Kind.VECTOR), "bytea", b"\x00\x01", "\\x0001"),
    (Column("c", Kind.UUID), "uuid", "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.UUID), "text", "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.INET4), "inet", "10.0.0.1", "10.0.0.1/32"),
    (Column("c", Kind.INET6), "inet", "::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
    (Column("c", Kind.TEXT), "text[]", '{a,"b c"}', '{a,"b c"}'),
    (Column("c", Kind.TEXT), "short", "abc", "abc"),
]  # fmt: skip


async def _value_table(target: Target, column: Column, type: str, key: str = "") -> tuple[PostgresSink, Binding, int]:
    target.sql("CREATE TYPE mood AS ENUM ('a''', 'b')")
    target.sql("CREATE DOMAIN short AS varchar(3)")
    name = target.table("held", f"id int {key}, c {type}")
    sink = target.sink()
    taken = await sink.take_over([name], START)
    return sink, bind(taken, (Column("id", Kind.INT), column), name), taken.epoch


@pytest.mark.parametrize(("column", "type", "value", "text"), VALUES, ids=lambda v: v if isinstance(v, str) else "")
async def test_every_type_arrives_and_is_found_again(
    target: Target, column: Column, type: str, value: Any, text: str
) -> None:
    """By each way in: a VALUES list, arrays, COPY, a single update; and, in a table without a key, by equality."""
    sink, table, epoch = await _value_table(target, column, type, "PRIMARY KEY")
    rows = [(i, None if i == 3 else value) for i in range(MANY_ROWS)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows[: FEW_ROWS + 1], True)))
    await committed(sink, target.batch(epoch, DeleteRows(table, [(0,)]), UpsertRows(table, rows[:1], True)))
    await committed(sink, target.batch(epoch, UpsertRows(table, [(100, value), (101, None)], True)))
    await committed(sink, target.batch(epoch, UpdateRows(table, [(100,), (101,)], [(100, None), (101, value)], True)))
    shown = target.rows("id, c::text" if not type.startswith("character(") else "id, rpad(c, 3)", "held")
    assert shown == [*((i, None if i == 3 else text) for i in range(FEW_ROWS + 1)), (100, None), (101, text)]
    few = [row for row in rows if row[0] <= FEW_ROWS]
    copied = [(row[0] + 200, row[1]) for row in rows]
    await committed(sink, target.batch(epoch, UpsertRows(table, copied, True)))
    assert target.sql("SELECT count(*), count(c), count(DISTINCT c::text) FROM held WHERE id >= 200") == [
        (MANY_ROWS, MANY_ROWS - 1, 1)
    ]
    assert target.sql("SELECT count(DISTINCT coalesce(c::text, '')) FROM held WHERE c IS NOT NULL") == [(1,)]

    target.sql("ALTER TABLE held DROP CONSTRAINT held_pkey")
    keyless = bind(await sink.take_over([table.name], START), table.shape.columns, table.name)
    await committed(sink, target.batch(epoch + 1, DeleteRows(keyless, [*few, *copied, (101, value), (100, None)])))
    assert target.rows("id", "held") == []


@pytest.mark.parametrize(
    ("column", "type", "value", "word"),
    [
        (Column("c", Kind.TEXT), "text", b"\xff", "character set"),
        (Column("c", Kind.TEXT), "text", "a\0b", "NUL"),
        (Column("c", Kind.TEXT), "text", "\ud800", "surrogate"),
        (Column("c", Kind.DATE), "date", "0000-00-00", "zero date"),
        (Column("c", Kind.DATE), "date", "2024-00-10", "zero date"),
        (Column("c", Kind.DATETIME), "timestamp", "0000-01-01 00:00:00", "zero date"),
        (Column("c", Kind.TIMESTAMP), "timestamptz", "0000-00-00 00:00:00", "zero date"),
        (Column("c", Kind.TIME), "time", "-01:00:00", "negative"),
        (Column("c", Kind.TIME), "time", "100:00:00", "beyond a day"),
        (Column("c", Kind.TIME), "time", "24:00:00.5", "out of range"),
        (Column("c", Kind.INT), "boolean", 2, "boolean"),
        (Column("c", Kind.INT), "smallint", 40000, "smallint"),
        (Column("c", Kind.BIT, length=8), "bit(4)", 255, "bit"),
        (Column("c", Kind.JSON), "jsonb", '"\\u0000"', "column c: a NUL"),
        (Column("c", Kind.ENUM), "mood", "c", "mood"),
        (Column("c", Kind.BINARY), "text", b"a", "bytea"),
        (Column("c", Kind.TEXT), "short", "abcd", "too long"),
    ],
)
async def test_what_postgres_cannot_hold_is_an_error_of_the_row(
    target: Target, column: Column, type: str, value: Any, word: str
) -> None:
    sink, table, epoch = await _value_table(target, column, type, "PRIMARY KEY")
    for count in (0, FEW_ROWS, MANY_ROWS):
        rows = [(i, None) for i in range(count)]
        failure = await failed(sink, target.batch(epoch, UpsertRows(table, [(99, value), *rows], True)))
        assert failure.kind is ErrorKind.ROW
        assert word in failure.message
        assert "held" in failure.message
    assert target.rows("id", "held") == []
    await committed(sink, target.batch(epoch, UpsertRows(table, [(1, None)], True)))


@pytest.mark.parametrize("value", ["0000-00-00", "2024-05-00", "0000-12-31"])
async def test_zero_dates_become_null_on_request(target: Target, value: str) -> None:
    name = target.table("dated", "id int PRIMARY KEY, d date")
    sink = target.sink(zero_dates="null")
    columns = (Column("id", Kind.INT), Column("d", Kind.DATE))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(i, value if i % 3 == 0 else None if i % 3 == 1 else "2024-10-10") for i in range(FEW_ROWS + 1)]
    await committed(sink, target.batch(1, UpsertRows(table, rows, True)))
    assert [row[1] is None for row in target.rows("id, d", "dated")] == [i % 3 != 2 for i in range(FEW_ROWS + 1)]


async def test_a_thousand_columns_and_odd_names(target: Target) -> None:
    names = [*(f"c{i}" for i in range(997)), "select", 'a"b c', "Ünï"]
    definition = ", ".join(f'"{n.replace(chr(34), chr(34) * 2)}" int' for n in names)
    target.sql(f'CREATE TABLE "Wide t""x" ({definition}, PRIMARY KEY ("Ünï"))')
    name = TableName("public", 'Wide t"x')
    sink = target.sink()
    table = bind(await sink.take_over([name], START), [Column(n, Kind.INT) for n in names], name)
    for fresh in (True, False):
        rows = [(*range(999), i) for i in range(FEW_ROWS + 1)]
        await committed(sink, target.batch(1, UpsertRows(table, rows, fresh)))
    await committed(sink, target.batch(1, DeleteRows(table, [(i,) for i in range(FEW_ROWS)])))
    assert target.sql('SELECT "Ünï", "select" FROM "Wide t""x"') == [(FEW_ROWS, 997)]
