"""The MySQL sink against a real server: rows of a spoke that make room for those of its arbiter."""

from __future__ import annotations

import msgspec

from tests.adapters.displacing_log import AT_SPOKE, expected, recorded, steps
from tests.adapters.mysql_sink.sink_target import ID_U_X, SECOND_UNIQUE, Target
from tests.engine.world import change
from tidelock.adapters.mysql.target.sink import MySqlSink
from tidelock.engine.batch.blind_steps import displacing_steps
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.schema import Binding


async def test_those_alone_make_room_that_hold_what_is_wanted(target: Target) -> None:
    target.table(SECOND_UNIQUE)
    for row in AT_SPOKE:
        target.sql("INSERT INTO t VALUES (%s, %s, %s)", *row)
    sink, table = await target.opened(*ID_U_X, displaces=True, sites=Sites("eu", "us"))
    await target.apply(sink, *steps(table))
    assert target.sql("SELECT * FROM t ORDER BY id") == expected()
    told = target.book("conflicts", "number, row_key, outcome")
    assert sorted((number, key) for number, key, outcome in told if outcome == "displaced") == recorded()


REFERS = "FOREIGN KEY (parent) REFERENCES parent (id)"
TREE = {
    "parent": SECOND_UNIQUE,
    "child": f"id int PRIMARY KEY, parent int NOT NULL, note varbinary(9), {REFERS}",
    "grandchild": "id int PRIMARY KEY, child int, up int, FOREIGN KEY (child) REFERENCES child (id), "
    "FOREIGN KEY (up) REFERENCES grandchild (id)",
    "gone": f"id int PRIMARY KEY, parent int, {REFERS} ON DELETE CASCADE ON UPDATE CASCADE",
    "below": "id int PRIMARY KEY, gone int, FOREIGN KEY (gone) REFERENCES gone (id)",
    "loose": f"id int PRIMARY KEY, parent int, {REFERS} ON DELETE SET NULL ON UPDATE CASCADE",
}


async def tree(target: Target) -> tuple[MySqlSink, Binding]:
    for name, definition in TREE.items():
        target.table(definition, name)
    target.sql("INSERT INTO parent VALUES (1, 'a', 0), (2, 'b', 0)")
    target.sql("INSERT INTO child VALUES (1, 1, x'00ff'), (2, 2, NULL)")
    for row in ("1, 1, NULL", "2, NULL, 1", "3, 2, NULL", "4, NULL, 2"):
        target.sql(f"INSERT INTO grandchild VALUES ({row})")
    target.sql("INSERT INTO gone VALUES (1, 1), (2, 2)")
    target.sql("INSERT INTO below VALUES (1, 1), (2, 2)")
    target.sql("INSERT INTO loose VALUES (1, 1)")
    sink = target.sink(displaces=True, sites=Sites("eu", "us"))
    taken = await target.own(sink, *TREE)
    return sink, target.binding(taken, *ID_U_X, name="parent")


async def test_what_stands_in_the_way_of_a_delete_goes_first_down_to_the_last_one(target: Target) -> None:
    sink, table = await tree(target)
    (step,) = displacing_steps([change(table, (1, "a", 0), None, number=7)])
    await target.committed(sink, step)
    left = {name: target.rows("id", name) for name in TREE}
    assert left == {
        "parent": [(2,)], "child": [(2,)], "grandchild": [(3,)], "gone": [(2,)], "below": [(2,)], "loose": [(1,)]
    }  # fmt: skip
    told = sorted(target.book("conflicts", "entry, table_name, row_key, type, number, lost"))
    in_order = {row[1:5] for row in told}
    assert in_order == {
        (name, f"id={id}", "foreign_key", 7)
        for name, id in (("grandchild", 4), ("grandchild", 2), ("grandchild", 1), ("child", 1), ("below", 1))
    }
    (lost,) = (msgspec.msgpack.decode(row[5]) for row in told if row[1] == "child")
    assert lost == {"id": 1, "parent": 1, "note": b"\x00\xff"}


async def test_a_key_changes_in_its_place_and_what_follows_follows(target: Target) -> None:
    sink, table = await tree(target)
    await target.committed(sink, *displacing_steps([change(table, (1, "a", 0), (2, "b", 5), number=7)]))
    assert target.rows("*", "parent") == [(2, "b", 5)]
    assert target.rows("*", "gone") == [(1, 2)] and target.rows("*", "loose") == [(1, 2)]
    assert target.rows("id", "child") == []
