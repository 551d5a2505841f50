"""Copying into real MySQL and MariaDB servers: rows that are read again."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.adapters.mysql_copying.copy_target import ID_U_X, INT, TEXT, TWO_UNIQUE, Target
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import UNKNOWN, Row
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import ParkedRow, UpdateRows, UpsertRows


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
