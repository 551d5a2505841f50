"""A seek finds its record behind those that were fetched before it, however many wait at the moment.

Records are the publisher's; only who hands them over is played here, as Faust does it: in order of arrival, and what is
on the way at a seek comes first.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import encode
from tidelock.adapters.workers.partition import PartitionLog
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent, LogArrived, SourceFailed

SECONDS = 10


def at(number: int) -> Position:
    return Position("bin.000001", number)


class Handed:
    """The consumer, and where records are: record n leads from place n to n + 1."""

    skipped: frozenset[tuple[int, int]] = frozenset()
    topic = "tidelock.shop.changes"

    def __init__(self, on_the_way: int, end: int) -> None:
        self._on_the_way = on_the_way
        self._end = end
        self.seeks: list[int] = []
        self.log: PartitionLog

    async def find(self, _partition: int, position: Position, *, to_come: bool) -> int:
        return position.offset

    async def seek(self, offset: int) -> None:
        self.seeks.append(offset)
        for number in (*range(self._on_the_way, self._end), *range(offset, self._end)):
            value = encode(LogBatch(at(number), at(number + 1)), origin="db:3306", plan=1)
            self.log.offer(number, value, lambda: None)

    def pause(self) -> None: ...

    def resume(self) -> None: ...


async def test_what_was_fetched_before_a_seek_is_passed_over() -> None:
    handed, room, arrived = Handed(on_the_way=50, end=60), asyncio.Event(), list[LogBatch]()
    done = asyncio.Event()

    def post(event: ApplyEvent) -> None:
        assert not isinstance(event, SourceFailed), event
        if isinstance(event, LogArrived):
            arrived.extend(event.batches)
        if arrived and arrived[-1].last == at(60):
            done.set()

    log = handed.log = PartitionLog(0, cast(Places, cast(Any, handed)), handed)
    log.attach(post, room)
    room.set()
    reading = asyncio.create_task(log.read_from(at(10), 0))
    async with asyncio.timeout(SECONDS):
        await done.wait()
    assert [batch.prev for batch in arrived] == [at(number) for number in range(10, 60)]
    assert arrived[0].resent and log.restarts == 0 and handed.seeks == [10]
    await log.close()
    await asyncio.gather(reading, return_exceptions=True)
