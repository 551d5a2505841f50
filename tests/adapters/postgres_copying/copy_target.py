"""A database of PostgreSQL that rows are copied into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.harness.servers import Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.url import parse
from tidelock.adapters.ports.staging import Columns, Staging, staged_name
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.postgres.target.staging import stage
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import BeginCopy, EffectId, MergeChunk
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, TakenOver

ACCOUNT = TableName("public", "account")
START = Position("binlog.000001", 4)
MERGED = Position("binlog.000002", 8)
KEYED = ChunkSplit(ACCOUNT, By.KEYS, ("id",), keys=tuple((n,) for n in range(1, 7)))
ACCOUNT_SQL = """CREATE TABLE account (id bigint PRIMARY KEY, email varchar(20) UNIQUE, balance numeric(6,2) NOT NULL,
    CHECK (balance >= 0))"""
COLUMNS = (
    Column("id", Kind.INT, length=8),
    Column("email", Kind.TEXT, length=64),
    Column("balance", Kind.DECIMAL, precision=12, scale=2),
)


def row(id: int, email: str | None = None) -> Row:
    return (id, email if email is not None else f"user{id}", "12.30")


class Copying:
    """A table of the target that is being copied: stages rows for it, and merges them."""

    def __init__(self, target: Target, sink: PostgresSink, taken: TakenOver, name: TableName) -> None:
        self.target, self.sink, self.taken, self.name = target, sink, taken, name
        self.columns: Sequence[Column] = COLUMNS

    @property
    def table(self) -> Binding:
        shape = Shape(TableName("shop", self.name.table), tuple(self.columns))
        return Binding(0, shape, self.taken.tables[self.name])

    async def begin(self, *splits: ChunkSplit) -> Any:
        effect = BeginCopy(self.target.id(self.taken.epoch), splits or (ChunkSplit(self.name),), START)
        return await self.sink.begin_copy(effect)

    async def stage(self, rows: Iterable[Row], batch: int = 100, attempt: EffectId | None = None, **how: Any) -> Any:
        """The attempt's id, and what was staged."""
        id_ = attempt or self.target.id(self.taken.epoch)
        place = self.place(id_, **how)
        batches = columnar(list(rows), batch)
        return id_, await asyncio.to_thread(stage, place, batches)

    def place(self, attempt: EffectId, **how: Any) -> Staging:
        endpoint = parse(self.target.server.url(self.target.database), Path())
        name = staged_name("shop", 0, attempt)
        return Staging(endpoint, "tidelock", name, self.table.shape, self.taken.tables[self.name], **how)

    async def chunk(self, rows: Iterable[Row], **options: Any) -> MergeChunk:
        staged, done = await self.stage(rows)
        options = {"split": ChunkSplit(self.name), "chunk": 0, "rows": done.rows, "without": [], "steps": [], **options}
        key = self.taken.tables[self.name].key
        return MergeChunk(id=self.target.id(self.taken.epoch), staged=staged, key=key, position=MERGED, **options)

    async def merged(self, effect: MergeChunk) -> None:
        assert await self.sink.merge_chunk(effect) == BatchCommitted(effect.id)

    async def failed(self, effect: MergeChunk) -> Any:
        answer = await self.sink.merge_chunk(effect)
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


def columnar(rows: list[Row], batch: int) -> list[Columns]:
    return [[list(c) for c in zip(*rows[at : at + batch], strict=True)] for at in range(0, len(rows), batch)]


class Target:
    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.database = server.database("copying")
        for statement in create_statements("postgres", "tidelock"):
            self.sql(statement)
        self.sql(ACCOUNT_SQL)
        self.sinks: list[PostgresSink] = []
        self.counter = 0

    def sql(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "id, email", table: str = "account") -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT {columns} FROM {table} ORDER BY 1")

    def staged(self) -> list[str]:
        return [r[0] for r in self.sql("SELECT relname::text FROM pg_class WHERE relname LIKE 'staged%' ORDER BY 1")]

    def position(self) -> Position:
        return msgspec.json.decode(self.sql("SELECT position FROM tidelock.tidelock_checkpoint")[0][0], type=Position)

    def wanted(self, ordinal: int, mode: str, key: Row | None = None, table: str = "account") -> None:
        self.sql(
            "INSERT INTO tidelock.tidelock_wanted VALUES ('shop', 0, $1, 'public', $2, $3, $4)",
            ordinal, table, mode, None if key is None else msgspec.msgpack.encode(key),
        )  # fmt: skip

    def id(self, epoch: int) -> EffectId:
        self.counter += 1
        return EffectId(epoch, self.counter)

    def sink(self, **options: Any) -> PostgresSink:
        url = options.pop("url", self.server.url(self.database))
        sink = PostgresSink(url, SinkOptions(**{"feed": "shop", "lanes": 2, "lock_timeout_seconds": 5.0, **options}))
        self.sinks.append(sink)
        return sink

    async def opened(self, *names: TableName, **options: Any) -> Copying:
        sink = self.sink(**options)
        taken = await sink.take_over(list(names or (ACCOUNT,)), START)
        return Copying(self, sink, taken, (names or (ACCOUNT,))[0])


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)
