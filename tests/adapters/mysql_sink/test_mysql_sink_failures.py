"""The MySQL sink against a real server: which failure is which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bench.harness.servers import MariaDb, MySql, Server
from tests.adapters.mysql_sink.sink_target import (
    ID_U_X,
    INT,
    SECOND_UNIQUE,
    SOLE_UNIQUE,
    TEXT,
    Target,
    any_table,
    eventually,
    is_mysql,
)
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Kind, Value
from tidelock.engine.protocol.effects import CommitBatch
from tidelock.engine.protocol.events import BatchCommitted
from tidelock.engine.protocol.steps import DeleteRows, Step, UpdateRows, UpsertRows


@pytest.mark.parametrize(
    ("definition", "value", "code"),
    [
        ("v int NOT NULL", None, "1048"),
        ("v tinyint", 300, "1264"),
        ("v int CHECK (v < 5)", 9, "3819 4025"),
        ("v int, UNIQUE (v)", 1, "1062"),
    ],
)
async def test_constraint_errors_are_the_rows_fault(target: Target, definition: str, value: Value, code: str) -> None:
    target.table(f"id int PRIMARY KEY, {definition}")
    target.sql("INSERT INTO t VALUES (1, 1)")
    sink, table = await target.opened(("id", INT), ("v", INT))
    answer = await target.failed(sink, UpsertRows(table, [(2, value)], True))
    assert answer.failure.kind is ErrorKind.ROW
    assert answer.failure.code in code
    assert target.database in answer.failure.message
    await target.committed(sink, UpsertRows(table, [(2, 2)], True))


@pytest.mark.parametrize(
    ("type_", "kind", "value"),
    [
        ("varchar(3)", TEXT, "abcd"),
        ("varchar(3) CHARACTER SET latin1", TEXT, "漢"),
        ("date", Kind.DATE, "2020-13-01"),
        ("timestamp", Kind.TIMESTAMP, "1969-12-31 23:59:59"),
        ("enum('a')", Kind.ENUM, ""),
        ("bit(3)", Kind.BIT, 8),
        ("binary(2)", Kind.BINARY, b"abc"),
        ("json", Kind.JSON, "{"),
        ("geometry", Kind.GEOMETRY, b"\0\0\0\0junk"),
        ("decimal(3,1)", Kind.DECIMAL, "100.0"),
        ("text CHARACTER SET utf8mb4", Kind.BINARY, b"\xff"),
    ],
)
async def test_data_errors_are_the_rows_fault(target: Target, type_: str, kind: Kind, value: Value) -> None:
    target.table(f"id int PRIMARY KEY, u int UNIQUE, v {type_}")
    sink, table = await target.opened(("id", INT), ("u", INT), ("v", kind))
    await target.committed(sink, UpsertRows(table, [(1, 1, None)], True))
    for fresh in (True, False):
        answer = await target.failed(sink, UpsertRows(table, [(1, 1, value)], fresh))
        assert answer.failure.kind is ErrorKind.ROW, answer
    assert target.rows() == [(1, 1, None)]


@pytest.mark.parametrize("text", ["12345678901234567890.1", '{"a": [18446744073709551616]}', "0.12345678901234567"])
async def test_a_number_that_json_text_does_not_keep_is_no_json(target: Target, text: str) -> None:
    """At MySQL, which would round it; MariaDB keeps the text."""
    target.table("id int PRIMARY KEY, v json")
    sink, table = await target.opened(("id", INT), ("v", Kind.JSON))
    if is_mysql(target):
        answer = await target.failed(sink, UpsertRows(table, [(1, text)], True))
        assert answer.failure.kind is ErrorKind.ROW
        assert f"{table.name}: column v: a DECIMAL inside JSON" in answer.failure.message
    kept = ["18446744073709551615", "-9223372036854775808", '"12345678901234567890.1"', "1234567.8901234567"]
    kept += [] if is_mysql(target) else [text]
    await target.committed(sink, UpsertRows(table, list(enumerate(kept, start=2)), True))
    assert [row[1] for row in target.rows()] == kept


async def test_lock_timeout_and_deadlock_are_transient(target: Target) -> None:
    sink, table = await any_table(target)
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2)")
    one = target.batch(sink, UpdateRows(table, [(1,)], [(1, "a", 10)], True), held=True)
    await sink.apply(one)
    answer = await target.failed(sink, UpdateRows(table, [(2,), (1,)], [(2, "b", 20), (1, "a", 11)], True), lane=1)
    assert answer.failure.kind is ErrorKind.TRANSIENT
    assert answer.failure.code == "1205"
    assert await sink.commit(CommitBatch(one.id)) == BatchCommitted(one.id)
    assert target.rows() == [(1, "a", 10), (2, "b", 2)]


async def test_a_batch_rolled_back_to_end_a_deadlock_is_sent_again_at_once(target: Target) -> None:
    """The server takes the transaction that has changed fewer rows: ours."""
    target.table(SECOND_UNIQUE)
    target.table(SECOND_UNIQUE, "other")
    target.sql("INSERT INTO t VALUES (1,'a',1),(2,'b',2)")
    target.sql("INSERT INTO other VALUES " + ",".join(f"({n},'{n}',0)" for n in range(50)))
    sink, table = await target.opened(*ID_U_X, lock_timeout_seconds=20)
    steps: list[Step] = [UpdateRows(table, [(1,), (2,)], [(1, "c", 1), (2, "d", 2)], True)]
    rival = target.server.connect(target.database)
    try:
        rival.execute("BEGIN", ())
        rival.execute("UPDATE t SET x=7 WHERE id=2", ())
        rival.execute("UPDATE other SET x=1", ())
        applying = asyncio.create_task(target.apply(sink, *steps))
        await eventually(lambda: _waiting(target))
        await asyncio.to_thread(rival.execute, "UPDATE t SET x=8 WHERE id=1", ())
        await eventually(lambda: _waiting(target))
        assert not applying.done()
        rival.execute("COMMIT", ())
    finally:
        rival.close()
    assert isinstance(await applying, BatchCommitted)
    assert target.rows() == [(1, "c", 1), (2, "d", 2)]
    assert await _is_kept_waiting(target, sink, UpsertRows(table, [(3, "e", 3)], True), during=steps)
    assert not await _is_kept_waiting(target, sink, UpsertRows(table, [(3, "e", 4)], False), during=steps)


def _waiting(target: Target) -> bool:
    return int(target.sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")[0][1]) > 0


async def _is_kept_waiting(target: Target, sink: MySqlSink, step: Step, during: list[Step]) -> bool:
    """Does a batch of `step` wait while another of the steps `during` has its turn?"""
    with sink._gate.of(during) as turn:
        await turn.take()
        batch = target.batch(sink, step, lane=1)
        applying = asyncio.create_task(sink.apply(batch))
        await eventually(lambda: applying.done() or all(lock._waiters for lock in turn._locks))
        waited = not applying.done()
    assert await applying == BatchCommitted(batch.id)
    return waited


async def test_a_missing_table_and_a_read_only_target_halt(target: Target) -> None:
    sink, table = await any_table(target)
    target.sql("DROP TABLE t")
    answer = await target.failed(sink, UpsertRows(table, [(1, "a", 1)], True))
    assert answer.failure.kind is ErrorKind.TARGET
    assert answer.failure.code == "1146"


async def test_a_missing_grant_halts(target: Target) -> None:
    target.table(SOLE_UNIQUE)
    user = f"poor_{target.database}"[:32]
    target.server.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'pw'")
    target.server.execute(f"GRANT ALL ON `{target.books}`.* TO '{user}'@'%'")
    target.server.execute(f"GRANT SELECT ON `{target.database}`.* TO '{user}'@'%'")
    url = target.server.url(target.database, user, "pw")
    sink, table = await target.opened(*ID_U_X, url=url)
    answer = await target.failed(sink, UpsertRows(table, [(1, "a", 1)], True))
    assert answer.failure.kind is ErrorKind.TARGET
    assert answer.failure.code == "1142"
    await target.own(target.sink(url), "t")  # kills its own older sessions without a privilege


async def test_statements_are_cut_to_the_packet(make_own: Callable[..., Server]) -> None:
    target = Target(make_own(extra=["--max-allowed-packet=1M"]))
    target.table("id int PRIMARY KEY, u int UNIQUE, v longtext")
    sink, table = await target.opened(("id", INT), ("u", INT), ("v", TEXT))
    for letter in "ab":
        await target.committed(sink, UpsertRows(table, [(n, n, letter * 100_000) for n in range(40)], letter == "a"))
    assert target.sql("SELECT COUNT(*), SUM(LENGTH(v)), MIN(LEFT(v,1)) FROM t") == [(40, 4_000_000, "b")]
    answer = await target.failed(sink, UpsertRows(table, [(99, 99, "x" * 1_100_000)], True))
    assert answer.failure.kind is ErrorKind.ROW
    assert "max_allowed_packet" in answer.failure.message
    await target.committed(sink, DeleteRows(table, [(n,) for n in range(200_000)]))
    assert target.rows() == []
    await sink.close()


@pytest.fixture(params=["make_mariadb", "make_mysql"])
def make_own(request: pytest.FixtureRequest) -> Callable[..., Server]:
    maker: Callable[..., MariaDb | MySql] = request.getfixturevalue(request.param)
    return maker
