"""Copying into real MySQL and MariaDB servers: merges of chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pymysql import err

from tests.adapters.mysql_copying.copy_target import ID_U_X, INT, TEXT, TWO_UNIQUE, Target, eventually
from tidelock.adapters.mysql.target.session import StatementFailed
from tidelock.adapters.ports.staging import staged_name
from tidelock.engine.log.receipts import NOTHING
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Column, Kind, Position, Row
from tidelock.engine.protocol.events import BatchCommitted, BatchFailed, Copied
from tidelock.engine.protocol.steps import ParkedRow, Step, UpsertRows


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
    await eventually(lambda: target.sql(running))
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
    await eventually(lambda: target.sql(running))
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
