"""Scripts with COPYs on a connection that asyncpg opened: its answers, its errors, its ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg
import pytest

from bench.harness.servers import Postgres
from tidelock.adapters.postgres.target.script_protocol import ScriptProtocol
from tidelock.adapters.postgres.target.session import script_messages

COPY = "COPY {} FROM STDIN"
ROWS = [b"1\ta\n2\tb\n", b"3\tc\n"]
TWO = f"{COPY.format('one')};\n{COPY.format('two')}"


@pytest.fixture
def database(postgres: Postgres) -> str:
    name = postgres.database("scripts")
    for table in ("one", "two"):
        postgres.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)", database=name)
    return name


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(url, ssl=False)
    try:
        yield connection
    finally:
        connection.terminate()


class Scripts(ScriptProtocol):
    """Sends as a session does."""

    async def run(self, script: str, data: list[bytes]) -> None:
        messages = script_messages(script, data)
        self.begin()
        self._transport.write(messages)
        await self.answer()


@contextlib.asynccontextmanager
async def byte_by_byte(port: int) -> AsyncIterator[int]:
    """A relay that hands each byte of the server's answers on by itself."""
    tasks: set[asyncio.Task[None]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection("127.0.0.1", port)

        async def forward() -> None:
            while data := await reader.read(65536):
                downstream.write(data)

        sending = asyncio.create_task(forward())
        tasks.add(sending)
        try:
            while data := await upstream.read(1):
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            sending.cancel()
            downstream.close()
            writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def counts(connection: asyncpg.Connection[asyncpg.Record]) -> tuple[int, int]:
    row = await connection.fetchrow("SELECT (SELECT count(*) FROM one), (SELECT count(*) FROM two)")
    assert row is not None
    return row[0], row[1]


async def test_two_tables_are_copied_by_one_script_and_asyncpg_goes_on(postgres: Postgres, database: str) -> None:
    async with connected(postgres.url(database)) as connection:
        scripts = Scripts(connection)
        await scripts.run(f"BEGIN;\n{TWO};\nCOMMIT", ROWS)
        assert await counts(connection) == (2, 1)
        await scripts.run("DELETE FROM one; SELECT 1, 2", [])
        assert await counts(connection) == (0, 1)


async def test_answers_may_come_in_any_pieces(postgres: Postgres, database: str) -> None:
    async with byte_by_byte(postgres.port) as port:
        url = postgres.url(database).replace(f":{postgres.port}/", f":{port}/")
        async with connected(url) as connection:
            scripts = Scripts(connection)
            await scripts.run(TWO, ROWS)
            with pytest.raises(asyncpg.UniqueViolationError):
                await scripts.run(TWO, ROWS)
            assert await counts(connection) == (2, 1)


async def test_an_error_is_told_as_asyncpg_tells_it(postgres: Postgres, database: str) -> None:
    """The data of the COPYs behind it are passed over, and the connection is of use again."""
    async with connected(postgres.url(database)) as connection:
        scripts = Scripts(connection)
        with pytest.raises(asyncpg.UniqueViolationError) as caught:
            await scripts.run(f"BEGIN;\n{TWO};\nSELECT 1 / 0;\nCOMMIT", [b"1\ta\n1\tb\n", ROWS[1]])
        error = caught.value
        assert (error.sqlstate, error.table_name, error.constraint_name) == ("23505", "one", "one_pkey")
        assert error.detail == "Key (id)=(1) already exists."
        await scripts.run("ROLLBACK", [])
        assert await counts(connection) == (0, 0)


async def test_a_cancelled_script_leaves_the_connection_closed(postgres: Postgres, database: str) -> None:
    async with connected(postgres.url(database)) as other, connected(postgres.url(database)) as connection:
        await other.execute("BEGIN; LOCK TABLE one")
        running = asyncio.create_task(Scripts(connection).run(f"BEGIN;\n{TWO};\nCOMMIT", ROWS))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1"
        async with asyncio.timeout(10.0):
            while not await other.fetchval(waiting, connection.get_server_pid()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(10.0):
            while not connection.is_closed():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with pytest.raises(asyncpg.InterfaceError):
            await Scripts(connection).run("SELECT 1", [])


async def test_a_server_that_ends_the_session_is_heard(postgres: Postgres, database: str) -> None:
    async with connected(postgres.url(database)) as connection:
        scripts = Scripts(connection)
        with pytest.raises(asyncpg.AdminShutdownError):
            await scripts.run("SELECT pg_terminate_backend(pg_backend_pid())", [])
        assert connection.is_closed()
        with pytest.raises(asyncpg.InterfaceError):
            await scripts.run("SELECT 1", [])


async def test_a_connection_that_is_lost_amid_a_script_is_told(postgres: Postgres, database: str) -> None:
    async with connected(postgres.url(database)) as other, connected(postgres.url(database)) as connection:
        running = asyncio.create_task(Scripts(connection).run("SELECT pg_sleep(100)", []))
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
        async with asyncio.timeout(10.0):
            while not await other.fetchval(sleeping, connection.get_server_pid()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        connection.terminate()
        with pytest.raises(asyncpg.ConnectionDoesNotExistError):
            await running
