"""The MySQL sink against a real server: takeovers, receipts, fences, commits in doubt."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters.mysql_sink.sink_target import INT, START, Proxy, Target, any_table
from tidelock.adapters.mysql.target.fencing import Fencing
from tidelock.adapters.mysql.target.session import open_session
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.protocol.effects import CommitBatch, EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    BatchReady,
    CheckpointFailed,
    CheckpointSaved,
    ParkedKey,
    Receipt,
)
from tidelock.engine.protocol.steps import ParkedRow, UpdateRows, UpsertRows


async def test_takeover_reads_what_is_there(target: Target) -> None:
    sink, table = await any_table(target)
    parked = ParkedRow("0-1", 7, 3, "src", "t", "id=1", "no", b"\x00'\\")
    batch = target.batch(sink, UpsertRows(table, [(1, "a", 1)], True), parked=(parked,))
    assert await sink.apply(batch) == BatchCommitted(batch.id)
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET halt='x', ddl_passed='0-1:9'")
    again = await target.own(target.sink(), "t")
    assert again.epoch == 2
    assert again.checkpoint == START
    assert again.receipts == (Receipt(batch.id, b"covered"),)
    assert again.parked == (ParkedKey("0-1", 7, 3, TableName("src", "t"), b"\x00'\\"),)
    assert again.ddl_passed == ("0-1", 9)
    assert target.book("owner", "halt") == [(None,)]
    assert target.book("progress", "origin, path") == [("here", "here>there")]


async def test_start_is_stored_at_once_and_later_ones_do_not_count(target: Target) -> None:
    await target.own(target.sink())
    taken = await target.sink().take_over([], Position("bin.000009", 99))
    assert taken.checkpoint == START


async def test_without_checkpoint_and_start_there_is_no_run(target: Target) -> None:
    with pytest.raises(TargetError, match="checkpoint"):
        await target.sink().take_over([], None)


async def test_a_receipt_seen_again_means_committed_before(target: Target) -> None:
    sink, table = await any_table(target)
    batch = target.batch(sink, UpsertRows(table, [(1, "a", 1)], True))
    await sink.apply(batch)
    target.sql("UPDATE t SET x=5")
    assert await sink.apply(batch) == BatchCommitted(batch.id)
    assert target.rows() == [(1, "a", 5)]


async def test_a_zombies_batch_is_fenced(target: Target) -> None:
    zombie, table = await any_table(target)
    await target.own(target.sink())
    answer = await target.failed(zombie, UpsertRows(table, [(1, "a", 1)], True))
    while answer.failure.kind is ErrorKind.TRANSIENT:  # its session was ended; it looks again with a new one
        answer = await target.failed(zombie, UpsertRows(table, [(1, "a", 1)], True))
    assert answer.failure.kind is ErrorKind.FENCED
    assert target.rows() == []
    wanted = SaveCheckpoint(EffectId(1, 99), Position("bin.000002", 4), ())
    troubles = [getattr(await zombie.save_checkpoint(wanted), "failure", None) for _ in range(2)]
    assert [failure and failure.kind for failure in troubles] == [ErrorKind.TRANSIENT, ErrorKind.FENCED]
    assert (await target.sink().take_over([], None)).checkpoint == START


async def test_a_zombie_on_an_open_session_is_fenced_by_the_receipt(target: Target) -> None:
    zombie, table = await any_table(target)
    await target.committed(zombie, UpsertRows(table, [(1, "a", 1)], True))
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1")
    fresh = UpsertRows(table, [(2, "b", 1)], True)
    with_an_update = [UpdateRows(table, [(1,)], [(1, "c", 1)], True), fresh]
    with_a_duplicate = [UpsertRows(table, [(1, "d", 1)], True), *with_an_update]
    for steps in ([fresh], with_an_update, with_a_duplicate):
        answer = await target.failed(zombie, *steps)
        assert answer.failure.kind is ErrorKind.FENCED
        assert target.rows() == [(1, "a", 1)]


async def test_a_takeover_waits_for_an_open_batch_and_sees_its_receipt(target: Target) -> None:
    zombie, table = await any_table(target)
    batch = target.batch(zombie, UpsertRows(table, [(1, "a", 1)], True), held=True)
    assert await zombie.apply(batch) == BatchReady(batch.id)
    taking = asyncio.create_task(target.own(target.sink(lock_timeout_seconds=20), "t"))
    await asyncio.sleep(0.5)
    assert not taking.done()
    assert await zombie.commit(CommitBatch(batch.id)) == BatchCommitted(batch.id)
    assert (await taking).receipts == (Receipt(batch.id, b"covered"),)


async def test_a_takeover_kills_a_zombie_that_does_not_end(target: Target) -> None:
    zombie, table = await any_table(target)
    batch = target.batch(zombie, UpsertRows(table, [(1, "a", 1)], True), held=True)
    await zombie.apply(batch)
    taken = await target.own(target.sink(lock_timeout_seconds=1), "t")
    assert taken.receipts == ()
    answer = await zombie.commit(CommitBatch(batch.id))
    assert isinstance(answer, BatchFailed)
    assert target.rows() == []


async def test_a_user_lock_is_let_go_only_after_the_rollback(target: Target) -> None:
    """`ownership` rests on this: a killed session with much to undo is not gone while it undoes."""
    sink, table = await any_table(target)
    batch = target.batch(sink, UpsertRows(table, [(n, "x" * 20, n) for n in range(30_000)], True), held=True)
    await sink.apply(batch)
    owner = Fencing(sink._endpoint, "feed", 0, target.books, 5)
    owner.epoch = 1
    killer = await open_session(sink._endpoint, 5)
    assert sink._lanes[0].session is not None
    target.server.execute(f"KILL {sink._lanes[0].session.number}")
    await owner.end(killer, 1)
    assert (await killer.ask(f"SELECT COUNT(*) FROM `{target.database}`.t FOR UPDATE")).rows == ((0,),)
    trx = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_rows_modified>1000"
    assert target.server.execute(trx) == [(0,)]
    await killer.close()


async def test_a_lane_whose_session_was_killed_is_retried_on_a_new_one(target: Target) -> None:
    sink, table = await any_table(target)
    await target.committed(sink, UpsertRows(table, [(1, "a", 1)], True))
    assert sink._lanes[0].session is not None
    target.server.execute(f"KILL {sink._lanes[0].session.number}")
    answer = await target.failed(sink, UpsertRows(table, [(2, "b", 1)], True))
    assert answer.failure.kind is ErrorKind.TRANSIENT
    await target.committed(sink, UpsertRows(table, [(2, "b", 1)], True))


async def test_checkpoint_moves_and_deletes_exactly_those_receipts(target: Target) -> None:
    sink, table = await any_table(target)
    batches = [target.batch(sink, UpsertRows(table, [(n, "a", 1)], True)) for n in range(4)]
    for batch in batches:
        await sink.apply(batch)
    to = Position("bin.000002", 77, gtids="0-1-5")
    ids = (batches[0].id, batches[2].id)
    assert await sink.save_checkpoint(SaveCheckpoint(EffectId(1, 50), to, ids)) == CheckpointSaved(EffectId(1, 50))
    taken = await target.sink().take_over([], START)
    assert taken.checkpoint == to
    assert [r.id for r in taken.receipts] == [batches[1].id, batches[3].id]


async def test_deleting_receipts_locks_no_gap_that_another_lane_inserts_into(target: Target) -> None:
    """Counter-example 18: under the server's own REPEATABLE READ the insert waits."""
    sink, table = await any_table(target)
    session = await open_session(sink._endpoint, 2)
    (delete,) = sink._bookkeeping.drop_receipts([EffectId(1, n) for n in range(100, 110)])
    await session.run([delete])
    await target.committed(sink, UpsertRows(table, [(1, "a", 1)], True))
    await session.rollback()
    await session.close()


# --- commit in doubt



@pytest.mark.parametrize("reach", [True, False])
@pytest.mark.parametrize("held", [False, True])
async def test_a_lost_answer_to_commit_is_in_doubt_and_the_retry_applies_once(
    target: Target, reach: bool, held: bool
) -> None:
    """`reach`: whether the server still got the COMMIT.  Counter-example 4: the batch is not planned anew."""
    target.table("id int PRIMARY KEY, n int")
    target.sql("INSERT INTO t VALUES (1, 0)")
    async with Proxy(target.server.port) as proxy:
        proxy.reach = reach
        sink, table = await target.opened(("id", INT), ("n", INT), url=proxy.url(target.database))
        batch = target.batch(sink, UpsertRows(table, [(2, 7)], True), held=held)
        if held:
            assert isinstance(await sink.apply(batch), BatchReady)
            proxy.cut = True
            answer = await sink.commit(CommitBatch(batch.id))
        else:
            proxy.cut = True
            answer = await sink.apply(batch)
        assert isinstance(answer, BatchFailed)
        assert answer.failure.kind is ErrorKind.IN_DOUBT
        proxy.cut = False
        again = await sink.apply(batch)
        if isinstance(again, BatchReady):
            again = await sink.commit(CommitBatch(batch.id))
        assert again == BatchCommitted(batch.id)
        assert target.rows() == [(1, 0), (2, 7)]
        assert len(target.book("progress")) == 1
        await sink.close()


async def test_an_in_doubt_checkpoint_says_so(target: Target) -> None:
    async with Proxy(target.server.port) as proxy:
        sink = target.sink(proxy.url(target.database))
        await target.own(sink)
        proxy.cut = True
        answer = await sink.save_checkpoint(SaveCheckpoint(EffectId(1, 1), Position("bin.000002", 9), ()))
        assert isinstance(answer, CheckpointFailed)
        assert answer.failure.kind is ErrorKind.IN_DOUBT
        proxy.cut = False
        answer = await sink.save_checkpoint(SaveCheckpoint(EffectId(1, 1), Position("bin.000002", 9), ()))
        assert isinstance(answer, CheckpointSaved)
        await sink.close()
