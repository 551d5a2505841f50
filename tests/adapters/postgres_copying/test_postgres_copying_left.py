"""Copying into a real PostgreSQL: what is left behind goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import asyncpg
import msgspec
import pytest

from tests.adapters.postgres_copying.copy_target import ACCOUNT, COLUMNS, START, Target, columnar, row, until
from tidelock.adapters.config.url import parse
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.staging import Columns, Staged, staged_name
from tidelock.adapters.postgres.target.staging import session_name, stage
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Shape, TableName
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import RefusedRow


async def test_what_older_owners_staged_is_dropped(target: Target) -> None:
    copy = await target.opened()
    await copy.stage([row(1)])
    young, _ = await copy.stage([row(1)], attempt=EffectId(copy.taken.epoch + 5, 1))
    target.sql(f"CREATE TABLE tidelock.{staged_name('other', 0, EffectId(1, 1))} (id int)")
    target.sql(f"CREATE TABLE tidelock.{staged_name('shop', 0, EffectId(1, 1)).rpartition('_')[0]}x_1 (id int)")
    assert len(target.staged()) == 4
    await target.sink().take_over([ACCOUNT], START)
    assert len(target.staged()) == 3
    await copy.sink.drop_staged(young)
    await copy.sink.drop_staged(young)
    assert len(target.staged()) == 2


@pytest.mark.parametrize("takeover", [False, True])
async def test_who_still_stages_what_is_dropped_is_ended(target: Target, takeover: bool) -> None:
    copy = await target.opened()
    attempt = target.id(copy.taken.epoch)
    name = session_name(copy.place(attempt).name)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def batches() -> Iterable[Columns]:
        yield from columnar([row(1)], 1)
        asyncio.run_coroutine_threadsafe(drop(), loop).result(20)
        yield from columnar([row(2)], 1)

    async def drop() -> None:
        if takeover:
            await target.sink().take_over([ACCOUNT], START)
        else:
            await copy.sink.drop_staged(attempt)
        ended.set()

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await asyncio.to_thread(stage, copy.place(attempt), batches())
    assert ended.is_set()
    assert target.staged() == []
    await until(lambda: target.sql("SELECT FROM pg_stat_activity WHERE application_name = $1", name) == [])


async def test_wishes_are_read_and_refused(target: Target) -> None:
    copy = await target.opened()
    target.wanted(1, "copy")
    target.wanted(2, "repair", (5, "a", b"\0", None, 1.5))
    target.wanted(3, "keep", table="other")
    other = TableName("public", "other")
    assert (await copy.sink.control()).wanted == (
        Wanted(1, ACCOUNT, "copy"),
        Wanted(2, ACCOUNT, "repair", (5, "a", b"\0", None, 1.5)),
        Wanted(3, other, "keep"),
    )
    alarm = Alarm("copy", "why 'not'", "hint", table="public.account")
    await copy.sink.refuse([ACCOUNT], alarm)
    assert [wish.ordinal for wish in (await copy.sink.control()).wanted] == [3]
    kept = target.sql("SELECT mode, row_key FROM tidelock.tidelock_wanted ORDER BY ordinal")
    assert [mode for mode, _ in kept] == ["refused", "refused", "keep"]
    assert msgspec.json.decode(kept[0][1], type=Alarm) == alarm
    await copy.begin(ChunkSplit(ACCOUNT, By.KEYS, ("id",)))  # what a repair that was given up leaves behind
    assert len(target.sql("SELECT ordinal FROM tidelock.tidelock_wanted")) == 3
    await copy.begin()
    assert target.sql("SELECT ordinal FROM tidelock.tidelock_wanted") == [(3,)]


async def test_the_session_for_copies_is_closed_when_nothing_is_copied(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = await target.opened()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidelock/shop'"
    await copy.sink.control()
    assert target.sql(ours) == [(1,)]
    await copy.begin()
    await copy.sink.control()
    assert target.sql(ours) == [(2,)]
    monkeypatch.setattr("tidelock.adapters.postgres.target.copying.IDLE_SECONDS", 0.0)
    await copy.sink.control()
    await until(lambda: target.sql(ours) == [(1,)])
    await copy.merged(await copy.chunk([row(1)]))


def test_what_staging_needs_travels() -> None:
    """To another process, as Spark sends it."""
    import pickle

    endpoint = parse("postgresql://u:p@h:1/d?sslmode=require", Path())
    refused = RefusedRow(Shape(ACCOUNT, COLUMNS), row(1), "why")
    for one in (endpoint, Staged(1, (refused,))):
        assert pickle.loads(pickle.dumps(one)) == one
