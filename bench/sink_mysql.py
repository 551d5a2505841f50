"""What the MySQL sink costs: rows a second and client CPU a row, by batch size.

Run: `python -m bench.sink_mysql [mariadb|mysql] …`.  One lane, relaxed durability, no TLS, rows of 300 bytes, with and
without a second unique key.  Wall times of shared cores differ by a third between runs; CPU is steadier.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import msgspec
import uvloop

from adapters.bookkeeping import create_statements
from adapters.mysql.sink import MySqlSink
from bench.servers import MariaDb, MySql, Server
from engine.effects import ApplyBatch, DeleteRows, EffectId, Step, UpsertRows
from engine.events import BatchCommitted
from engine.records import Column, Kind, Position, Row, Shape, TableName
from engine.schema import Binding

SERVERS: dict[str, type[MariaDb] | type[MySql]] = {"mariadb": MariaDb, "mysql": MySql}
BATCH_ROWS = {1: 2_000, 100: 20_000, 1000: 30_000}
"""Rows to write, by rows a batch."""
TABLE = """
  id bigint PRIMARY KEY, email varchar(64) {unique}, balance decimal(12,2), updated_at datetime(6), profile json,
  visits int, note text, flag tinyint"""
COLUMNS = (
    Column("id", Kind.INT),
    Column("email", Kind.TEXT),
    Column("balance", Kind.DECIMAL),
    Column("updated_at", Kind.DATETIME),
    Column("profile", Kind.JSON),
    Column("visits", Kind.INT),
    Column("note", Kind.TEXT),
    Column("flag", Kind.INT),
)


class Figure(msgspec.Struct, frozen=True):
    """`client_us`: of CPU in this process, a row."""

    server: str
    work: str
    batch_rows: int
    rows_a_second: float
    client_us: float

    def __str__(self) -> str:
        return (
            f"{self.server:8} {self.work:28} {self.batch_rows:5} rows a batch: "
            f"{self.rows_a_second:9,.0f} rows/s {self.client_us:7.1f} us client CPU a row"
        )


async def figures(name: str, server: Server) -> list[Figure]:
    """Each kind of work at each batch size, on tables of their own."""
    database = server.database("bench")
    for statement in create_statements("mysql", f"{database}_books"):
        server.execute(statement)
    found: list[Figure] = []
    for unique in ("UNIQUE", ""):
        for batch_rows, total in BATCH_ROWS.items():
            server.execute("DROP TABLE IF EXISTS account", database=database)
            server.execute(f"CREATE TABLE account ({TABLE.format(unique=unique)})", database=database)
            url = server.url(database) + "?sslmode=disable"
            sink = MySqlSink(url, "bench", schema=f"{database}_books", lanes=1)
            place = TableName(database, "account")
            taken = await sink.take_over([place], Position("bin.000001", 4))
            table = Binding(1, Shape(place, COLUMNS, ("id",)), taken.tables[place])
            rows = [_row(n) for n in range(total)]
            batches = [rows[n : n + batch_rows] for n in range(0, total, batch_rows)]
            keys = "two unique keys" if unique else "one unique key"
            works: dict[str, list[Step]] = {
                f"insert, {keys}": [UpsertRows(table, batch, True) for batch in batches],
                f"overwrite, {keys}": [UpsertRows(table, batch, False) for batch in batches],
                f"delete, {keys}": [DeleteRows(table, [row[:1] for row in batch]) for batch in batches],
            }
            for work, steps in works.items():
                wall, cpu = await _timed(sink, taken.epoch, work, steps)
                found.append(Figure(name, work, batch_rows, total / wall, cpu / total * 1e6))
            await sink.close()
    return found


async def _timed(sink: MySqlSink, epoch: int, work: str, steps: Sequence[Step]) -> tuple[float, float]:
    """Seconds on the wall and of CPU."""
    first = {"i": 1, "o": 1_000_000, "d": 2_000_000}[work[0]]
    wall, cpu = time.perf_counter(), time.process_time()
    for n, step in enumerate(steps):
        answer = await sink.apply(ApplyBatch(EffectId(epoch, first + n), 0, [step], b"covered", 1))
        assert isinstance(answer, BatchCommitted), answer
    return time.perf_counter() - wall, time.process_time() - cpu


def _row(n: int) -> Row:
    return (
        n,
        f"someone.{n:08d}@example.org",
        f"{n % 100000}.{n % 100:02d}",
        f"2026-03-04 05:06:07.{n % 1000000:06d}",
        f'{{"tags": ["a", "b", "{n}"], "score": {n % 97}}}',
        n % 1000,
        "It's a note of some length, " * 4,
        n % 2,
    )


def main(names: Sequence[str]) -> None:
    for name in names or list(SERVERS):
        with SERVERS[name]() as server:
            for figure in uvloop.run(figures(name, server)):
                print(figure, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
