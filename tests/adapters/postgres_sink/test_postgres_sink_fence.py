"""The PostgreSQL sink against a real server: takeovers, receipts, fences, and commits that a crash lost."""

import asyncio
from collections.abc import Callable

import asyncpg
import msgspec
import pytest

from bench.harness.servers import Postgres
from tests.adapters.postgres_sink.sink_target import ACCOUNT, START, Proxy, Target, account, committed, failed, opened
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.target.session import application_name
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyDdl, CommitBatch, EffectId, Halt, SaveCheckpoint
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    BatchReady,
    CheckpointFailed,
    CheckpointSaved,
    DdlFailed,
)
from tidelock.engine.protocol.steps import ParkedRow, UpsertRows


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
