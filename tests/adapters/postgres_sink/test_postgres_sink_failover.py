"""The PostgreSQL sink where a standby that was behind is promoted, or a copy of the server is put back, while the feed
runs: what was stored for good is not there either."""

from __future__ import annotations

from tests.adapters.postgres_sink.sink_target import ACCOUNT, START, Target, account, committed, failed, opened
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import CheckpointSaved
from tidelock.engine.protocol.steps import UpsertRows

SAVED = Position("binlog.000002", 8)


def put_back(target: Target) -> None:
    """The rows, the receipts and the checkpoint are those of the takeover; sessions are gone, as in a failover."""
    target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidelock/%'")
    for table in ("account", "tidelock.tidelock_progress", "tidelock.tidelock_checkpoint"):
        target.sql(f"DELETE FROM {table}")
    target.sql("INSERT INTO tidelock.tidelock_checkpoint SELECT feed, grp, position, saved_at, site FROM before")


async def in_order(target: Target, sink: PostgresSink, epoch: int, number: int) -> Failure | None:
    """Why a batch of the next session fails; the first may find its connection dead."""
    batch = target.batch(epoch, lane=number % 4)
    first: Failure = await failed(sink, batch)
    return first if first.kind is ErrorKind.COMMITS_LOST else await failed(sink, batch)


async def test_a_checkpoint_that_is_older_stands_the_owner_down(target: Target) -> None:
    """It deleted the receipts of what was lost with it, so nothing else would ever miss them."""
    sink, table, epoch = await opened(target)
    target.sql("CREATE TABLE before AS SELECT * FROM tidelock.tidelock_checkpoint")
    batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
    await committed(sink, batch)
    saved = SaveCheckpoint(EffectId(epoch, 50), SAVED, (batch.id,))
    assert await sink.save_checkpoint(saved) == CheckpointSaved(saved.id)
    put_back(target)
    for number in range(2):
        failure = await in_order(target, sink, epoch, number)
        assert failure is not None and failure.kind is ErrorKind.COMMITS_LOST
    assert not target.rows()
    taken = await sink.take_over([ACCOUNT], START)
    assert taken.checkpoint == START
    await sink.close()


async def test_a_takeover_that_is_gone_is_no_newer_owner(target: Target) -> None:
    await opened(target)
    sink, _, epoch = await opened(target)
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch - 1")
    target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidelock/%'")
    failure = await in_order(target, sink, epoch, 0)
    assert failure is not None and failure.kind is ErrorKind.COMMITS_LOST
    await sink.close()


async def test_a_checkpoint_that_is_there_lets_the_owner_go_on(target: Target) -> None:
    """Also where its connection was lost: the sessions are anew, and nothing else."""
    sink, table, epoch = await opened(target)
    batch = target.batch(epoch, UpsertRows(table, [account(1)], True))
    await committed(sink, batch)
    saved = SaveCheckpoint(EffectId(epoch, 50), SAVED, (batch.id,))
    assert await sink.save_checkpoint(saved) == CheckpointSaved(saved.id)
    target.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidelock/%'")
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(2)], True), lane=2))
    await sink.close()
