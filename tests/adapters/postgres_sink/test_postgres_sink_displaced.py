"""The PostgreSQL sink against a real server: rows of a spoke that make room for those of its arbiter."""

from tests.adapters.displacing_log import AT_SPOKE, expected, recorded, steps
from tests.adapters.postgres_sink.sink_target import START, Target, bind
from tidelock.engine.capture.origin import Sites
from tidelock.engine.model.records import Column, Kind


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
