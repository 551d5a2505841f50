"""Rows that a copy reads from a PostgreSQL source are, value by value, those that its log has; which rows, and in which
chunk, is what the ledger says of the log's rows."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from bench.harness.logical import Log, decoded, log
from bench.harness.postgres_values import HELD, TYPES, UNHELD
from bench.harness.servers import Postgres
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read as read_feed
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.postgres.logical.consistent_view import view_of
from tidelock.adapters.row_copy import splitting
from tidelock.adapters.row_copy.job import Job
from tidelock.adapters.row_copy.keyed import rows_of_keys
from tidelock.adapters.row_copy.reading import _scan
from tidelock.adapters.row_copy.selection import condition, listed, place
from tidelock.adapters.row_copy.source import CopySource, sources
from tidelock.adapters.row_copy.task import by_column
from tidelock.adapters.spark.jdbc import Database
from tidelock.adapters.wiring.source_tables import SourceTables, connect
from tidelock.engine.model.chunk_ranges import By, ChunkSplit, chunk_of
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable

T = TableName("public", "t")


class Source:
    """A database with a log, read as a copy reads it."""

    def __init__(self, server: Postgres, database: str, log: Log) -> None:
        self.server, self.database, self.log = server, database, log
        text = f"feed: f\nsource: {server.url(database)}\ntarget: postgresql://nobody@127.0.0.1:1/none\n"
        feed = read_feed(f"{text}tables: [{{source: public.*}}]\n", Path("feed.yaml"))
        few = {"copy": replace(feed.copy, chunk_rows=10), "spark": replace(feed.spark, piece_rows=50)}
        self.feed: Feed = replace(feed, **few)
        self.asked: SourceTables = connect(self.feed.source_url)

    def table(self, name: TableName = T) -> CopySource:
        return asyncio.run(sources(self.feed, self.asked, [name]))[name]

    def logged(self) -> dict[TableName, list[Row]]:
        """The rows that were inserted, as the log's decoder has them."""
        chunks, _ = decoded(self.log.messages(keep=True), self.log.start, self.log.catalogue)
        shapes, rows = {}, dict[TableName, list[Row]]()
        for chunk in chunks:
            shapes |= chunk.shapes
            for transaction in chunk.transactions:
                for change in transaction.rows:
                    assert change.after is not None
                    rows.setdefault(shapes[change.table].name, []).append(change.after)
        return rows

    def split(self, source: CopySource) -> ChunkSplit:
        there = target_of(source)
        wishes, found = [Wanted(0, there.name, "copy")], {there.name: source}
        return asyncio.run(splitting.splits(self.feed, self.asked, wishes, {there.name: there}, found))[0]

    def rows(self, source: CopySource, where: str) -> list[Row]:
        came = self.asked.rows(f"SELECT {listed(source.read)} FROM {source.place} t WHERE {where}")
        return list(zip(*source.reading.columns()(by_column(came, len(source.read))), strict=True))


def target_of(source: CopySource) -> TargetTable:
    columns = tuple(TargetColumn(c.name, c.type) for c in source.table.columns)
    return TargetTable(source.target, columns, source.key)


@pytest.fixture
def source(postgres: Postgres) -> Iterator[Source]:
    database = postgres.database("reading")
    postgres.execute_script(TYPES, database=database)
    with log(postgres, database) as of:
        made = Source(postgres, database, of)
        yield made
        made.asked.close()


def exactly(row: Row) -> list[Any]:
    """Equal where the values are the same to the last bit."""
    return [struct.pack("<d", value) if isinstance(value, float) else (type(value).__name__, value) for value in row]


def spark_rows(source: Source, spark: Any, table: CopySource) -> list[Row]:
    """Through Spark, as the task of a chunk has them."""
    frame = Job(table, ChunkSplit(table.target), (0,), ()).frame(spark, Database(source.feed.source_url))
    columns = table.reading.columns()
    rows: list[Row] = []
    for batch in frame.toArrow().to_batches():
        rows += zip(*columns([column.to_pylist() for column in batch.columns]), strict=True)
    return rows


def viewed_rows(source: Source, table: CopySource) -> list[Row]:
    """Through a view, as rows without a key are read."""
    columns, rows = table.reading.columns(), list[Row]()
    with view_of(source.feed.source_url, table.table.name) as view:
        for batch in view.batches(f"SELECT {listed(table.read)} FROM {table.place} t", 5):
            rows += zip(*columns(by_column(batch, len(table.read))), strict=True)
    return rows


def filled(values: Sequence[Sequence[str]]) -> list[str]:
    """Rows of literals: each value of each column once at least, and a row of NULLs."""
    longest = max(map(len, values))
    rows = [[column[n % len(column)] for column in values] for n in range(longest)]
    texts = [", ".join("'" + value.replace("'", "''") + "'" for value in row) for row in rows]
    return [*texts, ", ".join(["NULL"] * len(values))]


def test_each_value_is_the_logs(source: Source, spark: Any) -> None:
    types = list(HELD)
    columns = ", ".join(f'"c {n}" {type_}' for n, type_ in enumerate(types))
    values = filled([[*HELD[type_][1], *UNHELD.get(type_, ())] for type_ in types])
    # A role, a database or a session may spell values otherwise.
    settings = "ALTER DATABASE {} SET datestyle = 'SQL, DMY'; ALTER DATABASE {} SET bytea_output = 'escape'"
    source.server.execute_script(settings.replace("{}", source.database), database=source.database)
    source.log.run(
        [
            f"CREATE TABLE t (twice int GENERATED ALWAYS AS (id * 2) STORED, id int PRIMARY KEY, {columns})",
            "ALTER TABLE t REPLICA IDENTITY FULL",
            *(f"INSERT INTO t VALUES (DEFAULT, {n}, {texts})" for n, texts in enumerate(values)),
        ]
    )
    table = source.table()
    assert [c.name for c in table.table.columns if not c.logged] == ["twice"]
    wanted = sorted(map(exactly, source.logged()[T]), key=str)
    assert len(wanted) > 4
    read = spark_rows(source, spark, table), viewed_rows(source, table), source.rows(table, "true")
    for rows in read:
        found = sorted(map(exactly, rows), key=str)
        assert [differing(types, *pair) for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]] == []


def differing(types: Sequence[str], one: Sequence[Any], other: Sequence[Any]) -> list[tuple[str, Any, Any]]:
    """The values that differ, so that a failure names the type."""
    named = zip(["id", *types], one, other, strict=True)
    return [(type_, value, expected) for type_, value, expected in named if value != expected]


def test_random_floats_and_texts_are_the_logs(source: Source, spark: Any) -> None:
    chance = Random(7)
    rows = []
    for n in range(300):
        number = struct.unpack("<d", chance.randbytes(8))[0]
        single = struct.unpack("<f", chance.randbytes(4))[0]
        signs = ((chance.randint(1, 127), chance.randint(160, 0xD7FF), 0x1F600) for _ in range(9))
        word = "".join(chr(chance.choice(sign)) for sign in signs)
        quoted = word.replace("'", "''")
        rows.append(f"({n}, '{number!r}'::float8, '{single!r}'::float4, '{quoted}', '\\x{chance.randbytes(9).hex()}')")
    source.log.run(
        [
            "CREATE TABLE t (id int PRIMARY KEY, d float8, f float4, w text, b bytea)",
            f"INSERT INTO t VALUES {', '.join(rows)}",
        ]
    )
    found = sorted(map(exactly, spark_rows(source, spark, source.table())), key=str)
    assert found == sorted(map(exactly, source.logged()[T]), key=str)


# ---------------------------------------------------------------------- chunks

ROWS = 100
# name → (columns and key, values of row n, what it is split by)
TABLES: dict[str, tuple[str, Any, By]] = {
    "number": ("n bigint PRIMARY KEY", lambda n: f"{(n - 50) * 184467440737095516}", By.NUMBERS),
    "pair": ("a int, b smallint, PRIMARY KEY (a, b)", lambda n: f"{n // 7 - 3}, {n % 7}", By.NUMBERS),
    "ids": ("u uuid PRIMARY KEY", lambda n: f"'{UUID(int=n * (1 << 121) + n)}'", By.ORDERED),
    "words": (
        'w text COLLATE "C" PRIMARY KEY', lambda n: f"E'{ascii_letters[n // 2]}\\\\''{'é' * (n % 2)}'", By.ORDERED,
    ),
    "decimal": ("d numeric(9,3) PRIMARY KEY", lambda n: "'NaN'" if n == 99 else f"{(n - 40) / 8}", By.ORDERED),
    "whole": ("d numeric(18) PRIMARY KEY", lambda n: f"{(n - 40) * 10**16}", By.ORDERED),
    "led": (
        "u uuid, at timestamptz, PRIMARY KEY (u, at)",
        lambda n: f"'{UUID(int=n // 3)}', 'epoch'::timestamptz + '{n} s'",
        By.ORDERED,
    ),
    "language": ("w text PRIMARY KEY", lambda n: f"'{chr(96 + n % 26)}Ü{n}'", By.DIGEST),
    "large": ("d numeric(30,2) PRIMARY KEY", lambda n: "'NaN'" if n == 99 else f"{n * 10**25}.5", By.DIGEST),
    "moments": (
        "a timestamp(3), b timestamptz, c date, d time, PRIMARY KEY (a, b, c, d)",
        lambda n: ("'infinity', '-infinity', 'infinity', '24:00'" if n == 99 else
                   f"'2024-01-01'::timestamp + '{n * 0.5} s', '0001-01-03 BC'::timestamptz + '{n} days', "
                   f"'9999-12-01'::date + {n}, '10:00'::time + '{n * 0.25} s'"),
        By.DIGEST,
    ),
    "odd": ("a boolean, b bytea, c char(5), d mood, e varchar(9), PRIMARY KEY (b, a, c, d, e)",
            lambda n: f"{n % 2 == 0}, '\\x{n:04x}', 'x{n % 9}', 'it''s ok', '{n}'", By.DIGEST),
    "whole numbers of no size": ("d numeric PRIMARY KEY", lambda n: f"{n}.0", By.BUCKET),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_in_the_chunk_that_the_ledger_says(source: Source, name: str) -> None:
    columns, values, by = TABLES[name]
    source.log.run(
        [
            f"CREATE TABLE t ({columns})",
            f"INSERT INTO t VALUES {', '.join(f'({values(n)})' for n in range(ROWS))}",
            "ANALYZE t",
        ]
    )
    table = source.table()
    if by is By.DIGEST:  # few rows are one chunk else
        table_split = ChunkSplit(T, By.DIGEST, table.key, tuple(((1 << 32) * n // 5,) for n in range(1, 5)))
        assert source.split(table) in (ChunkSplit(T), replace(table_split, bounds=())), "a few rows are one chunk"
        assert splitting._bucketed(table, target_of(table)) == table.key
    else:
        table_split = source.split(table)
        assert table_split.by is by and (len(table_split.bounds) > 5) == (by is not By.BUCKET)
    assert table_split.fault() == ""
    chunk = chunk_of(table_split, table.mapping.shape)
    of_column = table.columns.__getitem__
    seen = list[Row]()
    for number in range(table_split.chunks):
        found = source.rows(table, condition(table_split, number, of_column))
        assert {chunk(row) for row in found} <= {number}
        seen += found
    assert sorted(map(repr, seen)) == sorted(map(repr, source.logged()[T])) and len(seen) == ROWS
    if by is By.DIGEST:
        places = source.asked.rows(f"SELECT {place(table_split, of_column)}, {listed(table.read)} FROM {table.place} t")
        rows = zip(*table.reading.columns()(by_column([row[1:] for row in places], len(table.read))), strict=True)
        assert [int(number) for number, *_ in places] == [chunk(row) for row in rows]
        assert len({number for number, *_ in places}) == 5


def test_ranges_are_read_by_the_index(source: Source) -> None:
    for name in ("ids", "words", "decimal"):
        columns, _, _ = TABLES[name]
        source.log.run(["DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})"])
        table = source.table()
        bound: int | str = {"ids": str(UUID(int=5)), "words": "b'\\", "decimal": -1500}[name]  # type: ignore[assignment]
        where = condition(ChunkSplit(T, By.ORDERED, table.key, ((bound,),)), 1, table.columns.__getitem__)
        source.asked.rows("SET enable_seqscan = off")
        plan = source.asked.rows(f"EXPLAIN SELECT FROM {table.place} t WHERE {where}")
        assert any("Index Cond" in str(line) for (line,) in plan), f"{name}: {plan}"


def test_a_scan_in_pieces_reads_one_snapshot(source: Source, spark: Any) -> None:
    """A row that moves to a block which was read before would be missing in all pieces."""
    source.log.run(
        [
            "CREATE TABLE t (w text PRIMARY KEY, filler text) WITH (autovacuum_enabled = off)",
            "INSERT INTO t SELECT n::text, repeat('x', 500) FROM generate_series(1, 600) n",
            "ANALYZE t",
        ]
    )
    table = source.table()
    split = ChunkSplit(T, By.DIGEST, ("w",), ((1 << 31,),))
    with _scan(source.feed, source.asked, table, 2) as scan:
        assert len(scan.pieces) > 3 and scan.snapshot
        job = Job(table, split, (0, 1), (), scan.pieces, scan.cuts, scan.snapshot)
        source.log.run(["UPDATE t SET filler = 'new'", "DELETE FROM t WHERE w::int > 300"])
        frame = job.frame(spark, Database(source.feed.source_url))
        rows = [(row.c0, row.c1, row.part) for row in frame.collect()]
    chunk = chunk_of(split, table.mapping.shape)
    assert len(rows) == 600 and {word for word, *_ in rows} == {str(n) for n in range(1, 601)}
    assert {filler for _, filler, _ in rows} == {"x" * 500}, "as it was when the snapshot was taken"
    assert all(chunk((word, filler)) == part for word, filler, part in rows)


def test_rows_of_keys(source: Source) -> None:
    source.log.run(
        [
            "CREATE TABLE t (k text, n numeric(6,2), u uuid, b boolean, v int[], PRIMARY KEY (k, n, u, b))",
            ("INSERT INTO t SELECT concat('k', chr(39), n), n / 4.0, lpad(n::text, 32, '0')::uuid, n % 2 = 0, ARRAY[n] "
            "FROM generate_series(0, 9) n"),
        ]
    )
    table = source.table()
    logged = source.logged()[T]
    wanted = (*(row[:4] for row in logged[2:5]), ("k'", "1.00", str(UUID(int=1)), 1))
    split = ChunkSplit(T, By.KEYS, table.key, keys=wanted)
    batches = rows_of_keys(source.asked, table, split, target_of(table))
    assert sorted(row for batch in batches for row in zip(*batch, strict=True)) == sorted(logged[2:5])


def test_where_the_log_tells_the_identity_alone_chunks_are_told_by_it(source: Source) -> None:
    source.log.run(
        [
            "CREATE TABLE t (id int PRIMARY KEY, u uuid UNIQUE NOT NULL)",
            "ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key",
            f"INSERT INTO t SELECT n, (lpad(to_hex(n), 32, '0'))::uuid FROM generate_series(1, {ROWS}) n",
        ]
    )
    table = source.table()
    assert table.key == ("u",) and source.split(table).columns == ("u",)


def test_partitions_are_read_as_one_table(source: Source, spark: Any) -> None:
    source.log.run(
        [
            "CREATE TABLE t (id int PRIMARY KEY, w text) PARTITION BY RANGE (id)",
            "CREATE TABLE t0 PARTITION OF t FOR VALUES FROM (0) TO (50)",
            "CREATE TABLE t1 PARTITION OF t DEFAULT",
            f"INSERT INTO t SELECT n, 'x' FROM generate_series(1, {ROWS}) n",
            "ANALYZE t0; ANALYZE t1",
        ]
    )
    table = source.table()
    assert table.rows == ROWS
    split = ChunkSplit(T, By.DIGEST, ("id",), ((1 << 31,),))
    with _scan(source.feed, source.asked, table, 2) as scan:
        job = Job(table, split, (0, 1), (), scan.pieces, scan.cuts, scan.snapshot)
        frame = job.frame(spark, Database(source.feed.source_url))
        assert sorted(int(row.c0) for row in frame.collect()) == [*range(1, ROWS + 1)]
