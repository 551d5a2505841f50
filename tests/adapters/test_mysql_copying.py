"""Copying into real MySQL and MariaDB servers: staging, begin, merge (`adapters.mysql.{staging,copying,merging}`)."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from pymysql import err

from bench.harness.decode import read
from bench.harness.servers import MySql, Server
from tidelock.adapters.bookkeeping.tables import create_statements
from tidelock.adapters.config.url import parse
from tidelock.adapters.mysql.binlog.captured_log import classified
from tidelock.adapters.mysql.binlog.log_ends import current_position
from tidelock.adapters.mysql.connection import connect, reader_endpoint, rows
from tidelock.adapters.mysql.target import staging
from tidelock.adapters.mysql.target.session import StatementFailed
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.mysql.target.staging import stage, stager_lock
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.source_errors import Unreachable
from tidelock.adapters.ports.staging import Columns, Staged, Staging, staged_name, staged_prefix
from tidelock.adapters.target.options import SinkOptions
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping, Rule
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind, Failure
from tidelock.engine.model.records import UNKNOWN, Column, DdlKind, Kind, LogBatch, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import BeginCopy, EffectId, FindRefused, MergeChunk, Publish
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchFailed,
    Copied,
    CopyBegun,
    CopyFailed,
    RefusedFound,
    RefusedRow,
    SourceRead,
    TakenOver,
)
from tidelock.engine.protocol.steps import DeleteRows, ParkedRow, Step, UpdateRows, UpsertRows

START, LATER = Position("bin.000001", 4), Position("bin.000002", 400)
INT, TEXT = Kind.INT, Kind.TEXT
TWO_UNIQUE = "id int PRIMARY KEY, u varchar(20) UNIQUE, x int"
ID_U_X = (("id", INT), ("u", TEXT), ("x", INT))


class Target:
    """A fresh database with bookkeeping, a sink on it that owns the feed, and what is staged there."""

    def __init__(self, server: Server, folder: Any) -> None:
        self.server = server
        self.folder = folder
        self.database = server.database("copy")
        self.books = f"{self.database}_books"
        for statement in create_statements("mysql", self.books):
            server.execute(statement)
        self.sinks: list[MySqlSink] = []
        self.counters = itertools.count(1)
        self.names: list[str] = []
        self.user = "root"

    @property
    def mysql(self) -> bool:
        return isinstance(self.server, MySql)

    def table(self, definition: str, name: str = "t") -> None:
        self.sql(f"CREATE TABLE `{name}` ({definition})")
        self.names.append(name)

    def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, *args, database=self.database)

    def rows(self, columns: str = "*", name: str = "t") -> list[tuple[Any, ...]]:
        return sorted(self.sql(f"SELECT {columns} FROM `{name}`"))

    def book(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        return sorted(self.server.execute(f"SELECT {columns} FROM `{self.books}`.tidelock_{name}"))

    def staged_tables(self) -> list[str]:
        asked = "SELECT table_name FROM information_schema.tables WHERE table_schema=%s AND table_name LIKE 'staged%%'"
        return sorted(name for (name,) in self.server.execute(asked, self.books))

    @property
    def url(self) -> str:
        return self.server.url(self.database).replace("//root@", f"//{self.user}@")

    async def own(self) -> TakenOver:
        sink = MySqlSink(
            self.url, SinkOptions("feed", schema=self.books, lanes=3, lock_timeout_seconds=2, origin="here")
        )
        self.sinks.append(sink)
        self.taken = await sink.take_over([self.name(name) for name in self.names], START)
        return self.taken

    @property
    def sink(self) -> MySqlSink:
        return self.sinks[-1]

    def name(self, name: str = "t") -> TableName:
        return TableName(self.database, name)

    def id(self) -> EffectId:
        return EffectId(self.taken.epoch, next(self.counters))

    def shape(self, *columns: tuple[str, Kind] | Column, name: str = "t") -> Shape:
        return Shape(TableName("src", name), tuple(c if isinstance(c, Column) else Column(*c) for c in columns))

    def binding(self, *columns: tuple[str, Kind] | Column, name: str = "t") -> Binding:
        return Binding(1, self.shape(*columns, name=name), self.taken.tables[self.name(name)])

    def staging(self, attempt: EffectId, *columns: tuple[str, Kind] | Column, name: str = "t") -> Staging:
        return Staging(
            parse(self.url, self.folder),
            self.books,
            staged_name("feed", 0, attempt),
            self.shape(*columns, name=name),
            self.taken.tables[self.name(name)],
        )

    def stage(
        self, rows: Sequence[Row], *columns: tuple[str, Kind] | Column, name: str = "t"
    ) -> tuple[EffectId, Staged]:
        attempt = self.id()
        batches = [by_column(rows, columns or ID_U_X)] if rows else []
        return attempt, stage(self.staging(attempt, *(columns or ID_U_X), name=name), batches)

    def staged_rows(self, attempt: EffectId, columns: str = "*") -> list[tuple[Any, ...]]:
        return sorted(self.server.execute(f"SELECT {columns} FROM `{self.books}`.`{staged_name('feed', 0, attempt)}`"))

    async def begun(self, *splits: ChunkSplit) -> None:
        effect = BeginCopy(self.id(), splits, LATER)
        assert await self.sink.begin_copy(effect) == CopyBegun(effect.id)

    def merge(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> MergeChunk:
        """Merge of the only chunk of the table, unless `more` says otherwise."""
        defaults: dict[str, Any] = {
            "split": ChunkSplit(self.name(name)),
            "chunk": 0,
            "key": self.taken.tables[self.name(name)].key,
            "without": [],
            "steps": [],
            "position": LATER,
        }
        return MergeChunk(self.id(), staged, rows=rows, **(defaults | more))

    async def merged(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> None:
        effect = self.merge(staged, rows, name, **more)
        answer = await self.sink.merge_chunk(effect)
        assert answer == BatchCommitted(effect.id), answer

    async def refused(self, staged: EffectId, rows: int, name: str = "t", **more: Any) -> Failure:
        answer = await self.sink.merge_chunk(self.merge(staged, rows, name, **more))
        assert isinstance(answer, BatchFailed), answer
        return answer.failure


def by_column(rows: Sequence[Row], columns: Sequence[object]) -> Columns:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in columns]


@pytest.fixture(params=["mariadb", "mysql"])
async def target(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Target]:
    target = Target(request.getfixturevalue(request.param), tmp_path)
    yield target
    for sink in target.sinks:
        await sink.close()


async def _eventually(true: Callable[[], object], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# --- which staged rows a merge is refused for


async def refused_of(target: Target, columns: Sequence[tuple[str, Kind]], effect: MergeChunk) -> list[RefusedRow]:
    """The rows that are found; the merge is refused before, and made without them after."""
    assert isinstance(await target.sink.merge_chunk(effect), BatchFailed)
    binding = target.binding(*columns)
    found = await target.sink.find_refused(FindRefused(target.id(), effect, binding.shape))
    assert isinstance(found, RefusedFound), found
    rows = [row.row for row in found.rows]
    keys = [tuple(row[i] for i in binding.key) for row in rows]
    more = {"without": [*effect.without, *keys]} if binding.key else {"steps": [DeleteRows(binding, rows)]}
    gone = [key for key in effect.gone if key not in keys]
    again = msgspec.structs.replace(effect, id=target.id(), gone=gone, **more)  # type: ignore[arg-type]
    assert await target.sink.merge_chunk(again) == BatchCommitted(again.id)
    assert [name for name in target.staged_tables() if name.endswith("_n")] == []
    return list(found.rows)


async def test_rows_that_a_check_or_a_missing_parent_refuses_are_found_with_their_keys(target: Target) -> None:
    target.table("id int PRIMARY KEY", "parent")
    target.table(
        "id varbinary(8) PRIMARY KEY, x decimal(9,3), up int, CHECK (x < 50), FOREIGN KEY (up) REFERENCES parent (id)"
    )
    target.sql("INSERT INTO parent VALUES (1)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (Column("id", Kind.BINARY), Column("x", Kind.DECIMAL, precision=9, scale=2), Column("up", INT))
    rows = [(n.to_bytes(2), f"{n}.50", 1) for n in range(40)]
    rows += [(b"\xff\x01", "50.00", 1), (b"\xff\x02", "1.00", 7), (b"\xff\x03", "1.00", None)]
    attempt, staged = target.stage(rows, *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))  # type: ignore[arg-type]
    assert sorted(row.row for row in found) == [(b"\xff\x01", "50.00", 1), (b"\xff\x02", "1.00", 7)]
    assert {row.row[0]: row.code == "1452" for row in found} == {b"\xff\x01": False, b"\xff\x02": True}
    assert len(target.rows()) == 41


async def test_rows_of_a_tree_are_refused_with_all_that_hang_from_them_and_no_others(target: Target) -> None:
    target.table("id int PRIMARY KEY, up int, x int, CHECK (x <> 7), FOREIGN KEY (up) REFERENCES t (id)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (("id", INT), ("up", INT), ("x", INT))
    rows = [(1, 9, 1), (2, 1, 2), (3, None, 7), (4, 3, 4), (5, 4, 5), (6, 77, 6), (9, 1, 9), (10, None, 10)]
    attempt, staged = target.stage(rows, *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))
    assert sorted(row.row[0] for row in found) == [3, 4, 5, 6]
    assert sorted(row.row[0] for row in found if row.code == "1452") == [4, 5, 6]
    assert target.rows("id") == [(1,), (2,), (9,), (10,)]


async def test_a_refused_row_without_a_key_is_one_of_its_equals(target: Target) -> None:
    target.table("v varchar(9), x int, CHECK (x < 5)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (("v", TEXT), ("x", INT))
    attempt, staged = target.stage([("a", 5), ("a", 1), ("a", 5), ("a", 1)], *columns)
    found = await refused_of(target, columns, target.merge(attempt, staged.rows))
    assert [row.row for row in found] == [("a", 5), ("a", 5)]
    assert target.rows() == [("a", 1), ("a", 1)]


@pytest.mark.parametrize(("bad", "x"), [("c", 5), ("z", 1)])
async def test_a_row_of_a_repair_is_refused_alone_though_others_trade_unique_values(
    target: Target, bad: str, x: int
) -> None:
    target.table(f"{TWO_UNIQUE}, CHECK (x < 5)")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'b',1),(2,'a',1),(3,'c',1),(4,'d',1),(9,'z',1)")
    split = ChunkSplit(target.name(), By.KEYS, ("id",), keys=((1,), (2,), (3,), (4,)))
    await target.begun(split)
    attempt, staged = target.stage([(1, "a", 2), (2, "b", 2), (3, bad, x), (4, "e", 2)])
    gone = [(1,), (2,), (3,), (4,)]
    left = (("id=3", "it's 'bad'"),)
    effect = target.merge(attempt, staged.rows, split=split, chunk=1, gone=gone, unrepaired=left)
    found = await refused_of(target, ID_U_X, effect)
    assert [row.row for row in found] == [(3, bad, x)]
    assert target.rows() == [(1, "a", 2), (2, "b", 2), (3, "c", 1), (4, "e", 2), (9, "z", 1)]
    ((mode, told),) = target.book("wanted", "mode, row_key")
    assert mode == "left" and msgspec.json.decode(told) == [["id=3", "it's 'bad'"]]
    assert (await target.sink.control()).wanted == ()


# --- staging


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
    await _eventually(lambda: _waits_for(target, lock))
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


# --- begin


async def test_begin_empties_children_first_and_stores_the_plan(target: Target) -> None:
    target.table(TWO_UNIQUE)
    target.table("id int PRIMARY KEY, t_id int, FOREIGN KEY (t_id) REFERENCES t (id)", name="child")
    target.table("id int PRIMARY KEY, p int NOT NULL, FOREIGN KEY (p) REFERENCES self (id)", name="self")
    target.table("id int PRIMARY KEY", name="kept")
    await target.own()
    for statement in ("t VALUES (1,'a',1)", "child VALUES (1,1)", "self VALUES (1,1),(2,1),(3,2)", "kept VALUES (5)"):
        target.sql(f"INSERT INTO {statement}")
    parked = [("t", 1), ("kept", 2), ("other", 3)]
    for name, number in parked:
        target.server.execute(
            f"INSERT INTO `{target.books}`.tidelock_parked (feed,grp,source,number,ordinal,table_schema,table_name,"
            "row_key,error,change_data) VALUES ('feed',0,'0-1',%s,0,%s,%s,'','','')", number, target.database, name
        )
    splits = (
        ChunkSplit(target.name(), By.NUMBERS, ("id",), ((10,), (20,))),
        ChunkSplit(target.name("child")),
        ChunkSplit(target.name("self")),
        ChunkSplit(target.name("kept"), keep=True),
    )
    effect = BeginCopy(target.id(), splits, LATER)
    for _ in range(2):
        assert await target.sink.begin_copy(effect) == CopyBegun(effect.id)
    assert [target.rows(name=name) for name in ("t", "child", "self", "kept")] == [[], [], [], [(5,)]]
    assert target.book("parked", "table_name") == [("kept",), ("other",)]
    chunks = [("child", 0), ("kept", 0), ("self", 0), ("t", 0), ("t", 1), ("t", 2)]
    assert target.book("chunks", "table_name, chunk, rows_merged") == [(*chunk, None) for chunk in chunks]
    again = await target.own()
    assert {copied.split.table.table: copied for copied in again.chunks} == {
        split.table.table: Copied(split) for split in splits
    }
    assert again.checkpoint == LATER


async def test_begin_takes_the_wishes_that_it_grants(target: Target) -> None:
    for name in ("all", "keep", "rows"):
        target.table("id int PRIMARY KEY", name=name)
    await target.own()
    _wish(target, ("all", "copy"), ("all", "repair", (1,)), ("all", "refused"), ("other", "copy"), ("keep", "keep"))
    _wish(target, ("keep", "repair", (2,)), ("rows", "repair", (3,)), ("rows", "repair", (4,)), ("rows", "refused"))
    wanted = (await target.sink.control()).wanted
    assert wanted[:2] == (Wanted(1, target.name("all"), "copy"), Wanted(2, target.name("all"), "repair", (1,)))
    assert [(one.ordinal, one.mode) for one in wanted[2:]] == [
        (4, "copy"), (5, "keep"), (6, "repair"), (7, "repair"), (8, "repair")
    ]
    await target.begun(
        ChunkSplit(target.name("all")),
        ChunkSplit(target.name("keep"), keep=True),
        ChunkSplit(target.name("rows"), By.KEYS, ("id",), keys=((3,),)),
    )
    left = (await target.sink.control()).wanted
    assert [(one.table.table, one.mode, one.key) for one in left] == [
        ("other", "copy", None), ("keep", "repair", (2,)), ("rows", "repair", (4,))
    ]
    assert len(target.book("wanted", "ordinal")) == 3
    assert {copied.split.table.table: copied.merged for copied in (await target.own()).chunks} == {
        "all": (), "keep": (), "rows": (0,)
    }


def _wish(target: Target, *wishes: Any) -> None:
    for table, mode, *key in wishes:
        target.server.execute(
            f"INSERT INTO `{target.books}`.tidelock_wanted SELECT 'feed',0,COALESCE(MAX(ordinal),0)+1,%s,%s,%s,%s "
            f"FROM `{target.books}`.tidelock_wanted",
            target.database, table, mode, msgspec.msgpack.encode(key[0]) if key else None,
        )


async def test_what_cannot_be_had_stays_with_its_reason(target: Target) -> None:
    await target.own()
    _wish(target, ("t", "copy"), ("u", "copy"))
    alarm = Alarm("copy", "no", "mend it", "bin:4", "t")
    await target.sink.refuse([target.name("t"), target.name("v")], alarm)
    assert [one.table.table for one in (await target.sink.control()).wanted] == ["u"]
    ((told,),) = [row[1:] for row in target.book("wanted", "mode, row_key") if row[0] == "refused"]
    assert msgspec.json.decode(told, type=Alarm) == alarm


async def test_a_parent_whose_child_is_not_copied_along_is_not_emptied(target: Target) -> None:
    """Unchecked as a table that refers to itself is emptied: the child's rows are looked for."""
    target.table("id int PRIMARY KEY, p int NOT NULL, FOREIGN KEY (p) REFERENCES t (id)")
    target.sql("CREATE TABLE outside (id int PRIMARY KEY, t int, FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE)")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,1),(2,1)")
    target.sql("INSERT INTO outside VALUES (1,2)")
    answer = await target.sink.begin_copy(BeginCopy(target.id(), (ChunkSplit(target.name()),), LATER))
    assert isinstance(answer, CopyFailed)
    assert answer.failure.kind is ErrorKind.ROW
    assert "outside" in answer.failure.message
    assert target.rows() == [(1, 1), (2, 1)]
    assert target.book("chunks", "chunk") == []


async def test_a_zombie_begins_nothing(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'a',1)")
    effect = BeginCopy(target.id(), (ChunkSplit(target.name()),), LATER)
    await target.own()
    answers = [await target.sinks[0].begin_copy(effect) for _ in range(2)]
    assert {answer.failure.kind for answer in answers if isinstance(answer, CopyFailed)} == {ErrorKind.FENCED}
    assert target.rows() == [(1, "a", 1)]


# --- merge


async def test_a_chunk_is_merged_with_its_receipt_checkpoint_and_mark(target: Target) -> None:
    target.table(TWO_UNIQUE + ", doubled int GENERATED ALWAYS AS (x*2) STORED")
    await target.own()
    split = ChunkSplit(target.name(), By.NUMBERS, ("id",), ((10,),))
    await target.begun(split)
    columns = (*ID_U_X, ("doubled", INT))
    attempt, staged = target.stage([(1, "a", 1, 0), (2, "b", 2, 0), (3, "c", 3, 0)], *columns)
    parked = ParkedRow("copy", 1, 1, "src", "t", "id=4", "too long", b"change")
    step: Step = UpsertRows(target.binding(*columns), [(2, "B", 22, 0), (5, "e", 5, 0)], True)
    end = Position("bin.000003", 7)
    effect = target.merge(
        attempt, staged.rows, split=split, without=[(2,), (5,), (6,)], steps=[step], parked=(parked,), position=end
    )
    assert await target.sink.merge_chunk(effect) == BatchCommitted(effect.id)
    assert target.rows() == [(1, "a", 1, 2), (2, "B", 22, 44), (3, "c", 3, 6), (5, "e", 5, 10)]
    assert target.book("chunks", "chunk, rows_merged") == [(0, 4), (1, None)]
    assert target.book("parked", "source, row_key") == [("copy", "id=4")]
    assert target.book("progress", "epoch, batch, covered, origin") == [
        (effect.id.epoch, effect.id.counter, NOTHING, "here")
    ]
    taken = await target.own()
    assert taken.chunks == (Copied(split, (0,)),)
    assert taken.checkpoint == end


async def test_a_merge_drops_the_receipts_that_its_checkpoint_has_passed(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    empty, _ = target.stage([])
    first = target.merge(empty, 0)
    assert await target.sink.merge_chunk(first) == BatchCommitted(first.id)
    await target.merged(empty, 0, drop=(first.id,))
    assert len(target.book("progress", "batch")) == 1


async def test_an_in_doubt_merge_is_answered_by_its_receipt(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1)])
    effect = target.merge(attempt, 1)
    assert await target.sink.merge_chunk(effect) == BatchCommitted(effect.id)
    target.sql("UPDATE t SET x=5")
    await target.sink.drop_staged(attempt)
    assert await target.sink.merge_chunk(effect) == BatchCommitted(effect.id)
    assert target.rows() == [(1, "a", 5)]


async def test_a_commit_whose_answer_is_lost_is_in_doubt(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1)])
    effect = target.merge(attempt, 1)
    session = target.sink._copying._session
    assert session is not None
    run = session.run

    async def deaf(statements: Sequence[bytes]) -> Any:
        answers = await run(statements)
        if statements[-1] == b"COMMIT":
            session.drop()
            raise StatementFailed(answers[:-1], err.OperationalError(2013, "Lost connection"))
        return answers

    monkeypatch.setattr(session, "run", deaf)
    answer = await target.sink.merge_chunk(effect)
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.IN_DOUBT
    assert await target.sink.merge_chunk(effect) == BatchCommitted(effect.id)
    assert target.rows() == [(1, "a", 1)]


async def test_a_session_killed_in_the_middle_leaves_nothing_and_the_merge_is_made_again(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1), (2, "b", 2)])
    effect = target.merge(attempt, 2)
    holder = target.server.connect(target.database)
    holder.execute("BEGIN", ())
    holder.execute("INSERT INTO t VALUES (2,'z',9)", ())  # the merge waits for it
    merging = asyncio.create_task(target.sink.merge_chunk(effect))
    running = "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO%%SELECT%%'"
    await _eventually(lambda: target.sql(running))
    target.server.execute(f"KILL {target.sql(running)[0][0]}")
    answer = await merging
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.TRANSIENT
    holder.execute("ROLLBACK", ())
    holder.close()
    assert target.rows() == []
    assert await target.sink.merge_chunk(effect) == BatchCommitted(effect.id)
    assert target.rows() == [(1, "a", 1), (2, "b", 2)]


async def test_a_merge_that_the_server_ends_for_a_deadlock_is_sent_again_at_once(target: Target) -> None:
    target.table(TWO_UNIQUE)
    target.sql("CREATE TABLE heavy (id int PRIMARY KEY AUTO_INCREMENT, x int)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1), (2, "b", 2)])
    effect = target.merge(attempt, 2)
    holder = target.server.connect(target.database)
    holder.execute("BEGIN", ())
    holder.execute(f"INSERT INTO heavy (x) VALUES {','.join(['(1)'] * 500)}", ())  # the server ends the lighter one
    holder.execute("INSERT INTO t VALUES (2,'z',9)", ())
    merging = asyncio.create_task(target.sink.merge_chunk(effect))
    running = "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO%%SELECT%%'"
    await _eventually(lambda: target.sql(running))
    await asyncio.to_thread(holder.execute, "SELECT * FROM t WHERE id=1 FOR UPDATE", ())
    holder.execute("ROLLBACK", ())
    holder.close()
    assert await merging == BatchCommitted(effect.id)
    assert target.rows() == [(1, "a", 1), (2, "b", 2)]


async def test_a_zombies_merge_is_fenced(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    empty, _ = target.stage([])
    await target.merged(empty, 0)
    attempt, _ = target.stage([(1, "a", 1)])
    effect = target.merge(attempt, 1)
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1")
    answer = await target.sink.merge_chunk(effect)
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.FENCED
    assert target.rows() == []


async def test_lost_rows_and_lost_tables_are_a_rewound_target(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, "a", 1), (2, "b", 2)])
    target.server.execute(f"DELETE FROM `{target.books}`.`{staged_name('feed', 0, attempt)}` WHERE id=1")
    for more in ({}, {"without": [(2,)]}, {"split": ChunkSplit(target.name(), keep=True)}):
        assert (await target.refused(attempt, 2, **more)).kind is ErrorKind.COMMITS_LOST
    await target.sink.drop_staged(attempt)
    assert (await target.refused(attempt, 2)).kind is ErrorKind.COMMITS_LOST
    assert target.rows() == []
    assert target.book("progress", "batch") == []


async def test_a_clash_with_a_row_of_somebody_else_is_an_error(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    target.sql("INSERT INTO t VALUES (9,'a',9)")
    attempt, _ = target.stage([(1, "a", 1), (2, "b", 2)])
    failure = await target.refused(attempt, 2)
    assert failure.kind is ErrorKind.ROW
    assert "Duplicate entry 'a'" in failure.message
    assert f"{target.database}.t" in failure.message
    assert target.rows() == [(9, "a", 9)]


async def test_rows_that_are_to_be_kept_win(target: Target) -> None:
    target.table(TWO_UNIQUE + ", changed timestamp DEFAULT '2001-01-01' ON UPDATE current_timestamp")
    await target.own()
    target.sql("INSERT INTO t (id,u,x) VALUES (1,'mine',1), (8,'taken',8)")
    split = ChunkSplit(target.name(), keep=True)
    await target.begun(split)
    attempt, _ = target.stage([(1, "theirs", 9), (2, "taken", 9), (3, "new", 3)])
    await target.merged(attempt, 3, split=split)
    assert target.rows("id,u,x") == [(1, "mine", 1), (3, "new", 3), (8, "taken", 8)]
    assert target.rows("DISTINCT YEAR(changed)") == [(2001,)]


async def test_keeping_rows_passes_over_nothing_but_clashes(target: Target) -> None:
    """INSERT IGNORE would leave out a row without its parent without a word."""
    target.table("id int PRIMARY KEY", name="parent")
    target.table("id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id)")
    await target.own()
    split = ChunkSplit(target.name(), keep=True)
    await target.begun(split)
    attempt, _ = target.stage([(1, None), (2, 77)], ("id", INT), ("p", INT))
    failure = await target.refused(attempt, 2, split=split)
    assert failure.kind is ErrorKind.ROW
    assert "foreign key" in failure.message
    assert target.rows() == []


@pytest.mark.parametrize(
    ("definition", "kind", "staged", "without", "left"),
    [
        ("varchar(20) COLLATE utf8mb4_general_ci", TEXT, ["a", "b", "c"], ["A", "B ", "x"], ["c"]),
        ("varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", TEXT, ["a", "b"], ["A", "b"], ["a"]),
        ("varchar(20) CHARACTER SET latin1", TEXT, ["é", "ß", "c"], ["É", "€", "日本"], ["c", "ß"]),
        ("decimal(30,2)", Kind.DECIMAL, [f"{10**20}.12", f"{10**20}.13"], [f"{10**20}.12"], [f"{10**20}.13"]),
        ("double", Kind.DOUBLE, [0.1, 1e300], [0.1], [1e300]),
        ("bigint unsigned", INT, [2**64 - 1, 2**64 - 2], [2**64 - 1], [2**64 - 2]),
        ("varbinary(10)", Kind.BINARY, [b"'\xff\x00", b"b"], [b"'\xff\x00", b"B"], [b"b"]),
        ("datetime(6)", Kind.DATETIME, ["2026-01-01 00:00:00.000001"], ["2026-01-01 00:00:00.000001"], []),
        ("enum('x','y')", Kind.ENUM, ["x", "y"], ["y"], ["x"]),
    ],
)  # fmt: skip
async def test_keys_that_were_touched_are_left_out_as_the_target_compares_them(
    target: Target, definition: str, kind: Kind, staged: list[Any], without: list[Any], left: list[Any]
) -> None:
    target.table(f"k {definition} PRIMARY KEY, x int")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (Column("k", kind, charset="utf8mb4"), ("x", INT))
    attempt, done = target.stage([(value, 1) for value in staged], *columns)
    assert not done.refused
    await target.merged(attempt, done.rows, without=[(value,) for value in without])
    kept, _ = target.stage([(value, 1) for value in left], *columns)
    assert target.rows("k") == target.staged_rows(kept, "k")


async def test_touched_keys_of_several_columns_and_of_texts_that_do_not_decode(target: Target) -> None:
    target.table("a varchar(20), b int, x int, PRIMARY KEY (a, b)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    rows = [("k", n, n) for n in range(3000)]
    attempt, staged = target.stage(rows, ("a", TEXT), ("b", INT), ("x", INT))
    without: list[Row] = [("k", n) for n in range(1, 3000)]
    await target.merged(attempt, staged.rows, without=[*without, (b"\xff\xfe", 0), ("\ud800", 0)])
    assert target.rows() == [("k", 0, 0)]


async def test_a_table_that_refers_to_itself_comes_in_any_order(target: Target) -> None:
    target.table("id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id)")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    columns = (("id", INT), ("p", INT))
    attempt, _ = target.stage([(1, 9), (2, 1), (9, None), (4, 4), (5, 6)], *columns)
    touched = UpsertRows(target.binding(*columns), [(5, 7), (7, 1)], True)
    await target.merged(attempt, 5, without=[(5,), (7,)], steps=[touched])
    assert target.rows() == [(1, 9), (2, 1), (4, 4), (5, 7), (7, 1), (9, None)]
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, 9), (2, 1)], *columns)
    failure = await target.refused(attempt, 2)
    assert failure.kind is ErrorKind.ROW
    assert "refers to none of" in failure.message
    assert target.rows() == []
    empty, _ = target.stage([], *columns)
    await target.merged(empty, 0)
    ((checks,),) = (await target.sink._copying._session.ask("SELECT @@foreign_key_checks")).rows  # type: ignore[union-attr]
    assert checks == 1


async def test_the_rights_that_check_asks_for_are_enough(target: Target) -> None:
    target.table("id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id)")
    target.user = f"copier_{target.database}"
    rights = "SELECT, INSERT, UPDATE, DELETE"
    target.server.execute(f"CREATE USER '{target.user}'@'%'")
    target.server.execute(f"GRANT {rights} ON `{target.database}`.t TO '{target.user}'@'%'")
    target.server.execute(f"GRANT {rights}, CREATE, DROP ON `{target.books}`.* TO '{target.user}'@'%'")
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    attempt, _ = target.stage([(1, 2), (2, None)], ("id", INT), ("p", INT))
    await target.merged(attempt, 2, without=[(3,)])
    assert target.rows() == [(1, 2), (2, None)]
    await target.own()
    assert target.staged_tables() == []
    target.server.execute(f"DROP USER '{target.user}'@'%'")


# --- rows that are read again


def _again(target: Target, *keys: Row, name: str = "t", columns: tuple[str, ...] = ("id",)) -> dict[str, Any]:
    split = ChunkSplit(target.name(name), By.KEYS, columns, keys=keys)
    return {"split": split, "chunk": 1, "gone": list(keys), "name": name}


async def test_rows_read_again_are_replaced_and_others_left_alone(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'old',1),(2,'extra',2),(4,'touched',4),(5,'deleted',5),(9,'other',9)")
    again = _again(target, (1,), (2,), (3,), (4,), (5,))
    await target.begun(again["split"])
    attempt, _ = target.stage([(1, "new", 1), (3, "missing", 3), (4, "stale", 4), (5, "stale", 5)])
    image = UpsertRows(target.binding(*ID_U_X), [(4, "last", 44)], True)
    await target.merged(attempt, 4, without=[(4,), (5,)], steps=[image], **again)
    assert target.rows() == [(1, "new", 1), (3, "missing", 3), (4, "last", 44), (9, "other", 9)]
    assert target.book("chunks", "chunk, rows_merged") == [(0, 0), (1, 3)]


async def test_a_last_image_that_is_not_told_whole_is_written_over_the_staged_row(target: Target) -> None:
    """Its unique value too; a row that is not staged cannot be made."""
    target.table(TWO_UNIQUE)
    await target.own()
    await target.begun(ChunkSplit(target.name()))
    plain = target.binding(*ID_U_X)
    shape = msgspec.structs.replace(plain.shape, primary_key=("id",), identity="key")
    keyed = Binding(1, shape, plain.target)
    attempt, _ = target.stage([(1, "a", 1), (2, "b", 2), (3, "c", 3)])
    images = [(1, "b", UNKNOWN), (2, "a", 22)]
    more = UpsertRows(keyed, [(4, "d", 4)], True)
    absent = [UpdateRows(keyed, [(9,)], [(9, "z", UNKNOWN)], False)]
    failure = await target.refused(attempt, 3, steps=absent)
    assert failure.kind is ErrorKind.ROW and "is not there" in failure.message
    await target.merged(attempt, 3, steps=[UpdateRows(keyed, [(1,), (2,)], images, False), more])
    assert target.rows() == [(1, "b", 1), (2, "a", 22), (3, "c", 3), (4, "d", 4)]




async def test_rows_read_again_that_others_refer_to_are_updated_in_place(target: Target) -> None:
    target.table(TWO_UNIQUE + ", own int DEFAULT 0")
    target.table("id int PRIMARY KEY, t_id int, FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE CASCADE", name="child")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'old',1,7),(2,'older',2,8)")
    target.sql("INSERT INTO child VALUES (1,1),(2,2)")
    again = _again(target, (1,), (2,))
    await target.begun(again["split"])
    attempt, _ = target.stage([(1, "new", 10)])
    image = UpsertRows(target.binding(*ID_U_X), [(2, "newer", 20)], True)
    await target.merged(attempt, 1, without=[(2,)], steps=[image], **again)
    assert target.rows() == [(1, "new", 10, 7), (2, "newer", 20, 8)]
    assert target.rows(name="child") == [(1, 1), (2, 2)]


async def test_rows_read_again_may_swap_unique_values(target: Target) -> None:
    """Deleted and inserted then, but what refers to them stays."""
    target.table(TWO_UNIQUE)
    target.table("id int PRIMARY KEY, t_id int, FOREIGN KEY (t_id) REFERENCES t (id) ON DELETE CASCADE", name="child")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2),(3,'c',3),(4,'d',4)")
    target.sql("INSERT INTO child VALUES (1,1),(2,2),(3,3)")
    again = _again(target, (1,), (2,), (3,), (4,))
    await target.begun(again["split"])
    attempt, _ = target.stage([(1, "b", 1), (2, "a", 2)])
    image = UpsertRows(target.binding(*ID_U_X), [(3, "d", 3)], True)
    await target.merged(attempt, 2, without=[(3,)], steps=[image], **again)
    assert target.rows() == [(1, "b", 1), (2, "a", 2), (3, "d", 3)]
    assert target.rows(name="child") == [(1, 1), (2, 2), (3, 3)]


async def test_a_swap_that_would_leave_a_child_behind_is_refused(target: Target) -> None:
    target.table("id int PRIMARY KEY, u varchar(20) UNIQUE, v int UNIQUE")
    target.table("id int PRIMARY KEY, v int, FOREIGN KEY (v) REFERENCES t (v)", name="child")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,'a',10),(2,'b',20)")
    target.sql("INSERT INTO child VALUES (1,10)")
    again = _again(target, (1,), (2,))
    await target.begun(again["split"])
    columns = (("id", INT), ("u", TEXT), ("v", INT))
    attempt, _ = target.stage([(1, "b", 20), (2, "a", 30)], *columns)
    failure = await target.refused(attempt, 2, **again)
    assert failure.kind is ErrorKind.ROW
    assert f"{target.database}.child: a row refers to none of" in failure.message
    assert target.rows() == [(1, "a", 10), (2, "b", 20)]


async def test_rows_read_again_may_refer_to_each_other(target: Target) -> None:
    target.table("id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,NULL),(2,1),(3,2),(8,3),(9,8)")
    again = _again(target, (2,), (3,), (4,), (5,), (8,))
    await target.begun(again["split"])
    attempt, _ = target.stage([(3, 4), (4, 5), (5, None), (8, 1)], ("id", INT), ("p", INT))
    await target.merged(attempt, 4, **again)
    assert target.rows() == [(1, None), (3, 4), (4, 5), (5, None), (8, 1), (9, 8)]


async def test_a_row_that_does_not_come_back_takes_no_row_along_that_has_left_it(target: Target) -> None:
    target.table("id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES t (id) ON DELETE CASCADE")
    await target.own()
    target.sql("INSERT INTO t VALUES (1,NULL),(2,1),(3,2),(9,3)")
    again = _again(target, (2,), (3,))
    await target.begun(again["split"])
    attempt, _ = target.stage([(3, 1)], ("id", INT), ("p", INT))
    await target.merged(attempt, 1, **again)
    assert target.rows() == [(1, None), (3, 1), (9, 3)]


async def test_parked_changes_of_rows_read_again_are_dropped(target: Target) -> None:
    target.table(TWO_UNIQUE)
    await target.own()
    again = _again(target, (1,))
    await target.begun(again["split"])
    empty, _ = target.stage([])
    parked = (ParkedRow("0-1", 5, 0, "src", "t", "id=1", "", b""), ParkedRow("0-1", 6, 0, "src", "t", "id=2", "", b""))
    await target.merged(empty, 0, parked=parked, **again)
    assert len(target.book("parked", "number")) == 2
    await target.begun(again["split"])
    assert len(target.book("parked", "number")) == 2, "a repair takes only what is parked for its rows"
    await target.merged(empty, 0, unparked=(("0-1", 5, 0),), **again)
    assert target.book("parked", "number") == [(6,)]


async def test_rows_read_again_with_keys_in_another_charset(target: Target) -> None:
    """MariaDB joins no latin1 column to texts beyond ASCII."""
    target.table("k varchar(20) CHARACTER SET latin1 PRIMARY KEY, x int")
    await target.own()
    target.sql("INSERT INTO t VALUES ('é',1),('ü',2),('plain',3)")
    again = _again(target, ("é",), ("ü",), ("plain",), columns=("k",))
    await target.begun(again["split"])
    attempt, _ = target.stage([("é", 10), ("plain", 30)], ("k", TEXT), ("x", INT))
    await target.merged(attempt, 2, **again)
    assert target.rows() == [("plain", 30), ("é", 10)]


# --- what goes


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
