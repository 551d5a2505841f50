"""A target that is away for long: what is tried again and again costs no memory.

Told in a process of its own, since how often Python's collector looks is the process's setting.
"""

import subprocess
import sys
from collections.abc import Callable

import pytest

from bench.harness.servers import Server
from tidelock.adapters.bookkeeping.tables import create_statements

GROWTH_MB = 4.0
TRIES = """
import asyncio, gc, logging, sys
import uvloop
from tidelock.adapters.process.gc_tuning import calm
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.protocol.effects import ApplyBatch, EffectId, SaveCheckpoint
from tidelock.engine.protocol.steps import UpsertRows
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, CheckpointFailed
from tidelock.engine.model.records import Column, Kind, Position, Shape, TableName
from tidelock.engine.model.schema import Binding

LANES, ROUNDS, ROWS = 4, 15, 1_000
logging.disable()

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

async def main(url, schema):
    calm()
    sink = (PostgresSink if url.startswith("postgres") else MySqlSink)(
        url, SinkOptions("away", lanes=LANES, schema="books")
    )
    table = TableName(schema, "t")
    at = Position("log.000001", 4)
    taken = await sink.take_over([table], at)
    shape = Shape(table, (Column("id", Kind.INT, length=8), Column("note", Kind.TEXT)))
    binding = Binding(1, shape, taken.tables[table])
    for lane in range(LANES):  # each has a session to lose
        answer = await sink.apply(ApplyBatch(EffectId(taken.epoch, 50 + lane), lane, [], b"covered", 0))
        assert isinstance(answer, BatchCommitted), answer
    print("ready", flush=True)
    sys.stdin.readline()
    batches = [
        ApplyBatch(
            EffectId(taken.epoch, lane + 1), lane,
            [UpsertRows(binding, [(lane * ROWS + n, "x" * 200) for n in range(ROWS)], False)],
            b"covered", ROWS,
        )
        for lane in range(LANES)
    ]

    async def tried():
        for _ in range(ROUNDS):
            answers = await asyncio.gather(*map(sink.apply, batches))
            assert all(isinstance(answer, BatchFailed) for answer in answers), answers
            saved = await sink.save_checkpoint(SaveCheckpoint(EffectId(taken.epoch, 99), at, ()))
            assert isinstance(saved, CheckpointFailed), saved
            await sink.control()

    await tried()
    gc.collect()
    before = resident_mb()
    await tried()
    await tried()
    print(resident_mb() - before, gc.collect() / (2 * ROUNDS * (LANES + 2)))

uvloop.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("maker", "trouble"),
    [
        ("make_postgres", "killed"),
        ("make_mariadb", "refusing"),
        pytest.param("make_postgres", "refusing", marks=pytest.mark.proof),
        pytest.param("make_mariadb", "killed", marks=pytest.mark.proof),
    ],
)
def test_trying_again_holds_nothing_of_the_tries_before(
    maker: str, trouble: str, request: pytest.FixtureRequest
) -> None:
    make: Callable[[], Server] = request.getfixturevalue(maker)
    server = make()
    database = server.database("away")
    postgres = server.scheme == "postgresql"
    for statement in create_statements("postgres" if postgres else "mysql", "books"):
        server.execute(statement, database=database)
    server.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text)", database=database)
    with subprocess.Popen(
        [sys.executable, "-c", TRIES, server.url(database), "public" if postgres else database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as trying:
        assert trying.stdout is not None
        assert trying.stdout.readline() == "ready\n"
        if trouble == "killed":
            server.kill()
        else:
            server.execute("DROP SCHEMA books CASCADE" if postgres else "DROP DATABASE books", database=database)
        said, _ = trying.communicate("the target is away\n")
    assert trying.returncode == 0
    grown_mb, left_over = map(float, said.split())
    assert grown_mb < GROWTH_MB
    assert left_over < 1, "objects a try that only the collector can free"
