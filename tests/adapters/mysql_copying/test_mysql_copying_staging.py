"""Copying into real MySQL and MariaDB servers: what is staged, and what is refused then."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from bench.harness.servers import Server
from tests.adapters.mysql_copying.copy_target import ID_U_X, INT, TEXT, TWO_UNIQUE, Target, by_column, eventually
from tidelock.adapters.mysql.connection import connect, rows
from tidelock.adapters.mysql.target import staging
from tidelock.adapters.mysql.target.staging import stage, stager_lock
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.ports.staging import Columns, Staged, staged_name
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import Kind, Row
from tidelock.engine.protocol.events import RefusedRow


async def test_staged_columns_have_the_targets_types_and_nothing_else_of_it(target: Target) -> None:
    target.table("id int PRIMARY KEY", name="parent")
    target.table(
        "a varchar(20) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL, b bigint unsigned NOT NULL, "
        "c decimal(65,30), d timestamp(6) NULL, e enum('x','y''z') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, "
        "f varbinary(7), g double, h json, i bit(9), j time(3), k geometry, l int AUTO_INCREMENT, m int, "
        "n int GENERATED ALWAYS AS (m+1) STORED, o year, p text, "
        "PRIMARY KEY (b, a), KEY (l), UNIQUE (p(10)), FOREIGN KEY (m) REFERENCES parent (id), CHECK (m > 5)"
    )
    await target.own()
    columns = [(name, TEXT) for name in "abcdefghijklmnop"]
    attempt, staged = target.stage([], *columns)
    assert staged == Staged(0)
    asked = (
        "SELECT column_name, column_type, character_set_name, collation_name, is_nullable "
        "FROM information_schema.columns "
        "WHERE table_schema=%s AND table_name=%s ORDER BY 1"
    )
    own = target.sql(asked, target.database, "t")
    name = staged_name("feed", 0, attempt)
    assert target.sql(asked, target.books, name) == [row for row in own if row[0] != "n"]
    made = target.sql(f"SHOW CREATE TABLE `{target.books}`.`{name}`")[0][1]
    assert "PRIMARY KEY (`b`,`a`)" in made
    assert "ENGINE=InnoDB" in made
    for word in ("UNIQUE", "FOREIGN", "AUTO_INCREMENT", "GENERATED", "m` >"):
        assert word not in made


async def test_a_server_that_wants_a_primary_key_gets_one(target: Target) -> None:
    wanted = "sql_require_primary_key" if target.mysql else "innodb_force_primary_key"
    target.table("a int NOT NULL UNIQUE, b timestamp NULL")
    await target.own()
    target.server.execute(f"SET GLOBAL {wanted}=1")
    try:
        attempt, staged = target.stage([(1, None)], ("a", INT), ("b", Kind.TIMESTAMP))
    finally:
        target.server.execute(f"SET GLOBAL {wanted}=0")
    assert staged == Staged(1)
    assert target.staged_rows(attempt) == [(1, None)]


async def test_a_key_over_a_prefix_is_staged_as_one(target: Target) -> None:
    target.table("b varbinary(3000), t text, x int, PRIMARY KEY (b(5), t(7))")
    await target.own()
    attempt, staged = target.stage([(b"1234567", "some text", 1)], ("b", Kind.BINARY), ("t", TEXT), ("x", INT))
    assert staged == Staged(1)
    assert target.staged_rows(attempt) == [(b"1234567", "some text", 1)]


async def test_a_table_without_a_key_is_staged_without_one(target: Target) -> None:
    target.table("a int, b int")
    await target.own()
    attempt, staged = target.stage([(1, 2), (1, 2)], ("a", INT), ("b", INT))
    assert staged == Staged(2)
    await target.begun(ChunkSplit(target.name()))
    await target.merged(attempt, 2)
    assert target.rows() == [(1, 2), (1, 2)]


async def test_what_the_columns_cannot_hold_is_refused_and_all_else_staged(target: Target) -> None:
    target.table("id int PRIMARY KEY, u varchar(5) NOT NULL, x tinyint, d datetime(6)")
    await target.own()
    columns = (("id", INT), ("u", TEXT), ("x", INT), ("d", Kind.DATETIME))
    good = [(n, "abc", n % 100, "0000-00-00 00:00:00.000000") for n in range(2500)]
    bad: list[Row] = [
        (7001, "too long", 1, None),
        (7002, None, 1, None),
        (7003, "abc", 128, None),
        (7004, b"\xff", 1, None),
        (7, "again", 1, None),
        (7005, "abc", 1, "2026-02-30 00:00:00.000000"),
    ]
    rows = [*good[:100], bad[0], bad[1], *good[100:1100], bad[2], *good[1100:], *bad[3:]]
    attempt, staged = target.stage(rows, *columns)
    assert staged.rows == 2500
    assert [row.row for row in staged.refused] == bad
    assert all(isinstance(row, RefusedRow) and row.shape == target.shape(*columns) for row in staged.refused)
    words = [row.error for row in staged.refused]
    assert all(word.startswith(f"{target.database}.t: ") for word in words)
    expected = ["Data too long for column 'u'", "'u' cannot be null", "Out of range value for column 'x'"]
    expected += ["column u: its bytes are not valid", "Duplicate entry '7'", "Incorrect datetime value"]
    assert all(part in word for part, word in zip(expected, words, strict=True))
    assert [(n, u) for n, u in target.staged_rows(attempt, "id, u")] == [(n, "abc") for n in range(2500)]


async def test_rows_of_any_size_travel_below_the_largest_packet(
    make_mariadb: Callable[..., Server], tmp_path: Any
) -> None:
    target = Target(make_mariadb(extra=["--max-allowed-packet=1M"]), tmp_path)
    target.table("id int PRIMARY KEY, t longtext")
    await target.own()
    rows: list[Row] = [(n, "x" * 100_000) for n in range(40)]
    rows.insert(20, (99, "x" * 2_000_000))
    attempt, staged = target.stage(rows, ("id", INT), ("t", TEXT))
    await target.sink.close()
    assert staged.rows == 40
    assert [row.row[0] for row in staged.refused] == [99]
    assert "max_allowed_packet" in staged.refused[0].error
    assert target.staged_rows(attempt, "COUNT(*), SUM(LENGTH(t))") == [(40, 4_000_000)]


async def test_a_task_that_is_tried_again_stages_once(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    attempt = target.id()
    for _ in range(2):
        stage(target.staging(attempt, *ID_U_X), [by_column([(1, "a", 1), (2, "b", 2)], ID_U_X)])
    assert target.staged_rows(attempt) == [(1, "a", 1), (2, "b", 2)]


async def test_an_attempt_waits_for_its_forerunner(target: Target) -> None:
    """Whose rows would be doubled, or be taken for duplicates."""
    target.table(TWO_UNIQUE)
    await target.own()
    place = target.staging(target.id(), *ID_U_X)
    first, second = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on = asyncio.Event()

    def slowly() -> Iterator[Columns]:
        yield by_column([(1, "a", 1)], ID_U_X)
        loop.call_soon_threadsafe(first.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    def after() -> Iterator[Columns]:
        loop.call_soon_threadsafe(second.set)
        yield by_column([(1, "a", 2)], ID_U_X)

    one = asyncio.create_task(asyncio.to_thread(stage, place, slowly()))
    await first.wait()
    two = asyncio.create_task(asyncio.to_thread(stage, place, after()))
    lock = stager_lock(target.books, place.name)
    await eventually(lambda: _waits_for(target, lock))
    assert not second.is_set()
    go_on.set()
    assert await one == Staged(1)
    assert await two == Staged(1)
    rows = target.server.execute(f"SELECT * FROM `{target.books}`.`{place.name}`")
    assert rows == [(1, "a", 2)]


def _waits_for(target: Target, lock: str) -> bool:
    return bool(
        target.sql("SELECT 1 FROM information_schema.processlist WHERE info LIKE %s", f"SELECT GET_LOCK('{lock}'%")
    )


async def test_a_forerunner_that_does_not_end_is_the_connections_trouble(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LOCK_TIMEOUT_SECONDS", 1)
    target.table(TWO_UNIQUE)
    await target.own()
    attempt, _ = target.stage([(1, "a", 1)])
    place = target.staging(attempt, *ID_U_X)
    holder = target.server.connect()
    holder.execute(f"SELECT GET_LOCK('{stager_lock(target.books, place.name)}', 0)", ())
    with pytest.raises(Unreachable, match="still fills"):
        stage(place, [])
    holder.close()
    assert target.staged_rows(attempt) == [(1, "a", 1)]


async def test_a_lost_connection_raises_and_refuses_no_row(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    place = target.staging(target.id(), *ID_U_X)

    def batches() -> Iterator[Columns]:
        yield by_column([(1, "a", 1)], ID_U_X)
        ((stager,),) = target.server.execute(f"SELECT IS_USED_LOCK('{stager_lock(target.books, place.name)}')")
        target.server.execute(f"KILL {stager}")
        yield by_column([(2, "b", 2)], ID_U_X)

    with pytest.raises(Unreachable):
        stage(place, batches())
    assert target.server.execute(f"SELECT * FROM `{target.books}`.`{place.name}`") == []


async def test_a_stagers_connection_is_as_the_url_says_and_notices_a_vanished_server(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    opened = []
    monkeypatch.setattr(staging, "connect", lambda place: opened.append(connect(place)) or opened[-1])
    place = target.staging(target.id(), *ID_U_X)
    endpoint = msgspec.structs.replace(place.endpoint, options={"sslmode": "require" if target.mysql else "disable"})

    def batches() -> Iterator[Columns]:
        ((_, cipher),) = rows(opened[0], "SHOW STATUS LIKE 'Ssl_cipher'")
        assert bool(cipher) == target.mysql
        assert opened[0]._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        yield by_column([(1, "a", 1)], ID_U_X)

    assert stage(msgspec.structs.replace(place, endpoint=endpoint), batches()) == Staged(1)
    assert not opened[0].open
