"""The source says with SQL which rows are in a chunk; the ledger says the same of the log's rows."""

import pytest

from bench.harness.servers.mariadb import MariaDb
from bench.harness.servers.mysql import MySql
from tidelock.engine.model.chunk_ranges import By, ChunkSplit, bucket, chunk_of
from tidelock.engine.model.records import Column, Kind, Shape, TableName

SEAT = TableName("shop", "seat")
SHAPE = Shape(SEAT, (Column("n", Kind.INT), Column("t", Kind.TEXT), Column("b", Kind.BINARY)), ("n", "t", "b"))
ROWS = (
    (0, "", b""),
    (-(2**63), "a", b"\x00"),
    (2**63 - 1, "A ", b"\xff\x00_"),
    (7, "é_😀", b"a"),
    (42, "Ā\t'\\", bytes(range(16))),
)
BUCKET = "crc32(concat_ws('_', n, hex(convert(t USING utf8mb4)), hex(b)))"


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
@pytest.mark.parametrize("charset", ["utf8mb4", "utf16"])
def test_buckets(server: str, charset: str, request: pytest.FixtureRequest) -> None:
    source: MariaDb | MySql = request.getfixturevalue(server)
    shop = source.database("shop")
    columns = f"n bigint, t varchar(20) CHARACTER SET {charset}, b varbinary(20)"
    source.execute(f"CREATE TABLE seat ({columns})", database=shop)
    values = ", ".join(f"({n}, convert(x'{t.encode().hex()}' USING utf8mb4), x'{b.hex()}')" for n, t, b in ROWS)
    source.execute(f"INSERT INTO seat VALUES {values}", database=shop)
    told = {row[0]: row[1] for row in source.execute(f"SELECT n, {BUCKET} FROM seat", database=shop)}
    for row in ROWS:
        at = told[row[0]]
        split = ChunkSplit(SEAT, By.BUCKET, ("n", "t", "b"), ((at,), (at + 1,)))
        assert chunk_of(split, SHAPE)(row) == 1, row


def test_the_number_that_is_told_elsewhere(mariadb: MariaDb) -> None:
    sql = "SELECT crc32(concat_ws('_', 7, hex(convert('é' USING utf8mb4)), hex(x'00ff')))"
    assert (mariadb.execute(sql)[0][0],) == bucket("7_C3A9_00FF")
