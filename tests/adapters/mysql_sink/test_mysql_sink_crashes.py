"""The MySQL sink against a real server: a server that forgets what it reported."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.adapters.mysql_sink.sink_target import ID_U_X, SOLE_UNIQUE, Target
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId, SaveCheckpoint
from tidelock.engine.protocol.events import BatchCommitted, CheckpointSaved
from tidelock.engine.protocol.steps import UpsertRows

RELAXED = [
    "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-timeout=2700", "--sync-binlog=0", "--skip-log-bin",
]  # fmt: skip


@pytest.fixture(params=["make_mariadb", "make_mysql"])
async def relaxed(request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    """Its commits reach the disk only when something else makes it write, so that a crash loses some."""
    # MariaDB maps a log that is in memory, which then outlives it.
    target = Target(request.getfixturevalue(request.param)(extra=RELAXED, on_disk=True))
    yield target
    for sink in target.sinks:
        await sink.close()


def crash(target: Target) -> None:
    target.server.kill()
    target.server.start()


def lazily(target: Target, lazy: bool) -> None:
    target.server.execute(f"SET GLOBAL innodb_flush_log_at_trx_commit={0 if lazy else 1}")


ATTEMPTS = 5
"""A server may write its log just then all the same: once more."""


async def _refused_at_last(target: Target, sink: MySqlSink) -> None:
    """The first failure may be that of a connection that is found dead."""
    failures = [(await target.failed(sink)).failure for _ in range(2)]
    assert failures[-1].kind is ErrorKind.COMMITS_LOST
    assert "crash" in failures[-1].message


async def test_commits_lost_in_a_crash_stand_the_owner_down(relaxed: Target) -> None:
    """Going on would lose their rows for good."""
    relaxed.table(SOLE_UNIQUE)
    for number in range(ATTEMPTS):
        lazily(relaxed, False)
        sink, table = await relaxed.opened(*ID_U_X)
        await relaxed.committed(sink)
        lazily(relaxed, True)
        await relaxed.committed(sink, UpsertRows(table, [(number, "lost", 0)], fresh=True))
        crash(relaxed)
        if (number,) not in relaxed.rows("id"):
            break
    else:
        pytest.fail("all commits survived: this test proves nothing")
    await _refused_at_last(relaxed, sink)
    taken = await relaxed.own(sink, "t")
    assert len(taken.receipts) == len(relaxed.book("progress")) == 2 * number + 1
    await relaxed.committed(sink, UpsertRows(relaxed.binding(taken, *ID_U_X), [(9, "again", 0)], fresh=True))


async def test_a_checkpoint_lost_in_a_crash_stands_the_owner_down(relaxed: Target) -> None:
    """It deleted the receipts of what was lost with it, so nothing else would ever miss them."""
    relaxed.table(SOLE_UNIQUE)
    for number in range(ATTEMPTS):
        lazily(relaxed, False)
        sink, table = await relaxed.opened(*ID_U_X)
        await relaxed.committed(sink)
        lazily(relaxed, True)
        batch = relaxed.batch(sink, UpsertRows(table, [(number, "lost", 0)], fresh=True))
        assert isinstance(await sink.apply(batch), BatchCommitted)
        id_ = EffectId(sink._fencing.epoch, next(relaxed.counters))
        saved = Position("binlog.000009", 9 + number)
        assert isinstance(await sink.save_checkpoint(SaveCheckpoint(id_, saved, (batch.id,))), CheckpointSaved)
        crash(relaxed)
        if (number,) not in relaxed.rows("id"):
            break
    else:
        pytest.fail("all commits survived: this test proves nothing")
    await _refused_at_last(relaxed, sink)
    assert (await relaxed.own(sink, "t")).checkpoint != saved


async def test_a_takeover_lost_in_a_crash_is_no_newer_owner(relaxed: Target) -> None:
    relaxed.table(SOLE_UNIQUE)
    for _ in range(ATTEMPTS):
        lazily(relaxed, False)
        await relaxed.opened(*ID_U_X)
        lazily(relaxed, True)
        sink, _ = await relaxed.opened(*ID_U_X)
        crash(relaxed)
        if relaxed.book("owner", "epoch") != [(sink._fencing.epoch,)]:
            break
    else:
        pytest.fail("all takeovers survived: this test proves nothing")
    await _refused_at_last(relaxed, sink)


async def test_a_checkpoint_in_doubt_is_no_crash(target: Target) -> None:
    """New sessions take it for stored and for not stored: it may be either."""
    target.table(SOLE_UNIQUE)
    sink, table = await target.opened(*ID_U_X)
    batch = target.batch(sink, UpsertRows(table, [(1, "x", 0)], fresh=True))
    assert isinstance(await sink.apply(batch), BatchCommitted)
    saved = Position("binlog.000009", 9)
    sink._audit.checkpoint_sent(saved, (batch.id,))
    await target.committed(sink, UpsertRows(table, [(2, "x", 0)], fresh=True), lane=1)
    target.server.execute(f"DELETE FROM `{target.books}`.tidelock_progress WHERE batch={batch.id.counter}")
    assert (await target.failed(sink, lane=2)).failure.kind is ErrorKind.COMMITS_LOST
    words = msgspec.json.encode(saved).decode()
    target.server.execute(f"UPDATE `{target.books}`.tidelock_checkpoint SET position=%s", words)
    await target.committed(sink, lane=2)
    await sink.control()
