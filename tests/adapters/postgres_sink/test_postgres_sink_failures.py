"""The PostgreSQL sink against a real server: which failure is which, and what becomes of a lane."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from bench.harness.servers import Postgres
from tests.adapters.postgres_sink.sink_target import (
    ACCOUNT,
    MANY_ROWS,
    START,
    Proxy,
    Target,
    account,
    committed,
    failed,
    opened,
    sessions_are,
)
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, Row, Shape
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import BatchCommitted
from tidelock.engine.protocol.steps import DeleteRows, UpsertRows


async def test_deadlock_is_transient_and_the_lane_goes_on(target: Target) -> None:
    """The server looks for one when a wait of ours has taken two seconds, long before it looks for the other's."""
    target.sql(f"ALTER DATABASE {target.database} SET deadlock_timeout = '2s'")
    sink, table, epoch = await opened(target, lock_timeout_seconds=60.0)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1), account(2)], True)))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("SET deadlock_timeout = '60s'")
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE account SET flag = 2 WHERE id = 2")
    steps = [UpsertRows(table, [account(i, payload="y")], False) for i in (1, 2)]
    waiting = asyncio.create_task(failed(sink, target.batch(epoch, *steps)))
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND wait_event_type = 'Lock'"
    async with asyncio.timeout(10.0):
        while await asyncio.to_thread(target.sql, blocked, target.database) != [(1,)]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await other.execute("UPDATE account SET flag = 2 WHERE id = 1")
    failure = await waiting
    assert (failure.kind, failure.code) == (ErrorKind.TRANSIENT, "40P01")
    await transaction.rollback()
    await other.close()
    await committed(sink, target.batch(epoch, *steps))
    assert target.rows("id, payload") == [(1, "y"), (2, "y")]


async def test_lock_timeout_is_transient(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=0.2)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    async with other.transaction():
        await other.execute("UPDATE account SET flag = 2")
        failure = await failed(sink, target.batch(epoch, UpsertRows(table, [account(1)], False)))
        assert (failure.kind, failure.code) == (ErrorKind.TRANSIENT, "55P03")
    await other.close()


DEFERRED_REFERENCE = "ALTER TABLE account ADD boss bigint DEFAULT 99 REFERENCES account DEFERRABLE INITIALLY DEFERRED"
RAISING_TRIGGER = """CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
    CREATE TRIGGER no BEFORE INSERT ON account FOR EACH ROW EXECUTE FUNCTION no()"""


@pytest.mark.parametrize(
    ("prepare", "code", "trouble"),
    [
        ("ALTER TABLE account ADD CHECK (payload <> 'hidden')", "23514", ErrorKind.ROW),
        ("ALTER TABLE account ALTER flag TYPE boolean USING true, ADD more int NOT NULL", "23502", ErrorKind.ROW),
        ("DROP TABLE account", "42P01", ErrorKind.TARGET),
        ("ALTER TABLE account DROP COLUMN flag", "42703", ErrorKind.TARGET),
        ("REVOKE INSERT ON account FROM tide", "42501", ErrorKind.TARGET),
        (DEFERRED_REFERENCE, "23503", ErrorKind.ROW),
        (RAISING_TRIGGER, "P0001", ErrorKind.ROW),
    ],
)
async def test_failure_classes(target: Target, prepare: str, code: str, trouble: ErrorKind) -> None:
    login = f"tide_{target.database}"
    target.sql(f"CREATE ROLE {login} LOGIN PASSWORD 's3cret'")
    for grant in ("ALL ON ALL TABLES IN SCHEMA tidelock", "USAGE ON SCHEMA tidelock", "ALL ON account"):
        target.sql(f"GRANT {grant} TO {login}")
    sink, table, epoch = await opened(target, url=target.server.url(target.database, login, "s3cret"))
    target.server.execute_script(prepare.replace("FROM tide", f"FROM {login}"), database=target.database)
    batch = target.batch(epoch, UpsertRows(table, [account(1, payload="hidden")], False))
    failure = await failed(sink, batch)
    assert (failure.code, failure.kind) == (code, trouble)
    assert "hidden" not in failure.message
    assert "s3cret" not in failure.message
    assert target.sql("SELECT count(*) FROM tidelock.tidelock_progress") == [(0,)]


async def test_errors_hold_no_password(target: Target) -> None:
    target.sql(f"CREATE ROLE wrong_{target.database} LOGIN PASSWORD 'right'")
    url = target.server.url(target.database, f"wrong_{target.database}", "s3cret")
    with pytest.raises(TargetError) as error:
        await target.sink(url).take_over([ACCOUNT], START)
    assert "s3cret" not in repr(error.value) + str(error.value) + error.value.hint
    with pytest.raises(TargetError) as error:
        await target.sink("postgresql://me:s3cret@127.0.0.1:1/x").take_over([ACCOUNT], START)
    assert "s3cret" not in repr(error.value) + str(error.value) + error.value.hint
    assert "127.0.0.1:1" in str(error.value)


async def test_missing_bookkeeping_names_the_command(target: Target) -> None:
    with pytest.raises(TargetError) as error:
        await target.sink(schema="elsewhere").take_over([ACCOUNT], START)
    assert "init" in error.value.hint


async def test_server_down_is_transient_until_it_is_back(make_postgres: Callable[..., Postgres]) -> None:
    target = Target(make_postgres())
    sink, table, epoch = await opened(target, synchronous_commit=True)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    target.server.stop()
    batch = target.batch(epoch, UpsertRows(table, [account(2)], True))
    assert (await failed(sink, batch)).kind in (ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT)
    assert (await failed(sink, batch)).kind is ErrorKind.TRANSIENT
    assert (await sink.control()).desired_state == "running"
    target.server.start()
    await committed(sink, batch)
    assert target.rows() == [(1, "user1"), (2, "user2")]
    await sink.close()


async def test_a_batch_is_sent_whole_before_the_first_answer_is_there(target: Target) -> None:
    copy_done = b"c\0\0\0\x04"
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target), lanes=1)
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(0)], True)))
        proxy.sent.clear()
        proxy.answers.clear()
        rows = [account(n) for n in range(1, MANY_ROWS + 1)]
        steps = [UpsertRows(table, rows[:1], True), UpsertRows(table, rows[1:], True)]
        batch = target.batch(epoch, DeleteRows(table, [(0,)]), *steps)
        applying = asyncio.create_task(sink.apply(batch))
        async with asyncio.timeout(10.0):
            while proxy.sent.count(copy_done) < len(steps):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert b"COMMIT" in proxy.sent
        proxy.answers.set()
        assert await applying == BatchCommitted(batch.id)
    assert [id for (id,) in target.rows("id")] == [row[0] for row in rows]


async def test_a_batch_may_copy_into_several_tables(target: Target) -> None:
    tables = [target.table(name, "id int PRIMARY KEY, note text") for name in ("one", "two", "three")]
    columns = [Column("id", Kind.INT), Column("note", Kind.TEXT)]
    sink = target.sink(lanes=1)
    taken = await sink.take_over(tables, START)
    bindings = [Binding(n, Shape(name, tuple(columns)), taken.tables[name]) for n, name in enumerate(tables)]
    rows: list[Row] = [(n, "x") for n in range(MANY_ROWS)]
    steps = [step for table in bindings for step in (DeleteRows(table, [(1,)]), UpsertRows(table, rows, True))]
    batch = target.batch(taken.epoch, *steps)
    assert sum(isinstance(part, CopyCommand) for part in sink._script.steps.of(batch.steps, careful=False)) == 3
    await committed(sink, batch)
    assert [len(target.rows("id", name.table)) for name in tables] == [MANY_ROWS] * 3


async def test_rows_on_their_way_behind_a_statement_that_fails_do_no_harm(target: Target) -> None:
    """The server passes over them, and the session is of use again."""
    sink, table, epoch = await opened(target, lanes=1)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(0)], True)))
    await sessions_are(target, 1)  # that of the takeover may still be on its way out
    backend = target.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidelock/shop'")
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1")
    large = [account(n, payload="x" * 20_000) for n in range(1, 1_001)]
    batch = target.batch(epoch, UpsertRows(table, large, True))
    assert (await failed(sink, batch)).kind is ErrorKind.FENCED
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch - 1")
    await committed(sink, batch)
    assert len(target.rows("id")) == 1_001
    assert target.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'tidelock/shop'") == backend


async def test_an_eager_sink_opens_its_lanes_before_their_first_batch(target: Target) -> None:
    await opened(target, feed="other", lanes=3)
    sink, table, epoch = await opened(target, lanes=3, eager=True)
    await sessions_are(target, 3)
    assert target.sessions("tidelock/other") == 0
    for lane in range(3):
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(lane)], True), lane=lane))
    assert target.sessions() == 3
    await sink.close()
    await sessions_are(target, 0)


async def test_sessions_that_are_being_opened_end_with_the_sink(target: Target) -> None:
    sink, _, _ = await opened(target, eager=True)
    await asyncio.sleep(0)  # the openings begin
    await sink.close()
    await sessions_are(target, 0)
    await sink.take_over([ACCOUNT], START)
    await sessions_are(target, 4)


async def test_what_keeps_a_session_from_being_opened_early_is_told_by_the_first_batch(target: Target) -> None:
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target), lanes=1, eager=True)
        proxy._listener.close()
        batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
        assert (await failed(sink, batch)).kind is ErrorKind.TRANSIENT
        proxy._listener = await asyncio.start_server(proxy._relay, "127.0.0.1", proxy.port)
        await committed(sink, batch)
