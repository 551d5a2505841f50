"""The MySQL sink against a real server: its sessions."""

from __future__ import annotations

import asyncio

import pytest

from tests.adapters.mysql_sink.sink_target import ID_U_X, SOLE_UNIQUE, Target, any_table, eventually, is_mysql
from tidelock.adapters.mysql.target.session import MODES, open_session
from tidelock.adapters.ports.sink import TargetError
from tidelock.engine.protocol.steps import UpsertRows


async def test_a_session_has_the_settings_that_exactness_rests_on(target: Target) -> None:
    target.server.execute("SET GLOBAL sql_mode='ANSI_QUOTES,NO_ZERO_DATE'")
    try:
        sink, _ = await any_table(target)
        session = await open_session(sink._endpoint, 7)
        level = "transaction_isolation" if is_mysql(target) else "tx_isolation"
        asked = (
            f"SELECT @@sql_mode,@@time_zone,@@{level},@@foreign_key_checks,@@unique_checks,@@innodb_lock_wait_timeout"
        )
        ((modes, *others),) = (await session.ask(asked + ",@@character_set_connection,@@autocommit")).rows
        await session.close()
    finally:
        target.server.execute("SET GLOBAL sql_mode=DEFAULT")
    assert set(modes.split(",")) == MODES
    assert others == ["+00:00", "READ-COMMITTED", 1, 1, 7, "utf8mb4", 0]


async def test_no_secret_in_an_error(target: Target) -> None:
    url = target.server.url(target.database).replace("//root@", "//nobody:hush_hush@")
    with pytest.raises(TargetError) as caught:
        await target.own(target.sink(url))
    assert "hush" not in f"{caught.value} {caught.value.hint} {caught.value!r}"
    assert "nobody" in str(caught.value)


async def test_a_server_that_is_not_there_is_an_operators_error(target: Target) -> None:
    with pytest.raises(TargetError, match="connect"):
        await target.own(target.sink("mysql://root@127.0.0.1:9/x"))


async def test_missing_bookkeeping_names_init(target: Target) -> None:
    target.server.execute(f"DROP DATABASE `{target.books}`")
    with pytest.raises(TargetError) as caught:
        await target.own(target.sink())
    assert "tidelock init" in caught.value.hint


async def test_close_ends_every_session(target: Target) -> None:
    sink, table = await any_table(target)
    for lane in range(3):
        await target.committed(sink, UpsertRows(table, [(lane, "a", 1)], True), lane=lane)
    await sink.close()
    await eventually(lambda: not _sessions(target))


def _sessions(target: Target) -> list[int]:
    listed = target.sql(
        "SELECT id FROM information_schema.processlist WHERE db=%s AND id<>CONNECTION_ID()", target.database
    )
    return [id for (id,) in listed]


async def test_an_eager_sink_opens_its_lanes_before_their_first_batch(target: Target) -> None:
    target.table(SOLE_UNIQUE)
    sink, table = await target.opened(*ID_U_X, eager=True)
    await eventually(lambda: len(_sessions(target)) == 4)
    before = sorted(_sessions(target))
    for lane in range(3):
        await target.committed(sink, UpsertRows(table, [(lane, "a", 1)], True), lane=lane)
    assert sorted(_sessions(target)) == before


async def test_sessions_that_are_being_opened_end_with_the_sink(target: Target) -> None:
    target.table(SOLE_UNIQUE)
    sink, _ = await target.opened(*ID_U_X, eager=True)
    await asyncio.sleep(0)  # the openings begin
    await sink.close()
    await eventually(lambda: not _sessions(target))
    await target.own(sink, "t")
    await eventually(lambda: len(_sessions(target)) == 4)
