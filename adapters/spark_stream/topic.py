"""The changes topic (docs/reference/changes-topic.md) as a log for Spark.

Only committed records are seen.  A place's `at`, an offset of Kafka, is trusted only where the chain stands at the
place's position there (a topic that was copied has other offsets), else the place is looked for.  A long way is cut
into slices that several tasks read side by side.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import LogError, client_options, explained
from tidelock.adapters.kafka.offset_finder import ANSWER_SECONDS, Places
from tidelock.adapters.kafka.topics import changes_topic, look
from tidelock.adapters.kafka.wire import WireError, decode
from tidelock.adapters.spark_stream.log import (
    ChangesError,
    LogPlace,
    Slice,
    another_log,
    follow,
    named_alike,
    same_place,
)
from tidelock.engine.log.chain import Chain, Verdict
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position

SLICE_RECORDS: Final = 1000  # each task opens a connection of its own
MOST_SLICES: Final = 64
FETCH_BYTES: Final = 8 << 20
_POLL_MS: Final = 200
_NEIGHBOURS: Final = 8  # a repeated record does not hide where the chain stands

Result = TypeVar("Result")


class TopicLog(msgspec.Struct, frozen=True):
    """A topic as `adapters.spark_stream.log.ChangeLog`; Kafka's offsets are the numbers of its records."""

    endpoint: Endpoint
    feed: str

    @property
    def name(self) -> str:
        """The topic's name."""
        return changes_topic(self.feed)

    def first(self) -> dict[int, LogPlace]:
        """Returns where each partition begins."""

        async def ask(ends: Ends) -> dict[int, LogPlace]:
            return {number: place for number in ends.partitions if (place := await ends.first_place(number))}

        return self._asked(ask)

    def last(self, start: dict[int, LogPlace], most: int | None) -> dict[int, LogPlace]:
        """Returns where each partition ends, or `most` records behind its `start`."""

        async def ask(ends: Ends) -> dict[int, LogPlace]:
            found = {number: await ends.last_place(number, start.get(number), most) for number in ends.partitions}
            return {number: place for number, place in found.items() if place is not None}

        return self._asked(ask)

    def slices(self, start: dict[int, LogPlace], end: dict[int, LogPlace]) -> list[Slice]:
        """Returns slices between two places."""

        async def ask(ends: Ends) -> list[Slice]:
            parts = [await ends.slices(number, start.get(number), place) for number, place in sorted(end.items())]
            return list(itertools.chain.from_iterable(parts))

        return self._asked(ask)

    def read(self, part: Slice) -> Iterator[tuple[int, LogBatch]]:
        """Yields the records of a slice that `slices` made."""
        return follow(self._records(part), part)

    def _records(self, part: Slice) -> Iterator[tuple[int, LogBatch]]:
        with asyncio.Runner() as runner:
            fetched = self._fetched(part)
            try:
                while (records := runner.run(anext(fetched, None))) is not None:
                    yield from records
            except WireError as error:
                raise ChangesError(f"partition {part.partition} of {self.name}: {error}", error.hint) from None
            except OffsetOutOfRangeError:
                raise too_short(self.name, part.partition, part.start) from None
            except KafkaError as error:
                raise self._problem(error) from None
            finally:
                runner.run(fetched.aclose())

    async def _fetched(self, part: Slice) -> AsyncGenerator[list[tuple[int, LogBatch]], None]:
        place = TopicPartition(self.name, part.partition)
        consumer = AIOKafkaConsumer(
            **client_options(self.endpoint),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        try:
            await consumer.start()
            consumer.assign([place])
            consumer.seek(place, part.start.at)
            heard = time.monotonic()
            while (stood := await consumer.position(place)) < part.end.at:
                got = (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ())
                yield [
                    (record.offset, decode(record.value, record.topic).batch)
                    for record in got
                    if record.offset < part.end.at
                ]
                if await consumer.position(place) > stood:
                    heard = time.monotonic()
                elif time.monotonic() - heard > ANSWER_SECONDS:
                    raise KafkaTimeoutError(f"nothing from {self.name}/{part.partition} for {ANSWER_SECONDS:.0f} s")
        finally:
            await consumer.stop()

    def _asked(self, question: Callable[[Ends], Awaitable[Result]]) -> Result:
        async def ask() -> Result:
            found = (await look(self.endpoint, self.feed)).changes
            if found is None:
                raise LogError(f"there is no topic {self.name}", "Run `tidelock worker FEED`: the first one makes it")
            async with Ends(client_options(self.endpoint), self.name, found.partitions) as ends:
                return await question(ends)

        try:
            return asyncio.run(ask())
        except LogError as error:
            raise ChangesError(str(error), error.hint) from None
        except WireError as error:
            raise ChangesError(f"{self.name}: {error}", error.hint) from None
        except KafkaError as error:
            raise self._problem(error) from None

    def _problem(self, error: KafkaError) -> ChangesError:
        told = explained(self.endpoint, error)
        return ChangesError(str(told), told.hint)


class Ends(Places):
    """Finds places of a topic; `partitions`: their numbers.  Raises LogError too."""

    def __init__(self, kafka: dict[str, Any], topic: str, partitions: int) -> None:
        super().__init__(kafka, topic)
        self.partitions = range(partitions)

    async def first_place(self, partition: int) -> LogPlace | None:
        """Returns where the partition begins; None: nothing was ever written to it."""
        async with self._asking(partition) as log:
            message = await log.at_or_behind(log.begin)
            if message is None and log.begin:
                raise LogError(
                    f"partition {partition} of {self.topic} holds no record any more",
                    "Run the feed until it has published its position, then start the stream",
                )
        return LogPlace(decode(message.value, message.topic).batch.prev, message.offset) if message else None

    async def last_place(self, partition: int, start: LogPlace | None, most: int | None) -> LogPlace | None:
        """Returns where the partition ends, or `most` records behind `start`; None: nothing was ever written to it."""
        async with self._asking(partition) as log:
            begin, end = log.begin, log.end
        if start is not None and not begin <= start.at <= end:
            start = await self._found(partition, start)
        if most is not None:
            end = min(end, (start.at if start else begin) + most)
        return await self._stands(partition, end) or start

    async def slices(self, partition: int, start: LogPlace | None, end: LogPlace) -> list[Slice]:
        """Returns slices between two places."""
        start = await self._start(partition, start)
        end = await self._found(partition, end)
        count = min(max(1, (end.at - start.at) // SLICE_RECORDS), MOST_SLICES)
        cuts = [start.at + (end.at - start.at) * cut // count for cut in range(1, count)]
        places = [start, *filter(None, [await self._stands(partition, cut) for cut in cuts]), end]
        return [Slice(partition, one, other) for one, other in itertools.pairwise(places) if one.at < other.at]

    async def _start(self, partition: int, start: LogPlace | None) -> LogPlace:
        """Returns where to read a partition from.  One that is new since the last offsets is read from its first
        record, which must still be there.
        """
        if start is not None:
            return await self._found(partition, start)
        async with self._asking(partition) as log:
            if log.begin:
                raise too_short(self.topic, partition, None)
        first = await self.first_place(partition)
        assert first is not None, "it has an end"
        return first

    async def _found(self, partition: int, place: LogPlace) -> LogPlace:
        """Returns the place with the offset of the record behind it.  Raises ChangesError."""
        stands = await self._stands_or_begins(partition, place.at)
        if stands is not None and same_place(stands, place.position):
            return place
        offset = await self.find(partition, place.position)
        if offset is None:
            raise too_short(self.topic, partition, place)
        stands = await self._stands_or_begins(partition, offset)
        if stands is not None and named_alike(place.position, stands):
            raise another_log(f"partition {partition} of {self.topic}", place.position, stands)
        return LogPlace(place.position, offset)

    async def _stands_or_begins(self, partition: int, offset: int) -> Position | None:
        """Returns the chain's place before `offset`, which may be where it begins; None: there is no such offset."""
        async with self._asking(partition) as log:
            inside = log.begin <= offset <= log.end
            behind = await log.at_or_behind(offset) if inside else None
        if not inside:
            return None
        before = await self._stands(partition, offset)
        return before.position if before else decode(behind.value, behind.topic).batch.prev if behind else None

    async def _stands(self, partition: int, offset: int) -> LogPlace | None:
        """Returns the chain's place before `offset`; None: there is no record."""
        async with self._asking(partition) as log:
            step = _NEIGHBOURS
            while True:
                chain, at = None, max(log.begin, offset - step)
                first = at == log.begin
                while (message := await log.at_or_behind(at)) is not None and message.offset < offset:
                    batch, at = decode(message.value, message.topic).batch, message.offset + 1
                    if chain is None or chain.judge(batch.prev, batch.last, 0, resent=batch.resent) is Verdict.GAP:
                        chain = _begun(batch)
                if chain is not None or first:
                    return LogPlace(chain.last, offset) if chain else None
                step *= 4


def _begun(batch: LogBatch) -> Chain:
    chain = Chain(batch.prev)
    batch.resent = True
    chain.judge(batch.prev, batch.last, 0, resent=batch.resent)
    return chain


def too_short(topic: str, partition: int, place: LogPlace | None) -> ChangesError:
    """Returns the error that the topic no longer reaches back to a place."""
    where = f"holds {place.position}" if place else "reaches back to its beginning"
    return ChangesError(
        f"partition {partition} of {topic} no longer {where}",
        "Its retention was too short for how long the stream stood still, or it is another topic. Copy the tables anew "
        "and begin a new checkpoint; raise retention.ms of the topic",
    )
