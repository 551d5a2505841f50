"""A database of MySQL or MariaDB that rows are copied into."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from bench.harness.servers import MySql, Server
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.url import parse
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.mysql.target.staging import stage
from tidelock.adapters.ports.staging import Columns, Staged, Staging, staged_name
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Failure
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import BeginCopy, EffectId, MergeChunk
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, CopyBegun, TakenOver

START, LATER = Position("bin.000001", 4), Position("bin.000002", 400)
INT, TEXT = Kind.INT, Kind.TEXT
TWO_UNIQUE = "id int PRIMARY KEY, u varchar(20) UNIQUE, x int"
ID_U_X = (("id", INT), ("u", TEXT), ("x", INT))


class Target:
    """A fresh database with bookkeeping, a sink on it that owns the feed, and what is staged there."""

    def __init__(self, server: Server, folder: Any) -> None:
        self.server = server
        self.folder = folder
        self.database = server.database("copy")
        self.books = f"{self.database}_books"
        for statement in create_statements("mysql", self.books):
            server.execute(statement)
        self.sinks: list[MySqlSink] = []
        self.counters = itertools.count(1)
        self.names: list[str] = []
        self.user = "root"

    @property
    def mysql(self) -> bool:
        return isinstance(self.server, MySql)

    def table(self, definition: str, name: str = "t") -> None:
        self.sql(f"CREATE TABLE `{name}` ({definition})")
        self.names.append(name)

    def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "*", name: str = "t") -> list[tuple[Any, ...]]:
        return sorted(self.sql(f"SELECT {columns} FROM `{name}`"))

    def book(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        return sorted(self.server.execute(f"SELECT {columns} FROM `{self.books}`.tidelock_{name}"))

    def staged_tables(self) -> list[str]:
        asked = "SELECT table_name FROM information_schema.tables WHERE table_schema=%s AND table_name LIKE 'staged%%'"
        return sorted(name for (name,) in self.server.execute(asked, self.books))

    @property
    def url(self) -> str:
        return self.server.url(self.database).replace("//root@", f"//{self.user}@")

    async def own(self) -> TakenOver:
        sink = MySqlSink(
            self.url, SinkOptions("feed", schema=self.books, lanes=3, lock_timeout_seconds=2, origin="here")
        )
        self.sinks.append(sink)
        self.taken = await sink.take_over([self.name(name) for name in self.names], START)
        return self.taken

    @property
    def sink(self) -> MySqlSink:
        return self.sinks[-1]

    def name(self, name: str = "t") -> TableName:
        return TableName(self.database, name)

    def id(self) -> EffectId:
        return EffectId(self.taken.epoch, next(self.counters))

    def shape(self, *columns: tuple[str, Kind] | Column, name: str = "t") -> Shape:
        return Shape(TableName("src", name), tuple(c if isinstance(c, Column) else Column(*c) for c in columns))

    def binding(self, *columns: tuple[str, Kind] | Column, name: str = "t") -> Binding:
        return Binding(1, self.shape(*columns, name=name), self.taken.tables[self.name(name)])

    def staging(self, attempt: EffectId, *columns: tuple[str, Kind] | Column, name: str = "t") -> Staging:
        return Staging(
            parse(self.url, self.folder),
            self.books,
            staged_name("feed", 0, attempt),
            self.shape(*columns, name=name),
            self.taken.tables[self.name(name)],
        )

    def stage(
        self, rows: Sequence[Row], *columns: tuple[str, Kind] | Column, name: str = "t"
    ) -> tuple[EffectId, Staged]:
        attempt = self.id()
        batches = [by_column(rows, columns or ID_U_X)] if rows else []
        return attempt, stage(self.staging(attempt, *(columns or ID_U_X), name=name), batches)

    def staged_rows(self, attempt: EffectId, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.server.execute(f"SELECT {columns} FROM `{self.books}`.`{staged_name('feed', 0, attempt)}`"))

    async def begun(self, *splits: ChunkSplit) -> None:
        effect = BeginCopy(self.id(), splits, LATER)
        assert await self.sink.begin_copy(effect) == CopyBegun(effect.id)

    def merge(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> MergeChunk:
        """Merge of the only chunk of the table, unless `more` says otherwise."""
        defaults: dict[str, Any] = {
            "split": ChunkSplit(self.name(name)),
            "chunk": 0,
            "key": self.taken.tables[self.name(name)].key,
            "without": [],
            "steps": [],
            "position": LATER,
        }
        return MergeChunk(self.id(), staged, rows=rows, **(defaults | more))

    async def merged(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> None:
        effect = self.merge(staged, rows, name, **more)
        answer = await self.sink.merge_chunk(effect)
        assert answer == BatchCommitted(effect.id), answer

    async def refused(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> Failure:
        answer = await self.sink.merge_chunk(self.merge(staged, rows, name, **more))
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


def by_column(rows: Sequence[Row], columns: Sequence[object]) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]




async def eventually(true: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
