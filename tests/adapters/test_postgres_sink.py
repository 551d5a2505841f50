"""The PostgreSQL sink against a real server: every rule of fencing, exactness and failure it promises."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import asyncpg
import msgspec
import pytest

from bench.harness.servers import Postgres
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.session import application_name
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.adapters.postgres.target.statements import FEW_ROWS
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.model.records import Column, Ddl, DdlKind, Kind, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyPiece,
    CommitBatch,
    DeleteRows,
    EffectId,
    Halt,
    ParkedRow,
    RollbackBatch,
    SaveCheckpoint,
    Step,
    UpdateRows,
    UpsertRows,
)
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    BatchReady,
    CheckpointFailed,
    CheckpointSaved,
    DdlApplied,
    DdlFailed,
    TakenOver,
)

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


@pytest.fixture
async def target(postgres: Postgres) -> AsyncIterator[Target]:
    target = Target(postgres)
    yield target
    for sink in target.sinks:
        await sink.close()


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


# --- ownership, receipts, fence -------------------------------------------------------------------------------------


async def test_takeover_raises_the_epoch_and_reads_what_is_there(target: Target) -> None:
    first, table, epoch = await opened(target, origin="db1", path="db1/shop")
    parked = ParkedRow("0-1", 7, 2, "public", "account", "id=9", "why\0", b"change\0")
    await committed(first, target.batch(epoch, UpsertRows(table, [account(1)], True), parked=(parked, parked)))
    target.sql("UPDATE tidelock.tidelock_owner SET halt = '{}', ddl_passed = 'a:b:12'")

    taken = await target.sink().take_over([ACCOUNT], Position("binlog.000009", 9))

    assert (taken.epoch, taken.checkpoint) == (epoch + 1, START)
    assert [(r.id, r.covered) for r in taken.receipts] == [(EffectId(epoch, 1), b"covered")]
    assert [(p.source, p.number, p.ordinal, p.table, p.change) for p in taken.parked] == [
        ("0-1", 7, 2, ACCOUNT, b"change\0")
    ]
    assert taken.ddl_passed == ("a:b", 12)
    assert list(taken.tables) == [ACCOUNT]
    assert target.sql("SELECT halt FROM tidelock.tidelock_owner") == [(None,)]
    assert target.sql("SELECT origin, path FROM tidelock.tidelock_progress") == [("db1", "db1/shop")]


async def test_takeover_without_a_position_is_an_error_for_the_operator(target: Target) -> None:
    with pytest.raises(TargetError) as error:
        await target.sink().take_over([ACCOUNT], None)
    assert "start" in error.value.hint


async def test_feeds_and_groups_do_not_meet(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await target.sink(feed="other").take_over([ACCOUNT], START)
    await target.sink(group=1).take_over([ACCOUNT], START)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    long = ["a" * 63 + "x", "a" * 63 + "y"]
    assert len({application_name(feed, 0) for feed in long}) == 2
    assert all(len(application_name(feed, 12)) <= 63 for feed in long)


async def test_a_zombie_is_fenced_off_in_everything_it_writes(target: Target) -> None:
    zombie, table, epoch = await opened(target)
    await target.sink().take_over([ACCOUNT], START)

    assert (await failed(zombie, target.batch(epoch, UpsertRows(table, [account(1)], True)))).kind is ErrorKind.FENCED
    saved = await zombie.save_checkpoint(SaveCheckpoint(EffectId(epoch, 90), Position("binlog.000002", 8), ()))
    assert isinstance(saved, CheckpointFailed)
    assert saved.failure.kind is ErrorKind.FENCED
    ddl = Ddl("public", "ALTER TABLE account ADD COLUMN more int", "s", 1, DdlKind.ADD_COLUMN, (ACCOUNT,))
    applied = await zombie.apply_ddl(ApplyDdl(EffectId(epoch, 91), ddl, START), [ACCOUNT])
    assert isinstance(applied, DdlFailed)
    assert applied.failure.kind is ErrorKind.FENCED
    await zombie.record_halt(Halt(Alarm("kind", "message", "hint")))

    assert target.rows() == []
    assert target.sql("SELECT halt, ddl_passed FROM tidelock.tidelock_owner") == [(None, None)]
    assert target.sql("SELECT position FROM tidelock.tidelock_checkpoint") == [(msgspec.json.encode(START).decode(),)]


async def test_an_owner_row_that_is_gone_fences_too(target: Target) -> None:
    sink, table, epoch = await opened(target)
    target.sql("DELETE FROM tidelock.tidelock_owner")
    assert (await failed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))).kind is ErrorKind.FENCED
    assert target.rows() == []


async def test_takeover_waits_for_an_open_batch_and_reads_its_receipt(target: Target) -> None:
    old, table, epoch = await opened(target)
    held = target.batch(epoch, UpsertRows(table, [account(1)], True), held=True)
    assert await old.apply(held) == BatchReady(held.id)

    takeover = asyncio.create_task(target.sink(lock_timeout_seconds=20.0).take_over([ACCOUNT], START))
    await asyncio.sleep(0.3)
    assert not takeover.done()
    assert await old.commit(CommitBatch(held.id)) == BatchCommitted(held.id)

    assert [r.id for r in (await takeover).receipts] == [held.id]


async def test_takeover_ends_an_owner_that_does_not_finish(target: Target) -> None:
    old, table, epoch = await opened(target)
    held = target.batch(epoch, UpsertRows(table, [account(1)], True), held=True)
    assert await old.apply(held) == BatchReady(held.id)
    other, _, other_epoch = await opened(target, feed="other")

    taken = await target.sink(lock_timeout_seconds=0.3).take_over([ACCOUNT], START)

    assert (taken.epoch, taken.receipts) == (epoch + 1, ())
    lost = await old.commit(CommitBatch(held.id))
    assert isinstance(lost, BatchFailed)
    assert lost.failure.kind in (ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT)
    assert (await failed(old, held)).kind is ErrorKind.FENCED
    assert target.rows() == []
    await committed(other, target.batch(other_epoch))  # sessions of other feeds were left alone


async def test_the_first_statement_waits_for_a_takeover_in_flight(target: Target) -> None:
    """A zombie that starts while the epoch is being raised must see the new epoch, not the one it started with."""
    old, table, epoch = await opened(target)
    raising = await asyncpg.connect(target.server.url(target.database), ssl=False)
    transaction = raising.transaction()
    await transaction.start()
    await raising.execute("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1")
    late = asyncio.create_task(failed(old, target.batch(epoch, UpsertRows(table, [account(1)], True))))
    await asyncio.sleep(0.3)
    assert not late.done()
    await transaction.commit()
    await raising.close()
    assert (await late).kind is ErrorKind.FENCED


async def test_a_receipt_that_is_there_answers_for_the_batch(target: Target) -> None:
    sink, table, epoch = await opened(target)
    batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
    await committed(sink, batch)
    target.sql("DELETE FROM account")
    await committed(sink, batch)
    await committed(sink, msgspec.structs.replace(batch, held=True))
    assert target.rows() == []


@pytest.mark.parametrize("held", [False, True])
async def test_lost_answer_of_commit_is_in_doubt_and_the_same_batch_resolves_it(target: Target, held: bool) -> None:
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        await committed(sink, target.batch(epoch))
        batch = target.batch(epoch, UpsertRows(table, [account(1)], True), held=held)
        if held:
            assert await sink.apply(batch) == BatchReady(batch.id)
            proxy.cut_answer = True
            answer = await sink.commit(CommitBatch(batch.id))
        else:
            proxy.cut_answer = True
            answer = await sink.apply(batch)
        assert isinstance(answer, BatchFailed)
        assert answer.failure.kind is ErrorKind.IN_DOUBT
        target.sql("DELETE FROM account")  # a second application would bring the row back
        await committed(sink, batch)
        assert target.rows() == []
        await sink.close()


async def test_connection_lost_before_commit_is_transient_and_the_lane_is_replaced(target: Target) -> None:
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        await committed(sink, target.batch(epoch))
        batch = target.batch(epoch, UpsertRows(table, [account(1)], True), held=True)
        proxy.cut_answer = True
        assert (await failed(sink, batch)).kind is ErrorKind.TRANSIENT
        assert await sink.apply(batch) == BatchReady(batch.id)  # and no lock of the lost session is in its way
        assert await sink.commit(CommitBatch(batch.id)) == BatchCommitted(batch.id)
        assert target.rows() == [(1, "user1")]
        await sink.close()


async def test_a_lost_session_is_ended_before_its_lane_goes_on(target: Target) -> None:
    """The server does not notice that the client of a waiting statement is gone: later it would commit after all."""
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target), lock_timeout_seconds=60.0)
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
        other = await asyncpg.connect(target.server.url(target.database), ssl=False)
        transaction = other.transaction()
        await transaction.start()
        await other.execute("UPDATE account SET flag = 2")
        running = asyncio.create_task(failed(sink, target.batch(epoch, UpsertRows(table, [account(1)], False))))
        await asyncio.sleep(0.3)
        proxy.cut()
        assert (await running).kind is ErrorKind.IN_DOUBT
        assert target.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == [(0,)]
        await transaction.rollback()
        await other.close()
        await sink.close()


async def test_commits_lost_in_a_crash_stand_the_owner_down(make_postgres: Callable[..., Postgres]) -> None:
    """Without waiting for the disk a reported commit can vanish; going on would lose its rows for good."""
    target = Target(make_postgres(extra=["--wal-writer-delay=10s", "--autovacuum=off"], durable=True))
    sink, table, epoch = await opened(target)
    for number in range(1, 6):
        kept = target.rows()
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(number)], True)))
        target.server.kill()
        target.server.start()
        if target.rows() == kept:
            break
        epoch = (await sink.take_over([ACCOUNT], START)).epoch  # the WAL writer woke just then: once more
    else:
        pytest.fail("all commits survived: this test proves nothing")

    failures = [await failed(sink, target.batch(epoch, UpsertRows(table, [account(9)], True))) for _ in range(2)]
    if failures[0].kind is ErrorKind.TRANSIENT:  # the old connection was found dead first
        failures = failures[1:]
    assert failures[0].kind in (ErrorKind.COMMITS_LOST, ErrorKind.IN_DOUBT)
    assert failures[-1].kind is ErrorKind.COMMITS_LOST
    assert "crash" in failures[-1].message
    assert target.rows() == kept
    taken = await sink.take_over([ACCOUNT], START)
    assert (taken.epoch, len(taken.receipts)) == (epoch + 1, len(kept))  # the epoch itself did wait for the disk
    await sink.close()


async def test_a_checkpoint_does_not_step_over_commits_that_a_crash_lost(target: Target) -> None:
    """It names all receipts that were reported, so nothing else would ever miss them.  The answer of a crash, on any
    session: the receipt is not there, and the connections are gone."""
    sink, table, epoch = await opened(target)
    batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
    await committed(sink, batch)
    await sink.control()
    target.sql("DELETE FROM tidelock.tidelock_progress")
    target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidelock/%'")
    save = SaveCheckpoint(EffectId(epoch, 50), Position("binlog.000002", 8), (batch.id,))
    answers = [await sink.save_checkpoint(save) for _ in range(2)]
    assert isinstance(answers[-1], CheckpointFailed)
    assert answers[-1].failure.kind is ErrorKind.COMMITS_LOST
    assert (await failed(sink, target.batch(epoch, lane=2))).kind is ErrorKind.COMMITS_LOST
    await sink.close()


async def test_a_session_opened_while_a_checkpoint_is_in_doubt_still_misses_what_a_crash_lost(target: Target) -> None:
    """The receipts that a checkpoint was to delete may be missing only where that checkpoint is stored."""
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
        await committed(sink, batch)
        await sink.control()
        holder = await asyncpg.connect(target.server.url(target.database), ssl=False)
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("DELETE FROM tidelock.tidelock_progress")
        save = SaveCheckpoint(EffectId(epoch, 50), Position("binlog.000002", 8), (batch.id,))
        saving = asyncio.create_task(sink.save_checkpoint(save))
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        async with asyncio.timeout(10):
            while target.sql(waiting) != [(1,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        await transaction.commit()
        await holder.close()
        assert (await failed(sink, target.batch(epoch, lane=2))).kind is ErrorKind.COMMITS_LOST
        assert isinstance(await saving, CheckpointFailed)
        await sink.close()


async def test_a_checkpoint_survives_a_crash_and_so_does_all_before_it(make_postgres: Callable[..., Postgres]) -> None:
    target = Target(make_postgres(extra=["--wal-writer-delay=10s", "--autovacuum=off"], durable=True))
    sink, table, epoch = await opened(target)
    batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
    await committed(sink, batch)
    reached = Position("binlog.000003", 77)
    await sink.save_checkpoint(SaveCheckpoint(EffectId(epoch, 50), reached, (batch.id,)))
    target.server.kill()
    target.server.start()
    assert target.rows() == [(1, "user1")]
    taken = await sink.take_over([ACCOUNT], START)
    assert (taken.checkpoint, taken.receipts) == (reached, ())
    await sink.close()


async def test_a_checkpoint_in_doubt_is_not_taken_for_lost_commits(target: Target) -> None:
    """Its receipts may be gone because it committed; new sessions must not take that for a crash."""
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        batches = [target.batch(epoch, UpsertRows(table, [account(i)], True)) for i in range(2)]
        for batch in batches:
            await committed(sink, batch)
        await sink.control()
        proxy.cut_answer = True
        save = SaveCheckpoint(EffectId(epoch, 50), Position("binlog.000002", 8), (batches[0].id,))
        answer = await sink.save_checkpoint(save)
        assert isinstance(answer, CheckpointFailed)
        assert answer.failure.kind is ErrorKind.IN_DOUBT
        assert target.sql("SELECT count(*) FROM tidelock.tidelock_progress") == [(1,)]
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(7)], True), lane=3))
        assert await sink.save_checkpoint(save) == CheckpointSaved(save.id)
        target.sql("DELETE FROM tidelock.tidelock_progress WHERE batch = $1", batches[1].id.counter)
        assert (await failed(sink, target.batch(epoch, lane=2))).kind is ErrorKind.COMMITS_LOST
        await sink.close()


async def test_checkpoint_moves_and_drops_exactly_the_named_receipts(target: Target) -> None:
    sink, _, epoch = await opened(target)
    batches = [target.batch(epoch) for _ in range(4)]
    for batch in batches:
        await committed(sink, batch)
    dropped = (batches[0].id, batches[2].id)
    await sink.save_checkpoint(SaveCheckpoint(EffectId(epoch, 50), Position("binlog.000002", 8, 3, "0-1-9"), dropped))
    taken = await target.sink().take_over([ACCOUNT], None)
    assert taken.checkpoint == Position("binlog.000002", 8, 3, "0-1-9")
    assert [r.id for r in taken.receipts] == [batches[1].id, batches[3].id]


# --- steps ----------------------------------------------------------------------------------------------------------

MANY_ROWS = 50
SIZES = [1, FEW_ROWS, FEW_ROWS + 1, MANY_ROWS, 6_000]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("fresh", [True, False])
async def test_upsert_writes_and_overwrites_whole_rows(target: Target, count: int, fresh: bool) -> None:
    """`fresh` may be wrong after a restart; then the batch runs again the careful way."""
    sink, table, epoch = await opened(target)
    rows = [account(i) for i in range(count)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows, fresh)))
    changed = [account(i, payload=None if i % 2 else 'it\'s \\ new\t\n"{}"') for i in range(count)]
    await committed(sink, target.batch(epoch, UpsertRows(table, changed, fresh)))
    found = target.rows("id, email, balance::text, updated_at::text, payload, flag")
    assert found == changed


async def test_copied_text_is_escaped(target: Target) -> None:
    sink, table, epoch = await opened(target)
    texts = ["\\", "\\N", "\\.", "\t", "\n", "\r", "", "NULL", "'\"{}", "\\x41", "é\\\té"]
    rows = [account(i, payload=texts[i % len(texts)]) for i in range(MANY_ROWS)]
    rows += [account(i + 1_000, payload=text if text != "" else None) for i, text in enumerate(texts)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows, True)))
    assert target.rows("id, payload") == [(row[0], row[4]) for row in rows]


@pytest.mark.parametrize("count", SIZES)
async def test_delete_by_key_removes_these_rows_and_no_others(target: Target, count: int) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(i) for i in range(count + 2)], True)))
    keys = [(i,) for i in range(count)]
    await committed(sink, target.batch(epoch, DeleteRows(table, [*keys, (-1,)])))
    assert [row[0] for row in target.rows()] == [count, count + 1]


@pytest.mark.parametrize("count", SIZES)
async def test_wide_keys_of_text_and_bytes(target: Target, count: int) -> None:
    name = target.table("pair", 'a varchar(5), "B ""b" bytea, n int, PRIMARY KEY (a, "B ""b")')
    sink = target.sink()
    columns = (Column("a", Kind.TEXT), Column('B "b', Kind.BINARY), Column("n", Kind.INT))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(f"'{i}\\"[:5], b"\x00'\"\\" + bytes([i % 256]), i) for i in range(count)]
    await committed(sink, target.batch(1, UpsertRows(table, rows, True)))
    await committed(sink, target.batch(1, UpsertRows(table, [(a, b, n + 1) for a, b, n in rows], False)))
    assert sorted(target.rows('n, a, "B ""b"', "pair")) == sorted((n + 1, a, b) for a, b, n in rows)
    absent = ("'0\\xyz", rows[0][1])  # cut to the column's length it would be a row's key
    await committed(sink, target.batch(1, DeleteRows(table, [*(r[:2] for r in rows[1:]), absent])))
    assert target.rows("n", "pair") == [(1,)]


async def test_text_too_long_is_refused_not_cut(target: Target) -> None:
    sink, table, epoch = await opened(target)
    for count in (1, FEW_ROWS + 1, MANY_ROWS):
        rows = [account(i, email="e" * 65) if i == 0 else account(i) for i in range(count)]
        failure = await failed(sink, target.batch(epoch, UpsertRows(table, rows, True)))
        assert (failure.kind, failure.code) == (ErrorKind.ROW, "22001")
        assert "account" in failure.message
    assert target.rows() == []


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1, MANY_ROWS])
@pytest.mark.parametrize("fresh", [True, False])
async def test_a_unique_value_of_another_key_is_an_error_and_moves_nothing(
    target: Target, count: int, fresh: bool
) -> None:
    """Counter-example 12: (7, a) against (1, a) must not silently turn row 1 into row 7."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a")], True)))
    rows = [account(7, "a", payload="secret"), *(account(i) for i in range(100, 99 + count))]
    failure = await failed(sink, target.batch(epoch, UpsertRows(table, rows, fresh)))
    assert failure.kind is ErrorKind.ROW
    assert "account_email_key" in failure.message
    assert "public.account" in failure.message
    assert "secret" not in failure.message
    assert target.rows() == [(1, "a")]


async def test_swap_of_unique_values_with_deletes_first(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a"), account(2, "b")], True)))
    swapped = [account(1, "b"), account(2, "a")]
    await committed(sink, target.batch(epoch, DeleteRows(table, [(1,), (2,)]), UpsertRows(table, swapped, True)))
    assert target.rows() == [(1, "b"), (2, "a")]


async def test_upsert_leaves_unique_columns_alone_so_that_open_batches_do_not_block(target: Target) -> None:
    """Counter-example 13: with unique columns in SET an earlier transaction would wait for a later open one."""
    target.sql("CREATE TABLE child (id int PRIMARY KEY, account bigint REFERENCES account (id))")
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    children = TableName("public", "child")
    other = target.sink(feed="other")
    child = bind(
        await other.take_over([children], START), (Column("id", Kind.INT), Column("account", Kind.INT)), children
    )
    later = target.batch(1, UpsertRows(child, [(1, 1)], True), held=True)
    assert await other.apply(later) == BatchReady(later.id)
    for step in (UpsertRows(table, [account(1, payload="y")], False), UpdateRows(table, [(1,)], [account(1)], False)):
        earlier = target.batch(epoch, step)
        assert await sink.apply(earlier) == BatchCommitted(earlier.id)  # a wait for a lock would end it
    await other.rollback(RollbackBatch(later.id))


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1])
async def test_update_by_key_inserts_what_is_missing(target: Target, count: int) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(i) for i in range(0, count, 2)], True)))
    rows = [account(i, payload="new") for i in range(count)]
    await committed(sink, target.batch(epoch, UpdateRows(table, [(i,) for i in range(count)], rows, False)))
    assert target.rows("id, payload") == [(i, "new") for i in range(count)]


@pytest.mark.parametrize("count", [1, FEW_ROWS + 1])
async def test_update_keeps_columns_that_only_the_target_has(target: Target, count: int) -> None:
    """The target's own NOT NULL column has no default: the row proposed by an ON CONFLICT would be refused."""
    name = target.table("noted", "id int PRIMARY KEY, u int UNIQUE, v text, note text NOT NULL")
    target.sql("INSERT INTO noted SELECT i, i, 'old', 'mine' FROM generate_series(1, 100) i")
    sink = target.sink()
    columns = (Column("id", Kind.INT), Column("u", Kind.INT), Column("v", Kind.TEXT))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(i, i, "new") for i in range(1, count + 1)]
    await committed(sink, target.batch(1, UpdateRows(table, [(r[0],) for r in rows], rows, False)))
    await committed(sink, target.batch(1, UpdateRows(table, [(100,)], [(100, 300, "moved")], True)))
    await committed(sink, target.batch(1, UpsertRows(table, [(99, 99, "upserted")], False)))
    found = target.sql("SELECT id, u, v, note FROM noted WHERE v <> 'old' ORDER BY id")
    assert found == [*((*r, "mine") for r in rows), (99, 99, "upserted", "mine"), (100, 300, "moved", "mine")]
    assert (await failed(sink, target.batch(1, UpdateRows(table, [(200,)], [(200, 2, "x")], False)))).code == "23502"


async def test_moves_run_in_order(target: Target) -> None:
    """The key chain 2→3, 1→2 and a unique value freed and retaken only work one after another."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1, "a"), account(2, "b")], True)))
    keys = [(2,), (1,), (3,), (9,)]
    rows = [account(3, "c"), account(2, "b"), account(3, "a", payload=None), account(9, "c")]
    await committed(sink, target.batch(epoch, UpdateRows(table, keys, rows, True)))
    assert target.rows("id, email, payload") == [(2, "b", "x"), (3, "a", None), (9, "c", "x")]


async def test_keyless_tables_count_their_duplicates(target: Target) -> None:
    name = target.table("log", "a int, b text, d json, f real, w varchar(9), g int GENERATED ALWAYS AS (a * 2) STORED")
    columns = (Column("a", Kind.INT), Column("b", Kind.TEXT), Column("d", Kind.JSON), Column("f", Kind.FLOAT),
               Column("w", Kind.TEXT), Column("g", Kind.INT))  # fmt: skip
    sink = target.sink()
    table = bind(await sink.take_over([name], START), columns, name)
    one = (1, None, '{"k": 1, "l": 2}', 0.10000000149011612, "x", 2)
    two = (2, "b'\\", None, None, None, 4)
    await committed(sink, target.batch(1, UpsertRows(table, [one, two, one, one, two], True)))
    assert target.sql("SELECT count(*) FROM log") == [(5,)]
    reordered = (1, None, '{"l": 2, "k": 1}', 0.10000000149011612, "x", 2)
    absent = (1, "", None, None, None, 2)
    await committed(sink, target.batch(1, DeleteRows(table, [reordered, one, two, absent])))
    assert target.sql("SELECT a, count(*) FROM log GROUP BY a ORDER BY a") == [(1, 1), (2, 1)]
    steps = UpdateRows(table, [one, absent], [(5, "five", None, None, None, 10), (6, None, None, None, None, 12)], True)
    await committed(sink, target.batch(1, steps))
    assert target.rows("a, b, g", "log") == [(2, "b'\\", 4), (5, "five", 10), (6, None, 12)]


async def test_keyless_partitions_where_places_repeat(target: Target) -> None:
    """The same ctid exists once in every partition: deleting by ctid alone would delete in all of them."""
    name = target.table("parted", "a int, b int")
    target.sql("DROP TABLE parted")
    target.sql("CREATE TABLE parted (a int, b int) PARTITION BY LIST (a)")
    for i in (1, 2):
        target.sql(f"CREATE TABLE parted_{i} PARTITION OF parted FOR VALUES IN ({i})")
    target.sql("INSERT INTO parted VALUES (1, 0), (2, 0)")
    sink = target.sink()
    table = bind(await sink.take_over([name], START), (Column("a", Kind.INT), Column("b", Kind.INT)), name)
    await committed(sink, target.batch(1, DeleteRows(table, [(1, 0)])))
    assert target.rows("a", "parted") == [(2,)]


async def test_generated_and_identity_columns(target: Target) -> None:
    name = target.table(
        "made", "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int, g int GENERATED ALWAYS AS (v + 1) STORED"
    )
    sink = target.sink()
    columns = (Column("id", Kind.INT), Column("v", Kind.INT), Column("g", Kind.INT))
    table = bind(await sink.take_over([name], START), columns, name)
    for count in (1, FEW_ROWS + 1):
        rows = [(i + 50, 1, 2) for i in range(count)]
        await committed(sink, target.batch(1, UpsertRows(table, rows, False)))
        await committed(sink, target.batch(1, UpdateRows(table, [(50,)], [(50, 7, 8)], False)))
        assert target.sql("SELECT g FROM made WHERE id = 50") == [(8,)]


# --- values ---------------------------------------------------------------------------------------------------------

VALUES: list[tuple[Column, str, Any, str]] = [
    (Column("c", Kind.INT, length=1), "smallint", -128, "-128"),
    (Column("c", Kind.INT, length=1), "boolean", 1, "true"),
    (Column("c", Kind.INT, length=1), "boolean", 0, "false"),
    (Column("c", Kind.INT, True, 4), "bigint", 4294967295, "4294967295"),
    (Column("c", Kind.INT, True, 8), "numeric(20)", 18446744073709551615, "18446744073709551615"),
    (Column("c", Kind.YEAR), "smallint", 1901, "1901"),
    (Column("c", Kind.YEAR), "smallint", 0, "0"),
    (Column("c", Kind.BIT, length=1), "boolean", 1, "true"),
    (Column("c", Kind.BIT, length=1), "bit(1)", 1, "1"),
    (Column("c", Kind.BIT, length=10), "bit(10)", 5, "0000000101"),
    (Column("c", Kind.BIT, length=64), "bit(64)", 2**64 - 1, "1" * 64),
    (Column("c", Kind.BIT, length=4), "bit varying(8)", 5, "0101"),
    (Column("c", Kind.BIT, length=4), "bigint", 5, "5"),
    (Column("c", Kind.FLOAT), "real", 0.10000000149011612, "0.1"),
    (Column("c", Kind.DOUBLE), "double precision", 1.7976931348623157e308, "1.7976931348623157e+308"),
    (Column("c", Kind.DOUBLE), "double precision", -5e-324, "-5e-324"),
    (Column("c", Kind.DECIMAL, scale=30), "numeric(65,30)", "-1." + "0" * 29 + "1", "-1." + "0" * 29 + "1"),
    (Column("c", Kind.DATE), "date", "9999-12-31", "9999-12-31"),
    (Column("c", Kind.DATETIME, scale=6), "timestamp(6)", "1000-01-01 00:00:00.000001", "1000-01-01 00:00:00.000001"),
    (Column("c", Kind.TIMESTAMP), "timestamptz", "2024-03-31 02:30:00", "2024-03-31 02:30:00+00"),
    (Column("c", Kind.TIME, scale=3), "interval", "-838:59:59.123", "-838:59:59.123"),
    (Column("c", Kind.TIME), "time", "23:59:59", "23:59:59"),
    (Column("c", Kind.TEXT), "text", "é漢😀 '\"\\{},\t\n\r NULL", "é漢😀 '\"\\{},\t\n\r NULL"),
    (Column("c", Kind.TEXT), "text", "", ""),
    (Column("c", Kind.TEXT), "text", "NULL", "NULL"),
    (Column("c", Kind.TEXT), "text", "\\N", "\\N"),
    (Column("c", Kind.TEXT, length=3), "character(3)", "a", "a  "),
    (Column("c", Kind.TEXT, length=3), "character varying(3)", "漢漢漢", "漢漢漢"),
    (Column("c", Kind.TEXT), "bytea", "é", "\\xc3a9"),
    (Column("c", Kind.BINARY, length=4), "bytea", b"\x00\\'\xff", "\\x005c27ff"),
    (Column("c", Kind.BINARY, length=16), "uuid", bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.ENUM, labels=("a", "b")), "text", "", ""),
    (Column("c", Kind.ENUM, labels=("a'", "b")), "mood", "a'", "a'"),
    (Column("c", Kind.SET, labels=("a", "b")), "text", "a,b", "a,b"),
    (Column("c", Kind.JSON), "jsonb", '"\\\\u0000"', '"\\\\u0000"'),
    (Column("c", Kind.JSON), "jsonb", '{"b": 123456789012345678901234567890.5, "a": "\\"x\\\\"}',
     '{"a": "\\"x\\\\", "b": 123456789012345678901234567890.5}'),
    (Column("c", Kind.JSON), "json", '{"b":1, "a":2}', '{"b":1, "a":2}'),
    (Column("c", Kind.JSON), "text", '{"b":1}', '{"b":1}'),
    (Column("c", Kind.TEXT), "jsonb", "[1]", "[1]"),
    (Column("c", Kind.GEOMETRY), "bytea", b"\xe6\x10\x00\x00\x01\x02", "\\x0102"),
    (Column("c", Kind.VECTOR), "bytea", b"\x00\x01", "\\x0001"),
    (Column("c", Kind.UUID), "uuid", "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.UUID), "text", "00010203-0405-0607-0809-0a0b0c0d0e0f", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (Column("c", Kind.INET4), "inet", "10.0.0.1", "10.0.0.1/32"),
    (Column("c", Kind.INET6), "inet", "::ffff:1.2.3.4", "::ffff:1.2.3.4/128"),
    (Column("c", Kind.TEXT), "text[]", '{a,"b c"}', '{a,"b c"}'),
    (Column("c", Kind.TEXT), "short", "abc", "abc"),
]  # fmt: skip


async def _value_table(target: Target, column: Column, type: str, key: str = "") -> tuple[PostgresSink, Binding, int]:
    target.sql("CREATE TYPE mood AS ENUM ('a''', 'b')")
    target.sql("CREATE DOMAIN short AS varchar(3)")
    name = target.table("held", f"id int {key}, c {type}")
    sink = target.sink()
    taken = await sink.take_over([name], START)
    return sink, bind(taken, (Column("id", Kind.INT), column), name), taken.epoch


@pytest.mark.parametrize(("column", "type", "value", "text"), VALUES, ids=lambda v: v if isinstance(v, str) else "")
async def test_every_type_arrives_and_is_found_again(
    target: Target, column: Column, type: str, value: Any, text: str
) -> None:
    """By each way in: a VALUES list, arrays, COPY, a single update; and, in a table without a key, by equality."""
    sink, table, epoch = await _value_table(target, column, type, "PRIMARY KEY")
    rows = [(i, None if i == 3 else value) for i in range(MANY_ROWS)]
    await committed(sink, target.batch(epoch, UpsertRows(table, rows[: FEW_ROWS + 1], True)))
    await committed(sink, target.batch(epoch, DeleteRows(table, [(0,)]), UpsertRows(table, rows[:1], True)))
    await committed(sink, target.batch(epoch, UpsertRows(table, [(100, value), (101, None)], True)))
    await committed(sink, target.batch(epoch, UpdateRows(table, [(100,), (101,)], [(100, None), (101, value)], True)))
    shown = target.rows("id, c::text" if not type.startswith("character(") else "id, rpad(c, 3)", "held")
    assert shown == [*((i, None if i == 3 else text) for i in range(FEW_ROWS + 1)), (100, None), (101, text)]
    few = [row for row in rows if row[0] <= FEW_ROWS]
    copied = [(row[0] + 200, row[1]) for row in rows]
    await committed(sink, target.batch(epoch, UpsertRows(table, copied, True)))
    assert target.sql("SELECT count(*), count(c), count(DISTINCT c::text) FROM held WHERE id >= 200") == [
        (MANY_ROWS, MANY_ROWS - 1, 1)
    ]
    assert target.sql("SELECT count(DISTINCT coalesce(c::text, '')) FROM held WHERE c IS NOT NULL") == [(1,)]

    target.sql("ALTER TABLE held DROP CONSTRAINT held_pkey")
    keyless = bind(await sink.take_over([table.name], START), table.shape.columns, table.name)
    await committed(sink, target.batch(epoch + 1, DeleteRows(keyless, [*few, *copied, (101, value), (100, None)])))
    assert target.rows("id", "held") == []


@pytest.mark.parametrize(
    ("column", "type", "value", "word"),
    [
        (Column("c", Kind.TEXT), "text", b"\xff", "character set"),
        (Column("c", Kind.TEXT), "text", "a\0b", "NUL"),
        (Column("c", Kind.TEXT), "text", "\ud800", "surrogate"),
        (Column("c", Kind.DATE), "date", "0000-00-00", "zero date"),
        (Column("c", Kind.DATE), "date", "2024-00-10", "zero date"),
        (Column("c", Kind.DATETIME), "timestamp", "0000-01-01 00:00:00", "zero date"),
        (Column("c", Kind.TIMESTAMP), "timestamptz", "0000-00-00 00:00:00", "zero date"),
        (Column("c", Kind.TIME), "time", "-01:00:00", "negative"),
        (Column("c", Kind.TIME), "time", "100:00:00", "beyond a day"),
        (Column("c", Kind.TIME), "time", "24:00:00.5", "out of range"),
        (Column("c", Kind.INT), "boolean", 2, "boolean"),
        (Column("c", Kind.INT), "smallint", 40000, "smallint"),
        (Column("c", Kind.BIT, length=8), "bit(4)", 255, "bit"),
        (Column("c", Kind.JSON), "jsonb", '"\\u0000"', "column c: a NUL"),
        (Column("c", Kind.ENUM), "mood", "c", "mood"),
        (Column("c", Kind.BINARY), "text", b"a", "bytea"),
        (Column("c", Kind.TEXT), "short", "abcd", "too long"),
    ],
)
async def test_what_postgres_cannot_hold_is_an_error_of_the_row(
    target: Target, column: Column, type: str, value: Any, word: str
) -> None:
    sink, table, epoch = await _value_table(target, column, type, "PRIMARY KEY")
    for count in (0, FEW_ROWS, MANY_ROWS):
        rows = [(i, None) for i in range(count)]
        failure = await failed(sink, target.batch(epoch, UpsertRows(table, [(99, value), *rows], True)))
        assert failure.kind is ErrorKind.ROW
        assert word in failure.message
        assert "held" in failure.message
    assert target.rows("id", "held") == []
    await committed(sink, target.batch(epoch, UpsertRows(table, [(1, None)], True)))


@pytest.mark.parametrize("value", ["0000-00-00", "2024-05-00", "0000-12-31"])
async def test_zero_dates_become_null_on_request(target: Target, value: str) -> None:
    name = target.table("dated", "id int PRIMARY KEY, d date")
    sink = target.sink(zero_dates="null")
    columns = (Column("id", Kind.INT), Column("d", Kind.DATE))
    table = bind(await sink.take_over([name], START), columns, name)
    rows = [(i, value if i % 3 == 0 else None if i % 3 == 1 else "2024-10-10") for i in range(FEW_ROWS + 1)]
    await committed(sink, target.batch(1, UpsertRows(table, rows, True)))
    assert [row[1] is None for row in target.rows("id, d", "dated")] == [i % 3 != 2 for i in range(FEW_ROWS + 1)]


async def test_a_thousand_columns_and_odd_names(target: Target) -> None:
    names = [*(f"c{i}" for i in range(997)), "select", 'a"b c', "Ünï"]
    definition = ", ".join(f'"{n.replace(chr(34), chr(34) * 2)}" int' for n in names)
    target.sql(f'CREATE TABLE "Wide t""x" ({definition}, PRIMARY KEY ("Ünï"))')
    name = TableName("public", 'Wide t"x')
    sink = target.sink()
    table = bind(await sink.take_over([name], START), [Column(n, Kind.INT) for n in names], name)
    for fresh in (True, False):
        rows = [(*range(999), i) for i in range(FEW_ROWS + 1)]
        await committed(sink, target.batch(1, UpsertRows(table, rows, fresh)))
    await committed(sink, target.batch(1, DeleteRows(table, [(i,) for i in range(FEW_ROWS)])))
    assert target.sql('SELECT "Ünï", "select" FROM "Wide t""x"') == [(FEW_ROWS, 997)]


# --- failures -------------------------------------------------------------------------------------------------------


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


async def sessions_are(target: Target, number: int) -> None:
    async with asyncio.timeout(10.0):
        while await asyncio.to_thread(target.sessions) != number:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


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


# --- held batches, rollback, parked rows, control, DDL --------------------------------------------------------------


async def test_held_batch_shows_nothing_until_commit(target: Target) -> None:
    sink, table, epoch = await opened(target)
    first, second = (target.batch(epoch, UpsertRows(table, [account(i)], True), held=True, lane=i) for i in (1, 2))
    assert await sink.apply(first) == BatchReady(first.id)
    assert await sink.apply(second) == BatchReady(second.id)
    assert target.rows() == []
    assert (await sink.rollback(RollbackBatch(second.id))).id == second.id
    assert await sink.commit(CommitBatch(first.id)) == BatchCommitted(first.id)
    assert target.rows() == [(1, "user1")]
    assert await sink.apply(second) == BatchReady(second.id)
    assert await sink.commit(CommitBatch(second.id)) == BatchCommitted(second.id)


async def test_deferred_constraint_fails_a_held_commit(target: Target) -> None:
    target.sql("CREATE TABLE kid (id int PRIMARY KEY, p bigint REFERENCES account DEFERRABLE INITIALLY DEFERRED)")
    name = TableName("public", "kid")
    sink = target.sink()
    table = bind(await sink.take_over([name], START), (Column("id", Kind.INT), Column("p", Kind.INT)), name)
    batch = target.batch(1, UpsertRows(table, [(1, 5)], True), held=True)
    assert await sink.apply(batch) == BatchReady(batch.id)
    answer = await sink.commit(CommitBatch(batch.id))
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.ROW
    await committed(sink, target.batch(1))


async def test_rollback_interrupts_a_batch_that_waits_and_frees_its_locks(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=60.0)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1), account(2)], True)))
    holder = target.batch(epoch, UpsertRows(table, [account(2, payload="held")], False), held=True, lane=0)
    assert await sink.apply(holder) == BatchReady(holder.id)
    steps = [UpsertRows(table, [account(i, payload="late")], False) for i in (1, 2)]
    late = target.batch(epoch, *steps, held=True, lane=1)
    running = asyncio.create_task(sink.apply(late))
    await asyncio.sleep(0.3)
    assert not running.done()

    await asyncio.wait_for(sink.rollback(RollbackBatch(late.id)), 10)

    assert (await asyncio.gather(running, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    target.sql("SET lock_timeout = '200ms'")
    target.sql("UPDATE account SET flag = 9 WHERE id = 1")  # the lock it held is gone
    assert await sink.commit(CommitBatch(holder.id)) == BatchCommitted(holder.id)
    assert await sink.apply(late) == BatchReady(late.id)
    assert await sink.commit(CommitBatch(late.id)) == BatchCommitted(late.id)
    assert target.rows("id, payload") == [(1, "late"), (2, "late")]


async def test_an_apply_cancelled_from_outside_leaves_a_usable_lane(target: Target) -> None:
    """The server may be done before it hears of it: the next batch must not commit the cancelled one's rows."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE account SET flag = 2")
    late = target.batch(epoch, UpsertRows(table, [account(1, payload="late")], False), held=True)
    running = asyncio.create_task(sink.apply(late))
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await transaction.rollback()
    await other.close()
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(2)], True)))
    assert target.rows("id, payload") == [(1, "x"), (2, "x")]


async def test_parked_rows_come_and_go_with_the_batch(target: Target) -> None:
    sink, table, epoch = await opened(target)
    parked = [ParkedRow("0-1", n, 0, "public", "account", f"id={n}", "it's bad", bytes([n])) for n in (1, 2)]
    await committed(sink, target.batch(epoch, parked=tuple(parked)))
    target.sql("UPDATE tidelock.tidelock_parked SET wish = 'retry' WHERE number = 2")
    target.sql("UPDATE tidelock.tidelock_owner SET desired_state = 'paused'")
    control = await sink.control()
    assert (control.desired_state, [(w.number, w.wish) for w in control.wishes]) == ("paused", [(2, "retry")])
    bad = target.batch(epoch, UpsertRows(table, [account(1, payload="\0")], True), unparked=(("0-1", 2, 0),))
    assert (await failed(sink, bad)).kind is ErrorKind.ROW
    assert len(target.sql("SELECT * FROM tidelock.tidelock_parked")) == 2
    await committed(sink, target.batch(epoch, unparked=(("0-1", 2, 0),)))
    assert target.sql("SELECT number, error FROM tidelock.tidelock_parked") == [(1, "it's bad")]


async def test_halt_is_kept_and_cleared_by_the_next_takeover(target: Target) -> None:
    sink, _, _ = await opened(target)
    alarm = Alarm("ddl", "it's \\ stuck", "look")
    await sink.record_halt(Halt(alarm, Ddl("shop", "DROP TABLE x", "s", 1)))
    stored = msgspec.json.decode(target.sql("SELECT halt FROM tidelock.tidelock_owner")[0][0])
    assert msgspec.convert(stored["alarm"], Alarm) == alarm
    assert msgspec.convert(stored["ddl"], Ddl).statement == "DROP TABLE x"
    await sink.take_over([ACCOUNT], START)
    assert target.sql("SELECT halt FROM tidelock.tidelock_owner") == [(None,)]


async def test_ddl_runs_once_even_if_its_answer_is_lost(target: Target) -> None:
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
        truncate = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))
        effect = ApplyDdl(EffectId(epoch, 70), truncate, START)
        assert isinstance(await sink.apply_ddl(effect, [ACCOUNT]), DdlApplied)
        assert target.rows() == []
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(2)], True)))
        answer = await sink.apply_ddl(effect, [ACCOUNT])
        assert isinstance(answer, DdlApplied)
        assert list(answer.tables) == [ACCOUNT]
        assert target.rows() == [(2, "user2")]
        assert (await sink.take_over([ACCOUNT], START)).ddl_passed == ("0-1", 5)
        await sink.close()


async def test_a_truncate_takes_what_is_parked_for_its_table(target: Target) -> None:
    sink, table, epoch = await opened(target)
    parked = [ParkedRow("0-1", n, 0, "public", name, "k", "e", b"c") for n, name in ((1, "account"), (2, "other"))]
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True), parked=tuple(parked)))
    truncate = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))
    answer = await sink.apply_ddl(ApplyDdl(EffectId(epoch, 70), truncate, START), [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert answer.emptied == (ACCOUNT,)
    assert target.sql("SELECT table_name FROM tidelock.tidelock_parked") == [("other",)]


async def test_ddl_adds_a_column_that_the_next_batch_writes(target: Target) -> None:
    sink, _, epoch = await opened(target)
    statement = "ALTER TABLE account ADD COLUMN nick varchar(10)"
    ddl = Ddl("public", statement, "0-1", 6, DdlKind.ADD_COLUMN, (ACCOUNT,))
    answer = await sink.apply_ddl(ApplyDdl(EffectId(epoch, 70), ddl, START), [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert [c.name for c in answer.tables[ACCOUNT].columns][-1] == "nick"
    columns = (*ACCOUNT_COLUMNS, Column("nick", Kind.TEXT, length=10))
    wide = Binding(1, Shape(ACCOUNT, columns), answer.tables[ACCOUNT])
    await committed(sink, target.batch(epoch, UpsertRows(wide, [(*account(1), "al")], True)))
    assert target.rows("id, nick") == [(1, "al")]


TRUNCATE = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))


async def two_groups(target: Target) -> tuple[PostgresSink, int, dict[int, int]]:
    """Two groups with a row parked in each, and the conductor's sink."""
    epochs = {}
    for group in (0, 1):
        owner, table, epochs[group] = await opened(target, group=group)
        parked = ParkedRow("0-1", group, 0, "public", "account", "k", "e", b"c")
        await committed(owner, target.batch(epochs[group], UpsertRows(table, [account(group)], True), parked=(parked,)))
    conductor, _, epoch = await opened(target, group=-1)
    return conductor, epoch, epochs


async def test_a_statement_runs_only_while_every_group_has_the_owner_that_voted(target: Target) -> None:
    conductor, epoch, votes = await two_groups(target)
    await opened(target, group=1)
    effect = ApplyDdl(EffectId(epoch, 1), TRUNCATE, START)
    for wrong in (votes, {**votes, 1: 7}, {**votes, 1: 2, 2: 1}):
        answer = await conductor.apply_ddl(effect, [ACCOUNT], wrong)
        assert isinstance(answer, DdlFailed)
        assert answer.failure.kind is ErrorKind.TRANSIENT
        assert len(target.rows()) == 2
        assert len(target.sql("SELECT 1 FROM tidelock.tidelock_parked")) == 2
    answer = await conductor.apply_ddl(effect, [ACCOUNT], {**votes, 1: 2})
    assert isinstance(answer, DdlApplied), answer
    assert target.rows() == []
    assert target.sql("SELECT 1 FROM tidelock.tidelock_parked") == []
    owners = target.sql("SELECT grp, ddl_passed FROM tidelock.tidelock_owner ORDER BY grp")
    assert owners == [(-1, "0-1:5"), (0, None), (1, None)]
    target.sql("INSERT INTO account (id) VALUES (9)")
    assert isinstance(await conductor.apply_ddl(effect, [ACCOUNT], votes), DdlApplied)  # it has passed: no vote needed
    assert target.rows("id") == [(9,)]


async def test_a_group_cannot_change_its_owner_while_its_vote_is_used(target: Target) -> None:
    conductor, epoch, votes = await two_groups(target)
    blocker = await asyncpg.connect(target.server.url(target.database))
    await blocker.execute("BEGIN; LOCK TABLE account IN ACCESS SHARE MODE")
    ddl = Ddl("public", "ALTER TABLE account ADD COLUMN c int", "0-1", 6, DdlKind.ADD_COLUMN, (ACCOUNT,))
    running = asyncio.create_task(conductor.apply_ddl(ApplyDdl(EffectId(epoch, 1), ddl, START), [ACCOUNT], votes))
    async with asyncio.timeout(20):
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%ADD COLUMN%'"
        while not target.sql(waiting):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    newcomer = await asyncpg.connect(target.server.url(target.database))
    await newcomer.execute("SET lock_timeout = '200ms'")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await newcomer.execute("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1 WHERE grp = 1")
    await newcomer.close()
    await blocker.close()
    answer = await running
    assert isinstance(answer, DdlApplied), answer


async def test_a_group_notes_that_a_statement_has_passed_and_reads_the_tables(target: Target) -> None:
    sink, _, epoch = await opened(target)
    target.sql("ALTER TABLE account ADD COLUMN c int")
    target.sql("INSERT INTO account (id) VALUES (9)")
    effect = ApplyDdl(EffectId(epoch, 1), TRUNCATE, START)
    answer = await sink.pass_ddl(effect, [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert answer.tables[ACCOUNT].columns[-1].name == "c"
    assert answer.emptied == (ACCOUNT,)
    assert target.rows("id") == [(9,)]
    assert target.sql("SELECT ddl_passed FROM tidelock.tidelock_owner") == [("0-1:5",)]
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1, ddl_passed = NULL")
    answer = await sink.pass_ddl(effect, [ACCOUNT])
    assert isinstance(answer, DdlFailed)
    assert answer.failure.kind is ErrorKind.FENCED


async def test_what_has_settled_is_on_disk_and_only_the_owner_settles(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    committed_at = target.sql("SELECT pg_current_wal_insert_lsn()")[0][0]
    assert await sink.settle() is None
    assert target.sql("SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn", committed_at) == [(True,)]
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1")
    failure = await sink.settle()
    assert failure is not None
    assert failure.kind is ErrorKind.FENCED


async def test_settling_notices_that_reported_commits_are_lost(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    target.sql("DELETE FROM tidelock.tidelock_progress")  # as a crash would
    failure = await sink.settle()
    assert failure is not None
    assert failure.kind is ErrorKind.COMMITS_LOST


async def test_sessions_are_set_up_and_close_leaks_none(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=1.5)
    for lane in range(4):
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(lane)], True), lane=lane))
    held = target.batch(epoch, UpsertRows(table, [account(9)], True), held=True)
    assert await sink.apply(held) == BatchReady(held.id)
    assert target.sessions() == 4
    connection = sink._lanes[1].session.connection  # type: ignore[union-attr]
    shown = {
        name: await connection.fetchval(f"SHOW {name}") for name in ("timezone", "lock_timeout", "synchronous_commit")
    }
    assert shown == {"timezone": "UTC", "lock_timeout": "1500ms", "synchronous_commit": "off"}
    assert await connection.fetchval("SHOW transaction_isolation") == "read committed"
    before = asyncio.all_tasks()
    await sink.close()
    await sessions_are(target, 0)
    assert asyncio.all_tasks() <= before
    assert [row[0] for row in target.rows()] == [0, 1, 2, 3]


# ---------------------------------------------------------------------- a transaction in pieces


class Pieces:
    """A transaction that is open at the target."""

    def __init__(self, target: Target, sink: PostgresSink, opening: ApplyBatch) -> None:
        self.id = opening.id
        self._target = target
        self._sink = sink

    @classmethod
    async def open(cls, target: Target, sink: PostgresSink, epoch: int) -> "Pieces":
        opening = target.batch(epoch, held=True, covered=b"nothing yet")
        assert await sink.apply(opening) == BatchReady(opening.id)
        return cls(target, sink, opening)

    async def send(self, *steps: Step, **more: Any) -> BatchReady | BatchFailed:
        self._target.counter += 1
        id_ = EffectId(self.id.epoch, self._target.counter)
        answer = await self._sink.apply_piece(ApplyPiece(id_, self.id, 0, list(steps), 1, **more))
        assert answer.id == id_
        return answer

    async def ready(self, *steps: Step, **more: Any) -> None:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchReady), answer

    async def failed(self, *steps: Step, **more: Any) -> Any:
        answer = await self.send(*steps, **more)
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


PARKED = ParkedRow("0-1", 1, 1, "public", "account", "id=2", "too long", b"change")


async def test_pieces_are_seen_together_with_their_commit_and_the_receipt_says_what_the_last_one_told(
    target: Target,
) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a"), account(2, "b")], True))
    await pieces.ready(UpsertRows(table, [account(1, "a", "later")], False), parked=(PARKED,))
    await pieces.ready(DeleteRows(table, [(2,)]), UpsertRows(table, [account(3, "b")], True))
    await pieces.ready(covered=b"all of it")
    assert target.rows() == [] and target.sql("SELECT * FROM tidelock.tidelock_parked") == []
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows("id, email, payload") == [(1, "a", "later"), (3, "b", "x")]
    assert target.sql("SELECT covered FROM tidelock.tidelock_progress") == [(b"all of it",)]
    assert target.sql("SELECT ordinal FROM tidelock.tidelock_parked") == [(1,)]


async def test_a_piece_with_a_bad_row_leaves_the_transaction_as_it_was(target: Target) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    for bad in (account(2, "x" * 65), account(2, "user3"), account(2, "nul \0")):
        steps = DeleteRows(table, [(1,)]), UpsertRows(table, [account(3), bad], True)
        failure = await pieces.failed(*steps, parked=(PARKED,))
        assert failure.kind is ErrorKind.ROW, failure
    await pieces.ready(UpsertRows(table, [account(4)], True))
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "a"), (4, "user4")]
    assert target.sql("SELECT * FROM tidelock.tidelock_parked") == []


async def test_a_piece_that_is_told_as_fresh_and_is_not_is_upserted_in_its_place(target: Target) -> None:
    sink, table, epoch = await opened(target)
    target.sql("INSERT INTO account (id, email) VALUES (2, 'old')")
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    await pieces.ready(UpsertRows(table, [account(2, "new")], True))
    await sink.commit(CommitBatch(pieces.id))
    assert target.rows("id, payload") == [(1, "x"), (2, "x")]


async def test_a_constraint_that_may_wait_is_looked_at_with_its_piece(target: Target) -> None:
    """Else it would be the COMMIT that fails, and nobody could tell the row."""
    target.sql("ALTER TABLE account DROP CONSTRAINT account_email_key")
    target.sql("ALTER TABLE account ADD UNIQUE (email) DEFERRABLE INITIALLY DEFERRED")
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    assert (await pieces.failed(UpsertRows(table, [account(2, "a")], True))).kind is ErrorKind.ROW
    await pieces.ready(UpsertRows(table, [account(3, "b")], True))
    assert await sink.commit(CommitBatch(pieces.id)) == BatchCommitted(pieces.id)
    assert target.rows() == [(1, "a"), (3, "b")]


async def test_a_lost_connection_is_told_and_nothing_is_left_of_any_piece(target: Target) -> None:
    sink, table, epoch = await opened(target)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    session = sink._lanes[0].session
    assert session is not None
    target.sql("SELECT pg_terminate_backend($1)", session._pid)
    assert (await pieces.failed(UpsertRows(table, [account(2)], True))).kind is ErrorKind.TRANSIENT
    assert (await pieces.failed(UpsertRows(table, [account(3)], True))).kind is ErrorKind.TRANSIENT
    again = target.batch(epoch, held=True)
    assert await sink.apply(msgspec.structs.replace(again, id=pieces.id)) == BatchReady(pieces.id)
    await sink.rollback(RollbackBatch(pieces.id))
    assert target.rows() == []


async def test_a_lock_that_is_let_go_in_time_costs_a_piece_and_not_the_transaction(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=0.5)
    pieces = await Pieces.open(target, sink, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("INSERT INTO account (id, email) VALUES (9, 'mine')")
    timed_out, session = asyncio.Event(), sink._lanes[0].session
    assert session is not None
    back_to = session.back_to

    async def once_more(savepoint: str) -> bool:
        timed_out.set()
        await rolled_back.wait()
        return await back_to(savepoint)

    rolled_back = asyncio.Event()
    session.back_to = once_more  # type: ignore[method-assign]
    waiting = asyncio.create_task(pieces.send(UpsertRows(table, [account(2, "mine")], True)))
    await timed_out.wait()
    await transaction.rollback()
    rolled_back.set()
    await other.close()
    assert isinstance(await waiting, BatchReady)
    await sink.commit(CommitBatch(pieces.id))
    assert target.rows() == [(1, "a"), (2, "mine")]


async def test_a_takeover_ends_a_transaction_in_pieces(target: Target) -> None:
    old, table, epoch = await opened(target)
    pieces = await Pieces.open(target, old, epoch)
    await pieces.ready(UpsertRows(table, [account(1, "a")], True))
    taken = await target.sink(lock_timeout_seconds=0.3).take_over([ACCOUNT], START)
    assert taken.receipts == ()
    assert (await pieces.failed(UpsertRows(table, [account(2)], True))).kind is ErrorKind.TRANSIENT
    asked = msgspec.structs.replace(target.batch(epoch, held=True), id=pieces.id)
    assert (await failed(old, asked)).kind is ErrorKind.FENCED
    assert target.rows() == []
