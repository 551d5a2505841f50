"""The MySQL sink against a real server: failed rows, held batches and statements."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from tests.adapters.mysql_sink.sink_target import ID_U_X, SOLE_UNIQUE, START, Target, any_table
from tidelock.adapters.mysql.target.session import StatementFailed, open_session
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.adapters.operator.store import Halted
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.protocol.effects import ApplyDdl, CommitBatch, EffectId, Halt, RollbackBatch
from tidelock.engine.protocol.events import (
    BatchCommitted,
    BatchReady,
    BatchRolledBack,
    DdlApplied,
    DdlFailed,
    ParkedKey,
)
from tidelock.engine.protocol.steps import ParkedRow, UpdateRows, UpsertRows


async def test_parked_rows_go_in_and_out_with_their_batch(target: Target) -> None:
    sink, table = await any_table(target)
    rows = tuple(ParkedRow("0-1", n, 0, "src", "t", "k", "e" * 9000, b"\xff\0") for n in range(3))
    await target.committed(sink, parked=rows)
    await target.committed(sink, parked=(ParkedRow("0-1", 1, 0, "src", "t", "other", "other", b""),))
    assert target.book("parked", "number, row_key, LENGTH(error), HEX(change_data)") == [
        (n, "k", 5 if n == 1 else 4000, "FF00") for n in range(3)
    ]
    await target.failed(sink, UpsertRows(table, [("x", "a", 1)], True), unparked=(("0-1", 0, 0),))
    assert len(target.book("parked")) == 3
    await target.committed(sink, unparked=(("0-1", 0, 0), ("0-1", 2, 0)))
    assert target.book("parked", "number") == [(1,)]


async def test_control_tells_what_operators_ask(target: Target) -> None:
    sink, _ = await any_table(target)
    await target.committed(sink, parked=tuple(ParkedRow("0-1", n, 0, "src", "t", "k", "e", b"c") for n in range(3)))
    target.server.execute(f"UPDATE `{target.books}`.tidelock_parked SET wish='retry' WHERE number=2")
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET desired_state='paused'")
    control = await sink.control()
    assert control.desired_state == "paused"
    assert control.wishes == (ParkedKey("0-1", 2, 0, TableName("src", "t"), b"c", "retry"),)
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET desired_state='running'")
    assert sink._control.session is not None
    target.server.execute(f"KILL {sink._control.session.number}")
    assert (await sink.control()).desired_state == "paused"  # what it said last
    assert (await sink.control()).desired_state == "running"


async def test_a_halt_is_kept_by_the_owner_only(target: Target) -> None:
    sink, _ = await any_table(target)
    halt = Halt(Alarm("ddl", "it's", "a hint"), Ddl("s", "ALTER TABLE `t'`", "0-1", 5))
    await sink.record_halt(halt)
    ((stored,),) = target.book("owner", "halt")
    assert msgspec.json.decode(stored, type=Halted) == Halted(halt.alarm, halt.ddl)
    newer = target.sink()
    await target.own(newer)
    await sink.record_halt(halt)
    assert target.book("owner", "halt") == [(None,)]


# --- held batches


async def test_held_batches_commit_in_the_order_asked(target: Target) -> None:
    sink, table = await any_table(target)
    held = [target.batch(sink, UpsertRows(table, [(n, "a", n)], True), lane=n, held=True) for n in range(3)]
    assert [await sink.apply(b) for b in held] == [BatchReady(b.id) for b in held]
    assert target.rows() == []
    assert await sink.commit(CommitBatch(held[1].id)) == BatchCommitted(held[1].id)
    assert await sink.rollback(RollbackBatch(held[0].id)) == BatchRolledBack(held[0].id)
    assert await sink.commit(CommitBatch(held[2].id)) == BatchCommitted(held[2].id)
    assert target.rows() == [(1, "a", 1), (2, "a", 2)]
    again = target.batch(sink, UpsertRows(table, [(0, "a", 0)], True))
    assert await sink.apply(again) == BatchCommitted(again.id)


async def test_a_rollback_interrupts_a_batch_that_waits(target: Target) -> None:
    """Counter-example 13: an earlier transaction waits for a later open one."""
    target.table(SOLE_UNIQUE)
    sink, table = await target.opened(*ID_U_X, lock_timeout_seconds=60)
    later = target.batch(sink, UpsertRows(table, [(1, "a", 1)], True), lane=1, held=True)
    await sink.apply(later)
    earlier = target.batch(sink, UpsertRows(table, [(1, "b", 2)], False), lane=0, held=True)
    waiting = asyncio.create_task(sink.apply(earlier))
    await asyncio.sleep(0.3)
    assert await asyncio.wait_for(sink.rollback(RollbackBatch(earlier.id)), 10) == BatchRolledBack(earlier.id)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await sink.rollback(RollbackBatch(later.id)) == BatchRolledBack(later.id)
    rerun = [await sink.apply(batch) for batch in (earlier,)]
    assert rerun == [BatchReady(earlier.id)]
    assert await sink.commit(CommitBatch(earlier.id)) == BatchCommitted(earlier.id)
    assert target.rows() == [(1, "b", 2)]


async def test_a_rollback_lets_go_of_the_locks_of_a_cancelled_apply(target: Target) -> None:
    sink, table = await any_table(target)
    blocker = target.batch(sink, UpsertRows(table, [(1, "a", 1)], True), lane=1, held=True)
    await sink.apply(blocker)
    both = [UpsertRows(table, [(2, "b", 2)], True), UpdateRows(table, [(1,)], [(1, "c", 1)], True)]
    batch = target.batch(sink, *both, lane=0, held=True)
    waiting = asyncio.create_task(sink.apply(batch))
    await asyncio.sleep(0.3)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    await sink.rollback(RollbackBatch(batch.id))
    quick = target.batch(sink, UpsertRows(table, [(2, "free", 0)], True), lane=2)
    assert await sink.apply(quick) == BatchCommitted(quick.id)  # a lock that is still held would end it


async def test_a_rollback_of_an_unknown_batch_is_answered(target: Target) -> None:
    sink, _ = await any_table(target)
    assert await sink.rollback(RollbackBatch(EffectId(1, 12))) == BatchRolledBack(EffectId(1, 12))


# --- DDL


def _ddl(target: Target, statement: str, kind: DdlKind) -> ApplyDdl:
    ddl = Ddl(target.database, statement, "0-1", 5, kind, (TableName(target.database, "t"),))
    return ApplyDdl(EffectId(1, next(target.counters)), ddl, START)


async def _run(target: Target, sink: MySqlSink, statement: str, kind: DdlKind) -> DdlApplied | DdlFailed:
    return await sink.apply_ddl(_ddl(target, statement, kind), [TableName(target.database, "t")])


async def test_ddl_is_applied_and_may_be_applied_again_after_a_crash(target: Target) -> None:
    sink = target.sink()
    await target.own(sink)
    for statement, kind in (
        ("CREATE TABLE t (id int PRIMARY KEY)", DdlKind.CREATE_TABLE),
        ("ALTER TABLE t ADD COLUMN c varchar(20)", DdlKind.ADD_COLUMN),
    ):
        for _ in range(2):
            target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET ddl_passed=NULL")
            answer = await _run(target, sink, statement, kind)
            assert isinstance(answer, DdlApplied), answer
    assert [c.name for c in answer.tables[TableName(target.database, "t")].columns] == ["id", "c"]


async def test_a_column_of_another_type_is_not_taken_for_the_added_one(target: Target) -> None:
    target.table("id int PRIMARY KEY, c varchar(5)")
    sink = target.sink()
    await target.own(sink)
    answer = await _run(target, sink, "ALTER TABLE t ADD COLUMN c varchar(20)", DdlKind.ADD_COLUMN)
    assert isinstance(answer, DdlFailed)
    assert answer.failure.kind is ErrorKind.TARGET
    assert "varchar(5)" in answer.failure.message


async def test_a_zombies_truncate_empties_nothing(target: Target) -> None:
    """Counter-example 14."""
    zombie, table = await any_table(target)
    await target.committed(zombie, UpsertRows(table, [(1, "a", 1)], True))
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1")
    answer = await _run(target, zombie, "TRUNCATE TABLE t", DdlKind.TRUNCATE)
    assert isinstance(answer, DdlFailed)
    assert answer.failure.kind is ErrorKind.FENCED
    assert target.rows() == [(1, "a", 1)]
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch-1")
    assert isinstance(await _run(target, zombie, "TRUNCATE TABLE t", DdlKind.TRUNCATE), DdlApplied)
    assert target.rows() == []


async def test_a_truncate_takes_what_is_parked_for_its_table(target: Target) -> None:
    sink, table = await any_table(target)
    here, other = (ParkedRow("0-1", n, 0, target.database, t, "k", "e", b"c") for n, t in ((1, "t"), (2, "u")))
    await target.committed(sink, UpsertRows(table, [(1, "a", 1)], True), parked=(here, other))
    answer = await _run(target, sink, "TRUNCATE TABLE t", DdlKind.TRUNCATE)
    assert isinstance(answer, DdlApplied), answer
    assert answer.emptied == (TableName(target.database, "t"),)
    left = target.sql(f"SELECT table_name FROM `{target.books}`.tidelock_parked")
    assert [name for (name,) in left] == ["u"]


async def _three_groups(target: Target) -> tuple[MySqlSink, Binding, dict[int, int]]:
    """Two groups with a row parked in each, and the conductor's sink."""
    epochs = {}
    for group in (0, 1):
        owner, table = await any_table(target) if group == 0 else await target.opened(*ID_U_X, group=group)
        parked = ParkedRow("0-1", group, 0, target.database, "t", "k", "e", b"c")
        await target.committed(owner, UpsertRows(table, [(group + 1, f"{group}", 1)], True), parked=(parked,))
        epochs[group] = owner._fencing.epoch
    conductor = target.sink(group=-1, lock_timeout_seconds=20)
    await target.own(conductor, "t")
    return conductor, table, epochs


async def test_a_statement_runs_only_while_every_group_has_the_owner_that_voted(target: Target) -> None:
    conductor, _, votes = await _three_groups(target)
    ddl, tables = _ddl(target, "TRUNCATE TABLE t", DdlKind.TRUNCATE), [TableName(target.database, "t")]
    await target.own(target.sink(group=1), "t")
    for wrong in (votes, {**votes, 1: 7}, {**votes, 1: 2, 2: 1}):
        answer = await conductor.apply_ddl(ddl, tables, wrong)
        assert isinstance(answer, DdlFailed)
        assert answer.failure.kind is ErrorKind.TRANSIENT
        assert len(target.rows()) == 2
        assert len(target.book("parked")) == 2
    answer = await conductor.apply_ddl(ddl, tables, {**votes, 1: 2})
    assert isinstance(answer, DdlApplied), answer
    assert target.rows() == []
    assert list(target.book("parked")) == []
    assert sorted(target.book("owner", "grp, ddl_passed")) == [(-1, "0-1:5"), (0, None), (1, None)]
    target.sql("INSERT INTO t VALUES (9, 'z', 1)")
    assert isinstance(await conductor.apply_ddl(ddl, tables, votes), DdlApplied)  # it has passed: no vote is needed
    assert target.rows("id") == [(9,)]


async def test_a_group_cannot_change_its_owner_while_its_vote_is_used(target: Target) -> None:
    conductor, _, votes = await _three_groups(target)
    blocker = await open_session(conductor._endpoint, 2)
    await blocker.ask(f"SELECT * FROM `{target.database}`.t")  # holds the table's definition
    ddl = _ddl(target, "ALTER TABLE t ADD COLUMN c int", DdlKind.ADD_COLUMN)
    running = asyncio.create_task(conductor.apply_ddl(ddl, [TableName(target.database, "t")], votes))
    async with asyncio.timeout(20):
        while not any("ALTER" in str(row) for row in target.server.execute("SHOW FULL PROCESSLIST")):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    newcomer = await open_session(conductor._endpoint, 1)
    with pytest.raises(StatementFailed, match="Lock wait timeout"):
        await newcomer.ask(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1 WHERE grp=1")
    await newcomer.close()
    await blocker.rollback()
    answer = await running
    assert isinstance(answer, DdlApplied), answer
    await blocker.close()


async def test_a_group_notes_that_a_statement_has_passed_and_reads_the_tables(target: Target) -> None:
    sink, _ = await any_table(target)
    target.sql("ALTER TABLE t ADD COLUMN c int")
    ddl = _ddl(target, "TRUNCATE TABLE t", DdlKind.TRUNCATE)
    target.sql("INSERT INTO t VALUES (1, 'a', 1, 2)")
    answer = await sink.pass_ddl(ddl, [TableName(target.database, "t")])
    assert isinstance(answer, DdlApplied), answer
    assert [c.name for c in answer.tables[TableName(target.database, "t")].columns] == ["id", "u", "x", "c"]
    assert answer.emptied == (TableName(target.database, "t"),)
    assert target.rows("id") == [(1,)]
    assert target.book("owner", "ddl_passed") == [("0-1:5",)]
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1, ddl_passed=NULL")
    answer = await sink.pass_ddl(_ddl(target, "TRUNCATE TABLE t", DdlKind.TRUNCATE), [])
    assert isinstance(answer, DdlFailed)
    assert answer.failure.kind is ErrorKind.FENCED


async def test_only_the_owner_settles(target: Target) -> None:
    sink, table = await any_table(target)
    await target.committed(sink, UpsertRows(table, [(1, "a", 1)], True))
    assert await sink.settle() is None
    target.server.execute(f"UPDATE `{target.books}`.tidelock_owner SET epoch=epoch+1")
    failure = await sink.settle()
    assert failure is not None
    assert failure.kind is ErrorKind.FENCED


async def test_a_takeover_waits_for_ddl_under_way_or_ends_it(target: Target) -> None:
    zombie, _ = await any_table(target)
    blocker = await open_session(zombie._endpoint, 2)
    await blocker.ask(f"SELECT * FROM `{target.database}`.t")  # holds the table's definition
    running = asyncio.create_task(_run(target, zombie, "ALTER TABLE t ADD COLUMN c int", DdlKind.ADD_COLUMN))
    await asyncio.sleep(0.3)
    taken = await target.own(target.sink(lock_timeout_seconds=1), "t")
    await blocker.rollback()
    answer = await running
    assert isinstance(answer, DdlFailed)
    assert [c.name for c in taken.tables[TableName(target.database, "t")].columns] == ["id", "u", "x"]
    assert target.sql("SELECT COUNT(*) FROM information_schema.columns WHERE table_schema=%s", target.database) == [
        (3,)
    ]
    await blocker.close()
