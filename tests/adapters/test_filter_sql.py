"""A row filter as SQL takes exactly the rows that the stream takes."""

import pytest

from bench.harness.servers import Server
from tidelock.adapters.config.row_filter import parse_where
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.adapters.spark.filter_sql import condition_sql
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
