"""Copying into real MySQL and MariaDB servers: what is left behind goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.harness.decode import read
from tests.adapters.mysql_copying.copy_target import ID_U_X, TWO_UNIQUE, Target, by_column
from tidelock.adapters.config.url import parse
from tidelock.adapters.mysql.binlog.captured_log import classified
from tidelock.adapters.mysql.binlog.log_ends import current_position
from tidelock.adapters.mysql.connection import connect, reader_endpoint
from tidelock.adapters.mysql.target.staging import stage
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.ports.staging import Columns, staged_name, staged_prefix
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema_change import DdlKind
from tidelock.engine.protocol.effects import EffectId, Publish
from tidelock.engine.protocol.events import SourceRead


async def test_what_is_staged_goes_and_its_stager_with_it(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    attempt, _ = target.stage([(1, "a", 1)])
    await target.sink.drop_staged(attempt)
    await target.sink.drop_staged(attempt)
    assert target.staged_tables() == []
    place = target.staging(EffectId(1, 99), *ID_U_X)
    loop, filling, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def slowly() -> Iterator[Columns]:
        yield by_column([(1, "a", 1)], ID_U_X)
        loop.call_soon_threadsafe(filling.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    filler = asyncio.create_task(asyncio.to_thread(stage, place, slowly()))
    await filling.wait()
    await asyncio.wait_for(target.sink.drop_staged(EffectId(1, 99)), 20)
    assert target.staged_tables() == []
    go_on.set()
    with pytest.raises(Unreachable):
        await filler


async def test_a_takeover_drops_what_older_owners_staged(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    target.stage([(1, "a", 1)])
    others = f"{staged_prefix('another', 0)}1_1"
    newer = staged_name("feed", 0, EffectId(3, 1))
    for name in (others, newer):
        target.server.execute(f"CREATE TABLE `{target.books}`.`{name}` (a int PRIMARY KEY)")
    await target.own()
    mine, _ = target.stage([(1, "a", 1)])
    await target.sinks[0].drop_staged(EffectId(1, 1))
    assert target.staged_tables() == sorted([others, newer, staged_name("feed", 0, mine)])


async def test_a_feed_the_other_way_sees_nothing_of_a_copy(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    target.sql("INSERT INTO t VALUES (9,'old',9)")
    endpoint = reader_endpoint(parse(target.server.url(target.database), target.folder))
    session = connect(endpoint)
    start = current_position(session)
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1)])
    await target.merged(attempt, 1)
    await target.sink.drop_staged(attempt)
    target.sql("INSERT INTO t VALUES (2,'local',2)")
    mapping = Mapping([Rule("*.*", "*.*")], target.books)
    capture = CaptureMachine(mapping, start, node="here")
    receipts = TableName(target.books, "tidelock_progress")
    batches: list[LogBatch] = []
    for chunk in read(endpoint, start, current_position(session), wanted=mapping.selects, is_marker=receipts.__eq__):
        published = capture.step(0, [SourceRead([classified(chunk, "mysql" if target.mysql else "mariadb")])])
        batches += [effect.batch for effect in published if isinstance(effect, Publish)]
    session.close()
    assert [row.after for batch in batches for row in batch.rows] == [(2, "local", 2)]
    statements = [batch.ddl for batch in batches if batch.ddl is not None]
    assert {ddl.kind for ddl in statements} == {DdlKind.UNRELATED}
    assert any("CREATE TABLE" in ddl.statement for ddl in statements)
