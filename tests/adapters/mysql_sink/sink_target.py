"""A database of a real server with bookkeeping in it, for tests of the MySQL sink."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from bench.harness.servers import MySql, Server
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.records import Column, Kind, Position, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, BatchReady, TakenOver
from tidelock.engine.protocol.steps import Step

START = Position("bin.000001", 4)
INT, TEXT = Kind.INT, Kind.TEXT
SECOND_UNIQUE = "id int PRIMARY KEY, u varchar(20) UNIQUE, x int"
SOLE_UNIQUE = "id int PRIMARY KEY, u varchar(20), x int"
ID_U_X = (("id", INT), ("u", TEXT), ("x", INT))


class Target:
    """A fresh database with bookkeeping, and sinks on it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.database = server.database("sink")
        self.books = f"{self.database}_books"
        for statement in create_statements("mysql", self.books):
            server.execute(statement)
        self.sinks: list[MySqlSink] = []
        self.counters = itertools.count(1)

    def sink(self, url: str = "", **options: Any) -> MySqlSink:
        options = {"lanes": 3, "lock_timeout_seconds": 2, "origin": "here", "path": "here>there"} | options
        sink = MySqlSink(url or self.server.url(self.database), SinkOptions("feed", schema=self.books, **options))
        self.sinks.append(sink)
        return sink

    def table(self, definition: str, name: str = "t") -> None:
        self.sql(f"CREATE TABLE `{name}` ({definition})")

    def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "*", name: str = "t") -> list[tuple[Any, ...]]:
        return sorted(self.sql(f"SELECT {columns} FROM `{name}`"))

    def book(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.server.execute(f"SELECT {columns} FROM `{self.books}`.tidelock_{name}")

    async def own(self, sink: MySqlSink, *names: str) -> TakenOver:
        return await sink.take_over([TableName(self.database, name) for name in names], START)

    async def opened(
        self, *columns: tuple[str, Kind] | Column, name: str = "t", **options: Any
    ) -> tuple[MySqlSink, Binding]:
        sink = self.sink(**options)
        taken = await self.own(sink, name)
        return sink, self.binding(taken, *columns, name=name)

    def binding(self, taken: TakenOver, *columns: tuple[str, Kind] | Column, name: str = "t") -> Binding:
        shape = Shape(TableName("src", name), tuple(c if isinstance(c, Column) else Column(*c) for c in columns))
        return Binding(1, shape, taken.tables[TableName(self.database, name)])

    def batch(self, sink: MySqlSink, *steps: Step, lane: int = 0, **more: Any) -> ApplyBatch:
        id = EffectId(sink._fencing.epoch, next(self.counters))
        return ApplyBatch(id, lane, list(steps), b"covered", 1, **more)

    async def apply(self, sink: MySqlSink, *steps: Step, **more: Any) -> BatchCommitted | BatchReady | BatchFailed:
        return await sink.apply(self.batch(sink, *steps, **more))

    async def committed(self, sink: MySqlSink, *steps: Step, **more: Any) -> None:
        answer = await self.apply(sink, *steps, **more)
        assert isinstance(answer, BatchCommitted), answer

    async def failed(self, sink: MySqlSink, *steps: Step, **more: Any) -> BatchFailed:
        answer = await self.apply(sink, *steps, **more)
        assert isinstance(answer, BatchFailed), answer
        return answer


def is_mysql(target: Target) -> bool:
    return isinstance(target.server, MySql)


class Proxy:
    """Between sink and server; once `cut` it loses the answer to COMMIT."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cut = False
        self.reach = True
        self.server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Proxy:
        self.server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.server is not None
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    def url(self, database: str) -> str:
        assert self.server is not None
        return f"mysql://root@127.0.0.1:{self.server.sockets[0].getsockname()[1]}/{database}?sslmode=disable"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, server = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers += [writer, server]
        lost = asyncio.Event()

        async def forward() -> None:
            while data := await reader.read(1 << 16):
                if self.cut and data.endswith(b"COMMIT"):
                    lost.set()
                    if not self.reach:
                        break
                server.write(data)
            if lost.is_set():
                await asyncio.sleep(0.2)
            server.close()
            writer.close()

        async def back() -> None:
            while data := await upstream.read(1 << 16):
                if lost.is_set():
                    break
                writer.write(data)
            writer.close()

        for work in (forward(), back()):
            task = asyncio.create_task(work)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)


async def any_table(target: Target) -> tuple[MySqlSink, Binding]:
    target.table(SOLE_UNIQUE)
    return await target.opened(*ID_U_X)


async def eventually(true: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
