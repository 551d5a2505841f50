"""The PostgreSQL sink against a real server: held batches, rollbacks, failed rows, halts and statements."""

import asyncio

import asyncpg
import msgspec
import pytest

from tests.adapters.postgres_sink.sink_target import (
    ACCOUNT,
    ACCOUNT_COLUMNS,
    START,
    Proxy,
    Target,
    account,
    bind,
    committed,
    failed,
    opened,
    sessions_are,
)
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.model.records import Column, Kind, Shape, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyDdl, CommitBatch, EffectId, Halt, RollbackBatch
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, BatchReady, DdlApplied, DdlFailed
from tidelock.engine.protocol.steps import ParkedRow, UpsertRows


async def test_held_batch_shows_nothing_until_commit(target: Target) -> None:
    sink, table, epoch = await opened(target)
    first, second = (target.batch(epoch, UpsertRows(table, [account(i)], True), held=True, lane=i) for i in (1, 2))
    assert await sink.apply(first) == BatchReady(first.id)
    assert await sink.apply(second) == BatchReady(second.id)
    assert target.rows() == []
    assert (await sink.rollback(RollbackBatch(second.id))).id == second.id
    assert await sink.commit(CommitBatch(first.id)) == BatchCommitted(first.id)
    assert target.rows() == [(1, "user1")]
    assert await sink.apply(second) == BatchReady(second.id)
    assert await sink.commit(CommitBatch(second.id)) == BatchCommitted(second.id)


async def test_deferred_constraint_fails_a_held_commit(target: Target) -> None:
    target.sql("CREATE TABLE kid (id int PRIMARY KEY, p bigint REFERENCES account DEFERRABLE INITIALLY DEFERRED)")
    name = TableName("public", "kid")
    sink = target.sink()
    table = bind(await sink.take_over([name], START), (Column("id", Kind.INT), Column("p", Kind.INT)), name)
    batch = target.batch(1, UpsertRows(table, [(1, 5)], True), held=True)
    assert await sink.apply(batch) == BatchReady(batch.id)
    answer = await sink.commit(CommitBatch(batch.id))
    assert isinstance(answer, BatchFailed)
    assert answer.failure.kind is ErrorKind.ROW
    await committed(sink, target.batch(1))


async def test_rollback_interrupts_a_batch_that_waits_and_frees_its_locks(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=60.0)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1), account(2)], True)))
    holder = target.batch(epoch, UpsertRows(table, [account(2, payload="held")], False), held=True, lane=0)
    assert await sink.apply(holder) == BatchReady(holder.id)
    steps = [UpsertRows(table, [account(i, payload="late")], False) for i in (1, 2)]
    late = target.batch(epoch, *steps, held=True, lane=1)
    running = asyncio.create_task(sink.apply(late))
    await asyncio.sleep(0.3)
    assert not running.done()

    await asyncio.wait_for(sink.rollback(RollbackBatch(late.id)), 10)

    assert (await asyncio.gather(running, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    target.sql("SET lock_timeout = '200ms'")
    target.sql("UPDATE account SET flag = 9 WHERE id = 1")  # the lock it held is gone
    assert await sink.commit(CommitBatch(holder.id)) == BatchCommitted(holder.id)
    assert await sink.apply(late) == BatchReady(late.id)
    assert await sink.commit(CommitBatch(late.id)) == BatchCommitted(late.id)
    assert target.rows("id, payload") == [(1, "late"), (2, "late")]


async def test_an_apply_cancelled_from_outside_leaves_a_usable_lane(target: Target) -> None:
    """The server may be done before it hears of it: the next batch must not commit the cancelled one's rows."""
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    other = await asyncpg.connect(target.server.url(target.database), ssl=False)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE account SET flag = 2")
    late = target.batch(epoch, UpsertRows(table, [account(1, payload="late")], False), held=True)
    running = asyncio.create_task(sink.apply(late))
    await asyncio.sleep(0.2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await transaction.rollback()
    await other.close()
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(2)], True)))
    assert target.rows("id, payload") == [(1, "x"), (2, "x")]


async def test_parked_rows_come_and_go_with_the_batch(target: Target) -> None:
    sink, table, epoch = await opened(target)
    parked = [ParkedRow("0-1", n, 0, "public", "account", f"id={n}", "it's bad", bytes([n])) for n in (1, 2)]
    await committed(sink, target.batch(epoch, parked=tuple(parked)))
    target.sql("UPDATE tidelock.tidelock_parked SET wish = 'retry' WHERE number = 2")
    target.sql("UPDATE tidelock.tidelock_owner SET desired_state = 'paused'")
    control = await sink.control()
    assert (control.desired_state, [(w.number, w.wish) for w in control.wishes]) == ("paused", [(2, "retry")])
    bad = target.batch(epoch, UpsertRows(table, [account(1, payload="\0")], True), unparked=(("0-1", 2, 0),))
    assert (await failed(sink, bad)).kind is ErrorKind.ROW
    assert len(target.sql("SELECT * FROM tidelock.tidelock_parked")) == 2
    await committed(sink, target.batch(epoch, unparked=(("0-1", 2, 0),)))
    assert target.sql("SELECT number, error FROM tidelock.tidelock_parked") == [(1, "it's bad")]


async def test_halt_is_kept_and_cleared_by_the_next_takeover(target: Target) -> None:
    sink, _, _ = await opened(target)
    alarm = Alarm("ddl", "it's \\ stuck", "look")
    await sink.record_halt(Halt(alarm, Ddl("shop", "DROP TABLE x", "s", 1)))
    stored = msgspec.json.decode(target.sql("SELECT halt FROM tidelock.tidelock_owner")[0][0])
    assert msgspec.convert(stored["alarm"], Alarm) == alarm
    assert msgspec.convert(stored["ddl"], Ddl).statement == "DROP TABLE x"
    await sink.take_over([ACCOUNT], START)
    assert target.sql("SELECT halt FROM tidelock.tidelock_owner") == [(None,)]


async def test_ddl_runs_once_even_if_its_answer_is_lost(target: Target) -> None:
    async with Proxy(target.server.port) as proxy:
        sink, table, epoch = await opened(target, url=proxy.url(target))
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
        truncate = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))
        effect = ApplyDdl(EffectId(epoch, 70), truncate, START)
        assert isinstance(await sink.apply_ddl(effect, [ACCOUNT]), DdlApplied)
        assert target.rows() == []
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(2)], True)))
        answer = await sink.apply_ddl(effect, [ACCOUNT])
        assert isinstance(answer, DdlApplied)
        assert list(answer.tables) == [ACCOUNT]
        assert target.rows() == [(2, "user2")]
        assert (await sink.take_over([ACCOUNT], START)).ddl_passed == ("0-1", 5)
        await sink.close()


async def test_a_truncate_takes_what_is_parked_for_its_table(target: Target) -> None:
    sink, table, epoch = await opened(target)
    parked = [ParkedRow("0-1", n, 0, "public", name, "k", "e", b"c") for n, name in ((1, "account"), (2, "other"))]
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True), parked=tuple(parked)))
    truncate = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))
    answer = await sink.apply_ddl(ApplyDdl(EffectId(epoch, 70), truncate, START), [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert answer.emptied == (ACCOUNT,)
    assert target.sql("SELECT table_name FROM tidelock.tidelock_parked") == [("other",)]


async def test_ddl_adds_a_column_that_the_next_batch_writes(target: Target) -> None:
    sink, _, epoch = await opened(target)
    statement = "ALTER TABLE account ADD COLUMN nick varchar(10)"
    ddl = Ddl("public", statement, "0-1", 6, DdlKind.ADD_COLUMN, (ACCOUNT,))
    answer = await sink.apply_ddl(ApplyDdl(EffectId(epoch, 70), ddl, START), [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert [c.name for c in answer.tables[ACCOUNT].columns][-1] == "nick"
    columns = (*ACCOUNT_COLUMNS, Column("nick", Kind.TEXT, length=10))
    wide = Binding(1, Shape(ACCOUNT, columns), answer.tables[ACCOUNT])
    await committed(sink, target.batch(epoch, UpsertRows(wide, [(*account(1), "al")], True)))
    assert target.rows("id, nick") == [(1, "al")]


TRUNCATE = Ddl("public", "TRUNCATE account", "0-1", 5, DdlKind.TRUNCATE, (ACCOUNT,))


async def two_groups(target: Target) -> tuple[PostgresSink, int, dict[int, int]]:
    """Two groups with a row parked in each, and the conductor's sink."""
    epochs = {}
    for group in (0, 1):
        owner, table, epochs[group] = await opened(target, group=group)
        parked = ParkedRow("0-1", group, 0, "public", "account", "k", "e", b"c")
        await committed(owner, target.batch(epochs[group], UpsertRows(table, [account(group)], True), parked=(parked,)))
    conductor, _, epoch = await opened(target, group=-1)
    return conductor, epoch, epochs


async def test_a_statement_runs_only_while_every_group_has_the_owner_that_voted(target: Target) -> None:
    conductor, epoch, votes = await two_groups(target)
    await opened(target, group=1)
    effect = ApplyDdl(EffectId(epoch, 1), TRUNCATE, START)
    for wrong in (votes, {**votes, 1: 7}, {**votes, 1: 2, 2: 1}):
        answer = await conductor.apply_ddl(effect, [ACCOUNT], wrong)
        assert isinstance(answer, DdlFailed)
        assert answer.failure.kind is ErrorKind.TRANSIENT
        assert len(target.rows()) == 2
        assert len(target.sql("SELECT 1 FROM tidelock.tidelock_parked")) == 2
    answer = await conductor.apply_ddl(effect, [ACCOUNT], {**votes, 1: 2})
    assert isinstance(answer, DdlApplied), answer
    assert target.rows() == []
    assert target.sql("SELECT 1 FROM tidelock.tidelock_parked") == []
    owners = target.sql("SELECT grp, ddl_passed FROM tidelock.tidelock_owner ORDER BY grp")
    assert owners == [(-1, "0-1:5"), (0, None), (1, None)]
    target.sql("INSERT INTO account (id) VALUES (9)")
    assert isinstance(await conductor.apply_ddl(effect, [ACCOUNT], votes), DdlApplied)  # it has passed: no vote needed
    assert target.rows("id") == [(9,)]


async def test_a_group_cannot_change_its_owner_while_its_vote_is_used(target: Target) -> None:
    conductor, epoch, votes = await two_groups(target)
    blocker = await asyncpg.connect(target.server.url(target.database))
    await blocker.execute("BEGIN; LOCK TABLE account IN ACCESS SHARE MODE")
    ddl = Ddl("public", "ALTER TABLE account ADD COLUMN c int", "0-1", 6, DdlKind.ADD_COLUMN, (ACCOUNT,))
    running = asyncio.create_task(conductor.apply_ddl(ApplyDdl(EffectId(epoch, 1), ddl, START), [ACCOUNT], votes))
    async with asyncio.timeout(20):
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%ADD COLUMN%'"
        while not target.sql(waiting):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    newcomer = await asyncpg.connect(target.server.url(target.database))
    await newcomer.execute("SET lock_timeout = '200ms'")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await newcomer.execute("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1 WHERE grp = 1")
    await newcomer.close()
    await blocker.close()
    answer = await running
    assert isinstance(answer, DdlApplied), answer


async def test_a_group_notes_that_a_statement_has_passed_and_reads_the_tables(target: Target) -> None:
    sink, _, epoch = await opened(target)
    target.sql("ALTER TABLE account ADD COLUMN c int")
    target.sql("INSERT INTO account (id) VALUES (9)")
    effect = ApplyDdl(EffectId(epoch, 1), TRUNCATE, START)
    answer = await sink.pass_ddl(effect, [ACCOUNT])
    assert isinstance(answer, DdlApplied), answer
    assert answer.tables[ACCOUNT].columns[-1].name == "c"
    assert answer.emptied == (ACCOUNT,)
    assert target.rows("id") == [(9,)]
    assert target.sql("SELECT ddl_passed FROM tidelock.tidelock_owner") == [("0-1:5",)]
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1, ddl_passed = NULL")
    answer = await sink.pass_ddl(effect, [ACCOUNT])
    assert isinstance(answer, DdlFailed)
    assert answer.failure.kind is ErrorKind.FENCED


async def test_what_has_settled_is_on_disk_and_only_the_owner_settles(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    committed_at = target.sql("SELECT pg_current_wal_insert_lsn()")[0][0]
    assert await sink.settle() is None
    assert target.sql("SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn", committed_at) == [(True,)]
    target.sql("UPDATE tidelock.tidelock_owner SET epoch = epoch + 1")
    failure = await sink.settle()
    assert failure is not None
    assert failure.kind is ErrorKind.FENCED


async def test_settling_notices_that_reported_commits_are_lost(target: Target) -> None:
    sink, table, epoch = await opened(target)
    await committed(sink, target.batch(epoch, UpsertRows(table, [account(1)], True)))
    target.sql("DELETE FROM tidelock.tidelock_progress")  # as a crash would
    failure = await sink.settle()
    assert failure is not None
    assert failure.kind is ErrorKind.COMMITS_LOST


async def test_no_session_asks_for_the_types_of_its_answers(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncpg would, at each new session, for an array that is not of text."""
    asked: list[object] = []
    introspect = asyncpg.Connection._introspect_types

    async def noted(self: asyncpg.Connection, types: object, *args: object) -> object:
        asked.append(types)
        return await introspect(self, types, *args)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", noted)
    sink, table, epoch = await opened(target)
    for lane in range(4):
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(lane)], True), lane=lane))
    assert not asked


async def test_sessions_are_set_up_and_close_leaks_none(target: Target) -> None:
    sink, table, epoch = await opened(target, lock_timeout_seconds=1.5)
    for lane in range(4):
        await committed(sink, target.batch(epoch, UpsertRows(table, [account(lane)], True), lane=lane))
    held = target.batch(epoch, UpsertRows(table, [account(9)], True), held=True)
    assert await sink.apply(held) == BatchReady(held.id)
    assert target.sessions() == 4
    connection = sink._lanes[1].session.connection  # type: ignore[union-attr]
    shown = {
        name: await connection.fetchval(f"SHOW {name}") for name in ("timezone", "lock_timeout", "synchronous_commit")
    }
    assert shown == {"timezone": "UTC", "lock_timeout": "1500ms", "synchronous_commit": "off"}
    assert await connection.fetchval("SHOW transaction_isolation") == "read committed"
    before = asyncio.all_tasks()
    await sink.close()
    await sessions_are(target, 0)
    assert asyncio.all_tasks() <= before
    assert [row[0] for row in target.rows()] == [0, 1, 2, 3]
