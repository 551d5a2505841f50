"""A database of a real server with bookkeeping in it, for tests of the PostgreSQL sink."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from bench.harness.servers import Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.records import Column, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, EffectId
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, TakenOver
from tidelock.engine.protocol.steps import Step

MANY_ROWS = 50
ACCOUNT = TableName("public", "account")
START = Position("binlog.000001", 4)
ACCOUNT_SQL = """CREATE TABLE account (id bigint PRIMARY KEY, email varchar(64) UNIQUE, balance numeric(12,2),
    updated_at timestamp(6), payload text, flag smallint)"""
ACCOUNT_COLUMNS = (
    Column("id", Kind.INT, length=8),
    Column("email", Kind.TEXT, length=64),
    Column("balance", Kind.DECIMAL, precision=12, scale=2),
    Column("updated_at", Kind.DATETIME, scale=6),
    Column("payload", Kind.TEXT),
    Column("flag", Kind.INT, length=1),
)


def account(id: int, email: str | None = None, payload: Any = "x") -> Row:
    return (id, email if email is not None else f"user{id}", "12.30", "2024-02-29 10:00:00.123456", payload, 1)


class Target:
    """A database of the server with bookkeeping in it, and the sinks a test opens on it."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.database = server.database("sink")
        for statement in create_statements("postgres", "tidelock"):
            self.sql(statement)
        self.sql(ACCOUNT_SQL)
        self.sinks: list[PostgresSink] = []
        self.counter = 0

    def sql(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "id, email", table: str = "account") -> list[tuple[Any, ...]]:
        return self.sql(f"SELECT {columns} FROM {table} ORDER BY 1")

    def sink(self, url: str = "", **options: Any) -> PostgresSink:
        options = {"feed": "shop", "lanes": 4, "lock_timeout_seconds": 5.0, **options}
        sink = PostgresSink(url or self.server.url(self.database), SinkOptions(**options))
        self.sinks.append(sink)
        return sink

    def table(self, name: str, definition: str) -> TableName:
        self.sql(f"CREATE TABLE {name} ({definition})")
        return TableName("public", name)

    def sessions(self, name: str = "tidelock/shop") -> int:
        found: int = self.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name)[0][0]
        return found

    def batch(self, epoch: int, *steps: Step, **options: Any) -> ApplyBatch:
        self.counter += 1
        options = {"lane": 0, "covered": b"covered", "rows": 1, **options}
        return ApplyBatch(id=EffectId(epoch, self.counter), steps=list(steps), **options)


def bind(taken: TakenOver, columns: Sequence[Column] = ACCOUNT_COLUMNS, name: TableName = ACCOUNT) -> Binding:
    return Binding(0, Shape(TableName("shop", name.table), tuple(columns)), taken.tables[name])


async def opened(target: Target, **options: Any) -> tuple[PostgresSink, Binding, int]:
    sink = target.sink(**options)
    taken = await sink.take_over([ACCOUNT], START)
    return sink, bind(taken), taken.epoch


async def committed(sink: PostgresSink, batch: ApplyBatch) -> None:
    assert await sink.apply(batch) == BatchCommitted(batch.id)


async def failed(sink: PostgresSink, batch: ApplyBatch) -> Any:
    answer = await sink.apply(batch)
    assert isinstance(answer, BatchFailed), answer
    assert answer.id == batch.id
    return answer.failure


class Proxy:
    """A loopback relay; `cut_answer`: let the next request through, then cut both ends before its answer returns.

    `answers`: while it is not set, no answer returns.  `sent`: all that went to the server.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self.cut_answer = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.sent = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        self._listener = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream, downstream = await asyncio.open_connection("127.0.0.1", self._server_port)
        forward = asyncio.create_task(self._copy(reader, downstream))
        try:
            while answer := await upstream.read(65536):
                if self.cut_answer:
                    self.cut_answer = False
                    break
                await self.answers.wait()
                writer.write(answer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            forward.cancel()
            writer.transport.abort()
            downstream.close()
            self._tasks.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.sent += data
                writer.write(data)
        writer.close()

    def url(self, target: Target) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{target.database}?sslmode=disable"


async def sessions_are(target: Target, number: int) -> None:
    async with asyncio.timeout(10.0):
        while await asyncio.to_thread(target.sessions) != number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
