"""How fast the PostgreSQL sink takes batches: rows a second, and CPU microseconds a row here and at the server.

`python -m bench.sink_postgres` starts a server of its own.  The row is the six-column account of the peers' workload
(bigint key, unique varchar, numeric, timestamp(6), text, smallint; about 130 bytes).  *fresh*: rows that the log says
are new; *over*: the same rows written again; *delete*: by key.  `--lanes`: batches in flight at once.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Sequence
from pathlib import Path

from adapters.bookkeeping import create_statements
from adapters.postgres.sink import PostgresSink
from adapters.postgres.statements import Statements
from bench.servers import Postgres
from engine.effects import ApplyBatch, DeleteRows, EffectId, Step, UpsertRows
from engine.events import BatchCommitted
from engine.records import Column, Kind, Position, Row, Shape, TableName
from engine.schema import Binding

ACCOUNT = TableName("public", "account")
COLUMNS = (
    Column("id", Kind.INT, length=8),
    Column("email", Kind.TEXT, length=64),
    Column("balance", Kind.DECIMAL, precision=12, scale=2),
    Column("updated_at", Kind.DATETIME, scale=6),
    Column("payload", Kind.TEXT, length=200),
    Column("flag", Kind.INT, length=1),
)
TABLE = """CREATE TABLE account (id bigint PRIMARY KEY, email varchar(64) UNIQUE, balance numeric(12,2),
    updated_at timestamp(6), payload varchar(200), flag smallint)"""
SIZES = {1: 1_000, 100: 20_000, 1_000: 60_000, 5_000: 100_000}
"""Rows a batch: rows in all."""


def rows(count: int) -> list[Row]:
    stamp = "2024-02-29 10:00:00.123456"
    return [(i, f"user{i}@example.com", f"{i % 9999}.50", stamp, f"payload {i} " * 5, i % 3) for i in range(count)]


def server_seconds(server: Postgres) -> float:
    """CPU of the server and all its children, ended ones included; resolution 10 ms."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) == server.pid:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == server.pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / 100


async def run(sink: PostgresSink, epoch: int, first: int, steps: Sequence[Step], lanes: int) -> None:
    """Apply each step as a batch of its own, lane `n` every `lanes`th."""

    async def lane(number: int) -> None:
        for at in range(number, len(steps), lanes):
            batch = ApplyBatch(EffectId(epoch, first + at), number, [steps[at]], b"\0" * 12, 0)
            answer = await sink.apply(batch)
            assert isinstance(answer, BatchCommitted), answer

    await asyncio.gather(*(lane(number) for number in range(lanes)))


async def measure(server: Postgres, lanes: int) -> None:
    database = server.database("bench")
    for statement in [*create_statements("postgres", "tidelock"), TABLE]:
        server.execute(statement, database=database)
    sink = PostgresSink(server.url(database), "bench", lanes=lanes)
    taken = await sink.take_over([ACCOUNT], Position("binlog.000001", 4))
    table = Binding(0, Shape(ACCOUNT, COLUMNS, ("id",)), taken.tables[ACCOUNT])
    build(table)
    print("rows a batch  step      rows/s   batch us   client us/row   server us/row")
    counter = 1
    for size, total in SIZES.items():
        server.execute("TRUNCATE account", database=database)
        parts = [rows(total)[at : at + size] for at in range(0, total, size)]
        work: dict[str, list[Step]] = {
            "fresh": [UpsertRows(table, part, True) for part in parts],
            "over": [UpsertRows(table, part, False) for part in parts],
            "delete": [DeleteRows(table, [(row[0],) for row in part]) for part in parts],
        }
        for name, steps in work.items():
            before, at_server, start = time.process_time(), server_seconds(server), time.perf_counter()
            await run(sink, taken.epoch, counter, steps, lanes)
            seconds, client = time.perf_counter() - start, time.process_time() - before
            remote = server_seconds(server) - at_server
            counter += len(steps)
            print(
                f"{size:12} {name:>6} {total / seconds:11,.0f} {seconds / len(steps) * 1e6:10,.0f} "
                f"{client / total * 1e6:15.2f} {remote / total * 1e6:15.1f}"
            )
    await sink.close()


def build(table: Binding) -> None:
    """What making the statement's text alone costs."""
    statements = Statements(table, "park")
    for size in (1, 1_000):
        step = UpsertRows(table, rows(size), True)
        repeat = 20_000 // size
        start = time.process_time()
        for _ in range(repeat):
            list(statements.of(step, False))
        print(f"text of {size} rows: {(time.process_time() - start) / repeat / size * 1e6:.2f} us a row")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, default=1)
    options = parser.parse_args()
    with Postgres() as server:
        asyncio.run(measure(server, options.lanes))
    print(f"peak memory here {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
