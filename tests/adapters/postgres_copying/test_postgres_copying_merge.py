"""Copying into a real PostgreSQL: a chunk is merged once, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from bench.harness.servers import Postgres
from tests.adapters.postgres_copying.copy_target import ACCOUNT, MERGED, START, Target, row, until
from tidelock.adapters.ports.staging import staged_name
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.protocol.effects import ApplyBatch, BeginCopy, SaveCheckpoint
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, CheckpointSaved, Copied, CopyBegun, CopyFailed
from tidelock.engine.protocol.steps import ParkedRow, UpsertRows


async def test_a_merge_puts_rows_chunk_and_checkpoint_in_place_at_once(target: Target) -> None:
    copy = await target.opened()
    split = ChunkSplit(ACCOUNT, By.NUMBERS, ("id",), ((5,),))
    await copy.begin(split)
    batch = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0)
    await copy.sink.apply(batch)
    images = [row(2, "touched"), row(4, "new")]
    parked, other = (ParkedRow("s", 1, n, "public", "account", f"id={n}", "why", b"x") for n in (3, 9))
    before = ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0, (other,))
    await copy.sink.apply(before)
    effect = await copy.chunk(
        (row(n) for n in range(5)),
        split=split,
        without=[(1,), (2,), (4,), (99,)],
        steps=[UpsertRows(copy.table, images, fresh=True)],
        drop=(batch.id, before.id),
        parked=(parked,),
        unparked=((other.source, other.number, other.ordinal),),
    )
    await copy.merged(effect)

    assert target.rows() == [(0, "user0"), (2, "touched"), (3, "user3"), (4, "new")]
    assert target.position() == MERGED
    assert target.sql("SELECT epoch, batch FROM tidelock.tidelock_progress") == [(effect.id.epoch, effect.id.counter)]
    assert target.sql("SELECT chunk, rows_merged FROM tidelock.tidelock_chunks ORDER BY 1") == [(0, 4), (1, None)]
    assert target.sql("SELECT row_key FROM tidelock.tidelock_parked") == [("id=3",)]
    taken = await target.sink().take_over([ACCOUNT], START)
    assert taken.chunks == (Copied(split, (0,)),)
    assert [receipt.id for receipt in taken.receipts] == [effect.id]


async def test_a_merge_is_made_once(target: Target) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1)])
    await copy.merged(effect)
    target.sql("DELETE FROM account")  # a second merge would bring the row back
    await copy.sink.drop_staged(effect.staged)
    await copy.merged(effect)
    assert target.rows() == []
    save = SaveCheckpoint(target.id(copy.taken.epoch), MERGED, (effect.id,))
    assert await copy.sink.save_checkpoint(save) == CheckpointSaved(save.id)


async def test_receipts_that_a_merge_or_a_beginning_drops_are_not_missed(target: Target) -> None:
    """Nor is the merge's own, until it is gone without our doing: then the target has lost what it had reported."""
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    copy = await target.opened()
    batches = [ApplyBatch(target.id(copy.taken.epoch), 0, [], b"", 0) for _ in range(5)]

    async def applied(batch: ApplyBatch) -> Any:
        answer = await copy.sink.apply(batch)
        again = isinstance(answer, BatchFailed) and answer.failure.kind in (ErrorKind.TRANSIENT, ErrorKind.IN_DOUBT)
        return await copy.sink.apply(batch) if again else answer

    assert await applied(batches[0]) == BatchCommitted(batches[0].id)
    begin = BeginCopy(target.id(copy.taken.epoch), (ChunkSplit(ACCOUNT),), START, (batches[0].id,))
    assert await copy.sink.begin_copy(begin) == CopyBegun(begin.id)
    target.sql(ended)
    assert await applied(batches[1]) == BatchCommitted(batches[1].id)
    merge = await copy.chunk([row(1)], drop=(batches[1].id,))
    await copy.merged(merge)
    target.sql(ended)
    assert await applied(batches[2]) == BatchCommitted(batches[2].id)
    target.sql("DELETE FROM tidelock.tidelock_progress WHERE batch = $1", merge.id.counter)
    target.sql(ended)
    answer = await applied(batches[3])
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.COMMITS_LOST
    assert (await copy.failed(await copy.chunk([row(2)]))).kind is ErrorKind.COMMITS_LOST


async def test_a_merge_whose_session_is_ended_is_in_doubt_and_made_again(target: Target) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")  # the merge waits for it
    running = asyncio.create_task(copy.sink.merge_chunk(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    target.sql(f"SELECT pg_terminate_backend(pid) {waiting}")
    answer = await running
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.IN_DOUBT
    await other.execute("ROLLBACK")
    await other.close()
    assert target.rows() == []
    await copy.merged(effect)
    assert target.rows() == [(1, "user1")]


async def test_a_merge_ends_with_its_sink(target: Target) -> None:
    copy = await target.opened(lock_timeout_seconds=60.0)
    await copy.begin()
    effect = await copy.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")
    running = asyncio.create_task(copy.sink.merge_chunk(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    await asyncio.wait_for(copy.sink.close(), 20)  # before the lock times out
    assert running.cancelled()
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    await until(lambda: target.sql(sessions) == [(0,)])
    await other.execute("ROLLBACK")
    await other.close()
    assert target.rows() == []


async def test_a_takeover_ends_a_merge_that_does_not_finish(target: Target) -> None:
    old = await target.opened(lock_timeout_seconds=60.0)
    await old.begin()
    effect = await old.chunk([row(1)])
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    await other.execute("BEGIN; INSERT INTO account VALUES (7, 'user1', 0)")
    running = asyncio.create_task(old.failed(effect))
    waiting = "FROM pg_stat_activity WHERE application_name = 'tidelock/shop' AND wait_event_type = 'Lock'"
    await until(lambda: target.sql(f"SELECT count(*) {waiting}") == [(1,)])
    taken = await target.sink(lock_timeout_seconds=0.3).take_over([ACCOUNT], START)
    assert (taken.chunks, taken.receipts) == ((Copied(ChunkSplit(ACCOUNT)),), ())
    assert (await running).kind is ErrorKind.IN_DOUBT
    await other.execute("ROLLBACK")
    await other.close()
    assert (await old.failed(effect)).kind is ErrorKind.FENCED
    assert target.rows() == []
    assert target.staged() == []


async def test_a_zombie_merges_and_begins_nothing(target: Target) -> None:
    zombie = await target.opened()
    await zombie.begin()
    effect = await zombie.chunk([row(1)])
    target.wanted(1, "copy")
    await target.sink().take_over([ACCOUNT], START)
    late = await zombie.chunk([row(2)])
    for one in (effect, late):
        assert (await zombie.failed(one)).kind is ErrorKind.FENCED
    target.sql("INSERT INTO account VALUES (9, 'stays', 0)")
    answer = await zombie.begin()
    assert isinstance(answer, CopyFailed)
    assert answer.failure.kind is ErrorKind.FENCED
    await zombie.sink.refuse([ACCOUNT], Alarm("copy", "no", "hint"))
    assert target.rows() == [(9, "stays")]
    assert target.sql("SELECT mode FROM tidelock.tidelock_wanted") == [("copy",)]


@pytest.mark.parametrize("lost", ["DELETE FROM tidelock.{} WHERE id = 1", "DROP TABLE tidelock.{}"])
async def test_rows_that_are_staged_no_more_stand_the_owner_down(target: Target, lost: str) -> None:
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1), row(2)])
    target.sql(lost.format(staged_name("shop", 0, effect.staged)))
    assert (await copy.failed(effect)).kind is ErrorKind.COMMITS_LOST
    assert target.rows() == []
    assert target.position() == START


async def test_a_crash_of_the_server_empties_what_is_staged(make_postgres: Callable[..., Postgres]) -> None:
    target = Target(make_postgres(durable=True))
    copy = await target.opened()
    await copy.begin()
    effect = await copy.chunk([row(1), row(2)])
    target.server.kill()
    target.server.start()
    troubles = [(await copy.failed(effect)).kind for _ in range(2)]
    assert troubles[-1] is ErrorKind.COMMITS_LOST
    assert target.rows() == []
    taken = await copy.sink.take_over([ACCOUNT], START)
    assert taken.chunks == (Copied(ChunkSplit(ACCOUNT)),)
    await copy.sink.close()
