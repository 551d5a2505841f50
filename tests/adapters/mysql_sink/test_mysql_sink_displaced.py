"""The MySQL sink against a real server: rows of a spoke that make room for those of its arbiter."""

from __future__ import annotations

from tests.adapters.displacing_log import AT_SPOKE, expected, recorded, steps
from tests.adapters.mysql_sink.sink_target import ID_U_X, SECOND_UNIQUE, Target
from tidelock.engine.capture.origin import Sites


async def test_those_alone_make_room_that_hold_what_is_wanted(target: Target) -> None:
    target.table(SECOND_UNIQUE)
    for row in AT_SPOKE:
        target.sql("INSERT INTO t VALUES (%s, %s, %s)", *row)
    sink, table = await target.opened(*ID_U_X, displaces=True, sites=Sites("eu", "us"))
    await target.apply(sink, *steps(table))
    assert target.sql("SELECT * FROM t ORDER BY id") == expected()
    told = target.book("conflicts", "number, row_key, outcome")
    assert sorted((number, key) for number, key, outcome in told if outcome == "displaced") == recorded()
