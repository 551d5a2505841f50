"""Stages that need a server: each step through a sink into a real target, and Faust on a real Kafka.

Durability is relaxed, one lane writes, one batch at a time, so rows a second are those of one connection; CPU is that
of this process.  Each kind of step is measured on the rows that the one before it left: fresh rows, the same rows
written over, and their deletes, with and without a second unique key.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Final

import msgspec
import uvloop

from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.micro import account
from bench.micro.suite import Figure
from bench.micro.text import steps
from bench.outcome import version
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted

SERVERS: Final[dict[str, type[Postgres | MariaDb | MySql]]] = {"postgres": Postgres, "mariadb": MariaDb, "mysql": MySql}
SIZES: Final = {1: 1_000, 100: 10_000, 1_000: 60_000}
"""Rows a batch: rows in all."""
KEYS: Final = {"two unique keys": True, "one unique key": False}
FEED: Final = "micro"
ROUNDS: Final = 2
FAUST_RECORDS: Final = 1_000


class Settings(msgspec.Struct, frozen=True):
    """One table to write: at which server, with which keys, in batches of how many rows."""

    server: str
    keys: str
    batch_rows: int

    def name(self, step: str) -> str:
        return f"sink {self.server}/{step}, {self.batch_rows:,} a batch, {self.keys}"


def _settings(server: str) -> list[Settings]:
    return [Settings(server, keys, rows) for keys in KEYS for rows in SIZES]


NAMES: Final = (
    *(one.name(step) for server in SERVERS for one in _settings(server) for step in steps(account.binding())),
    "faust/bare client",
    "faust/through Faust",
)


def measured(names: Sequence[str], versions: dict[str, str]) -> list[Figure]:
    """The figures of one group's names and, in `versions`, the server's.  Raises ServerMissing, ServerFailed."""
    group = names[0].partition("/")[0]
    found = _faust() if group == "faust" else _sink(group.removeprefix("sink "), names, versions)
    return [figure for figure in found if figure.name in names]


def _sink(kind: str, names: Sequence[str], versions: dict[str, str]) -> list[Figure]:
    chosen = [one for one in _settings(kind) if any(one.name(step) in names for step in steps(account.binding()))]
    with SERVERS[kind]() as server:
        versions[kind] = version(server)
        rounds = ([uvloop.run(_figures(server, one)) for _ in range(ROUNDS)] for one in chosen)
        return list(itertools.chain.from_iterable(map(_best, rounds)))


def _best(rounds: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Returns for each step the least CPU, the middle of it, and the most rows a second."""
    return [
        Figure(
            same[0].name,
            min(one.us for one in same),
            statistics.median(one.us for one in same),
            rows_a_second=max(one.rows_a_second or 0.0 for one in same),
        )
        for same in zip(*rounds, strict=True)
    ]


async def _figures(server: Server, settings: Settings) -> list[Figure]:
    """Measure each kind of step, on a new table."""
    unique, rows_in_all = KEYS[settings.keys], SIZES[settings.batch_rows]
    sink = _opened(server, unique)
    taken = await sink.take_over([account.ACCOUNT], Position("log.000001", 4))
    table = Binding(account.TABLE_NUMBER, account.SHAPE, taken.tables[account.ACCOUNT])
    rows = [account.row(number) for number in range(rows_in_all)]
    batches = [rows[at : at + settings.batch_rows] for at in range(0, rows_in_all, settings.batch_rows)]
    counter = 0
    figures = []
    for name, step in steps(table).items():
        effects = [
            ApplyBatch(EffectId(taken.epoch, counter + n), 0, [step(batch)], b"\0" * 12, len(batch))
            for n, batch in enumerate(batches, 1)
        ]
        counter += len(effects)
        seconds, cpu = await _applied(sink, effects)
        us = round(cpu / rows_in_all * 1e6, 3)
        figures.append(Figure(settings.name(name), us, us, rows_a_second=round(rows_in_all / seconds)))
    await sink.close()
    return figures


def _opened(server: Server, unique: bool) -> Sink:
    """A sink on new tables; the bookkeeping's are its own too."""
    database = server.database("micro")
    schema, books = account.ACCOUNT.schema, f"{database}_books"
    postgres = isinstance(server, Postgres)
    place, dialect = ("SCHEMA", "postgres") if postgres else ("DATABASE", "mysql")
    for statement in (
        f"DROP {place} IF EXISTS {schema}",
        f"CREATE {place} {schema}",
        *create_statements("postgres" if postgres else "mysql", books),
        account.ddl(dialect, unique=unique),
    ):
        server.execute(statement, database=database)
    options = SinkOptions(FEED, schema=books, lanes=1)
    if postgres:
        return PostgresSink(server.url(database), options)
    return MySqlSink(server.url(database) + "?sslmode=disable", options)


async def _applied(sink: Sink, effects: Sequence[ApplyBatch]) -> tuple[float, float]:
    """Seconds on the clock and of CPU."""
    gc.collect()
    begun, cpu = time.perf_counter(), time.process_time()
    for effect in effects:
        answer = await sink.apply(effect)
        assert isinstance(answer, BatchCommitted), answer
    return time.perf_counter() - begun, time.process_time() - cpu


def _faust() -> list[Figure]:
    from bench import faust_cost  # Faust and Kafka's client, of the `stream` extra

    result = faust_cost.measure(FAUST_RECORDS, rounds=1)
    cost = result["cpu_us_a_row"]
    assert isinstance(cost, dict)
    ways = {"faust/bare client": "bare", "faust/through Faust": "faust"}
    return [Figure(name, cost[way], cost[way], faust_cost.ROW_BYTES) for name, way in ways.items()]
