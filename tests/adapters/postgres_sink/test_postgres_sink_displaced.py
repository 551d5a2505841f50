"""The PostgreSQL sink against a real server: rows of a spoke that make room for those of its arbiter."""

import asyncpg
import msgspec

from tests.adapters.displacing_log import AT_SPOKE, expected, recorded, steps
from tests.adapters.postgres_sink.sink_target import START, Target, bind
from tests.engine.world import change
from tidelock.adapters.postgres.target.sink import PostgresSink
from tidelock.engine.batch.blind_steps import blind_steps, displacing_steps
from tidelock.engine.batch.merge import Ranks
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.records import Column, Kind
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import BatchCommitted, TakenOver


async def test_those_alone_make_room_that_hold_what_is_wanted(target: Target) -> None:
    name = target.table("t", "id int PRIMARY KEY, u varchar(20) UNIQUE, x int")
    for row in AT_SPOKE:
        target.sql("INSERT INTO t VALUES ($1, $2, $3)", *row)
    columns = (Column("id", Kind.INT), Column("u", Kind.TEXT), Column("x", Kind.INT))
    sink = target.sink(displaces=True, sites=Sites("eu", "us"))
    taken = await sink.take_over([name], START)
    await sink.apply(target.batch(taken.epoch, *steps(bind(taken, columns, name))))
    assert target.rows("*", "t") == expected()
    told = target.sql("SELECT number, row_key FROM tidelock.tidelock_conflicts WHERE outcome = 'displaced' ORDER BY 1")
    assert told == recorded()


TREE = (
    ("parent", "id int PRIMARY KEY, u varchar(20) UNIQUE, x int"),
    ("child", "id int PRIMARY KEY, parent int NOT NULL REFERENCES parent, note bytea"),
    ("grandchild", "id int PRIMARY KEY, child int REFERENCES child, up int REFERENCES grandchild"),
    ("gone", "id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE"),
    ("below", "id int PRIMARY KEY, gone int REFERENCES gone"),
    ("loose", "id int PRIMARY KEY, parent int REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE"),
)


async def tree(target: Target) -> tuple[PostgresSink, TakenOver, Binding]:
    names = [target.table(*one) for one in TREE]
    for row in ("parent VALUES (1, 'a', 0), (2, 'b', 0)", "child VALUES (1, 1, '\\x00ff'), (2, 2, NULL)"):
        target.sql(f"INSERT INTO {row}")
    target.sql("INSERT INTO grandchild VALUES (1, 1, NULL), (2, NULL, 1), (3, 2, NULL), (4, NULL, 2)")
    target.sql("INSERT INTO gone VALUES (1, 1), (2, 2)")
    target.sql("INSERT INTO below VALUES (1, 1), (2, 2)")
    target.sql("INSERT INTO loose VALUES (1, 1)")
    sink = target.sink(displaces=True, sites=Sites("eu", "us"))
    taken = await sink.take_over(names, START)
    columns = (Column("id", Kind.INT), Column("u", Kind.TEXT), Column("x", Kind.INT))
    return sink, taken, bind(taken, columns, names[0])


async def test_what_stands_in_the_way_of_a_delete_goes_first_down_to_the_last_one(target: Target) -> None:
    sink, taken, table = await tree(target)
    (step,) = displacing_steps([change(table, (1, "a", 0), None, number=7)])
    answer = await sink.apply(target.batch(taken.epoch, step))
    assert isinstance(answer, BatchCommitted) and answer.replaced == 5
    left = {name: target.rows("id", name) for name, _ in TREE}
    assert left == {
        "parent": [(2,)], "child": [(2,)], "grandchild": [(3,)], "gone": [(2,)], "below": [(2,)], "loose": [(1,)]
    }  # fmt: skip
    told = target.sql("SELECT table_name, row_key, type, number, lost FROM tidelock.tidelock_conflicts ORDER BY entry")
    assert [row[:4] for row in told] == [
        (name, f"id={id}", "foreign_key", 7)
        for name, id in (("grandchild", 4), ("grandchild", 2), ("grandchild", 1), ("child", 1), ("below", 1))
    ]
    assert msgspec.msgpack.decode(told[3][4]) == {"id": 1, "parent": 1, "note": b"\x00\xff"}


async def test_a_key_changes_in_its_place_and_what_follows_follows(target: Target) -> None:
    sink, taken, table = await tree(target)
    steps = displacing_steps([change(table, (1, "a", 0), (2, "b", 5), number=7)])
    assert isinstance(await sink.apply(target.batch(taken.epoch, *steps)), BatchCommitted)
    assert target.rows("*", "parent") == [(2, "b", 5)]
    assert target.rows("*", "gone") == [(1, 2)] and target.rows("*", "loose") == [(1, 2)]
    assert target.rows("id", "child") == []


async def test_a_parent_is_written_while_somebody_makes_a_child_of_it(target: Target) -> None:
    """Else two lanes, each with a child of what the other one writes, wait for each other."""
    sink, taken, table = await tree(target)
    changes = [change(table, (n, u, 0), (n, u, 7), number=n) for n, u in ((1, "a"), (2, "changed"))]
    child = await asyncpg.connect(target.server.url(target.database))
    await child.execute("BEGIN; INSERT INTO child VALUES (5, 1)")
    steps = blind_steps(changes, Ranks({table.name: table.target}, {}))
    assert isinstance(await sink.apply(target.batch(taken.epoch, *steps)), BatchCommitted)
    await child.execute("COMMIT")
    await child.close()
    assert target.rows("*", "parent") == [(1, "a", 7), (2, "changed", 7)]
