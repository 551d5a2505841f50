"""Copying into real MySQL and MariaDB servers: how a copy begins."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.adapters.mysql_copying.copy_target import LATER, TWO_UNIQUE, Target
from tidelock.adapters.ports.sink import Wanted
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm, ErrorKind
from tidelock.engine.protocol.effects import BeginCopy
from tidelock.engine.protocol.events import Copied, CopyBegun, CopyFailed


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
