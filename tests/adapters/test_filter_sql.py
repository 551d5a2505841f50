"""A row filter as SQL takes exactly the rows that the stream takes."""

import asyncio
from pathlib import Path

import pytest

from bench.harness.servers import Postgres, Server
from tidelock.adapters.config.row_filter import parse_where
from tidelock.adapters.config.url import parse
from tidelock.adapters.row_copy.columns import asked as asked_column
from tidelock.adapters.row_copy.columns import reader
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.spark.filter_sql import condition_sql
from tidelock.adapters.wiring.source_tables import tables_of
from tidelock.engine.capture.row_filter import compile_filter
from tidelock.engine.model.records import Column, Kind

COLUMNS = (
    Column("id", Kind.INT, length=4),
    Column("word", Kind.TEXT, length=20, charset="utf8mb4"),
    Column("old", Kind.TEXT, length=20, charset="latin1"),
    Column("price", Kind.DECIMAL, precision=10, scale=2),
    Column("at", Kind.DATETIME, scale=3),
    Column("day", Kind.DATE),
    Column("ratio", Kind.DOUBLE),
    Column("colour", Kind.ENUM, charset="utf8mb4", labels=("red", "Green")),
    Column("big", Kind.INT, unsigned=True, length=8),
)
TYPES = (
    "int PRIMARY KEY, word varchar(20) CHARACTER SET utf8mb4, old varchar(20) CHARACTER SET latin1, "
    "price decimal(10,2), at datetime(3), day date, ratio double, colour enum('red','Green'), big bigint unsigned"
)
ROWS = [
    (1, "eu", "é", "1.50", "2024-02-29 23:59:59.999", "2024-02-29", 0.1, "red", 2**64 - 1),
    (2, "EU", "É", "-1.50", "2024-02-29 00:00:00.000", "2024-03-01", 0.3, "Green", 0),
    (3, "eu ", "e", "0.00", "1999-12-31 12:00:00.100", "1999-12-31", -0.5, "red", 2**63),
    (4, "", "", "100.00", None, None, None, None, None),
    (5, None, None, None, "2024-03-01 00:00:00.000", "2024-02-28", 1e300, "Green", 1),
    (6, "a\\b'c", "é ", "1.51", "2024-02-29 23:59:59.990", "2023-01-01", 0.30000000000000004, "red", 10),
]
FILTERS = [
    "word = 'eu'",
    "word <> 'eu'",
    "word > 'a' AND word < 'z'",
    "word IN ('EU', '', 'x')",
    "word = 'a\\\\b''c'",
    "old = 'é'",
    "NOT (old = 'é' OR price > 1)",
    "price BETWEEN -1.5 AND 1.5",
    "price = 1.5",
    "price IN (1.510, 0)",
    "at = '2024-02-29'",
    "at >= '2024-02-29 23:59:59.99'",
    "at < '2024-03-01T00:00:00'",
    "day = '2024-02-29'",
    "day IS NULL OR day < '2000-01-01'",
    "ratio = 0.1",
    "ratio > 0.3",
    "ratio <= 1e300",
    "colour = 'red'",
    "colour <> 'green'",
    "big > 9223372036854775807",
    "big = 18446744073709551615",
    "NOT word IS NULL AND NOT price IS NULL",
    "id <> 3 AND (word = 'EU' OR at IS NULL OR 1 < id)",
]


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def test_sql_takes_the_rows_that_the_stream_takes(server: Server) -> None:
    database = server.database("filters")
    server.execute(f"CREATE TABLE t (id {TYPES})", database=database)
    for row in ROWS:
        server.execute(f"INSERT INTO t VALUES ({', '.join(['%s'] * len(row))})", *row, database=database)
    columns = {c.name: SourceColumn(c, "", True) for c in COLUMNS}
    for text in FILTERS:
        condition = parse_where(text)
        test = compile_filter(condition, COLUMNS)
        where = condition_sql(condition, columns)
        taken = server.execute(f"SELECT id FROM t WHERE {where} ORDER BY id", database=database)
        expected = [row[0] for row in ROWS if test(row)]
        assert [row[0] for row in taken] == expected, text
    assert all(0 < len([r for r in ROWS if compile_filter(parse_where(f), COLUMNS)(r)]) < len(ROWS) for f in FILTERS)


POSTGRES_TYPES = (
    "int PRIMARY KEY, word varchar(20), old char(20), price numeric(10,2), at timestamp(3), day date, "
    "ratio double precision, colour colour, big numeric(20), zoned timestamptz, flag boolean, u uuid, bits bit(9)"
)
POSTGRES_ROWS = [
    (1, "eu", "é", "1.50", "2024-02-29 23:59:59.999", "2024-02-29", "0.1", "red", "18446744073709551615",
     "2024-02-29 12:00:00+02", "true", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "000000101"),
    (2, "EU", "É", "-1.50", "2024-02-29", "2024-03-01", "0.3", "Green", "0", "infinity", "false", None, "000000000"),
    (3, "eu ", "e", "0.00", "1999-12-31 12:00:00.1", "infinity", "NaN", "red", "NaN", "2024-02-29 10:00:00.5Z", None,
     "00000000-0000-0000-0000-000000000000", "111111111"),
    (4, "", "", "NaN", None, None, None, None, None, None, None, None, None),
    (5, None, None, None, "infinity", "0044-03-15 BC", "-Infinity", "Green", "1", "0044-03-15 BC", "true", None, None),
    (6, "a\\b'c", "é ", "1.51", "2024-02-29 23:59:59.99", "2023-01-01", "1e300", "red", "10", "-infinity", "f", None,
     None),
]  # fmt: skip
POSTGRES_FILTERS = [
    *FILTERS,
    "zoned = '2024-02-29 10:00:00'",
    "zoned >= '2024-02-29 10:00:00.5'",
    "flag = 1",
    "flag <> 1 OR flag IS NULL",
    "u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
    "bits = 5 OR bits > 100",
    "price > 1000000 OR big >= 11",
    "NOT ratio < 1",
]


def test_at_postgresql_too(postgres: Postgres) -> None:
    database = postgres.database("filters")
    postgres.execute_script("CREATE TYPE colour AS ENUM ('red', 'Green')", database=database)
    postgres.execute_script(f"CREATE TABLE t (id {POSTGRES_TYPES})", database=database)
    for row in POSTGRES_ROWS:
        texts = ("NULL" if v is None else "'" + str(v).replace("'", "''") + "'" for v in row)
        postgres.execute_script(f"INSERT INTO t VALUES ({', '.join(texts)})", database=database)
    with tables_of(parse(postgres.url(database), Path())) as source:
        (table,) = asyncio.run(source.shapes(lambda name: name.table == "t")).values()
        asked = [asked_column(column) for column in table.columns]
        came = source.rows(f"SELECT {', '.join(one.sql for one in asked)} FROM public.t t ORDER BY t.id")
        readers = [reader(one) for one in asked]
        rows = [[(read([v])[0] if read else v) for read, v in zip(readers, row, strict=True)] for row in came]
        columns = {column.name: column for column in table.columns}
        for text in POSTGRES_FILTERS:
            condition = parse_where(text)
            test = compile_filter(condition, table.shape.columns)
            taken = source.rows(f"SELECT id FROM public.t t WHERE {condition_sql(condition, columns)} ORDER BY id")
            assert [row[0] for row in taken] == [row[0] for row in rows if test(tuple(row))], text
