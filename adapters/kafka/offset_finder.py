"""Finds places in the log: where a partition begins and ends, and the offset to read on from behind a position.

Records of one partition are in the order of their positions, so an offset is found by bisection.  Offsets have holes:
transaction markers and aborted records take some too.  A probe therefore asks for the first record *at or behind* an
offset.  Everything here sees committed records only, by a consumer without a group, one question at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Container, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaTimeoutError

from tidelock.adapters.kafka.wire import Record, WireError, at, decode
from tidelock.engine.model.records import Position

ANSWER_SECONDS: Final = 30.0
_POLL_MS: Final = 50
_FETCH_BYTES: Final = 1 << 16  # a probe needs one record; the broker sends a larger one whole
_FIRST_STEP: Final = 4  # a transaction's marker, and what an idle source's heartbeats leave at the end

Message: TypeAlias = ConsumerRecord[bytes, bytes]


class Places:
    """Finds places in one changes topic; an async context manager.  `kafka`: keyword arguments for aiokafka.

    `skipped`: (partition, offset) of records that an operator passed over; only those that cannot be read count.
    `bases`: by partition, the offset where the log begins; what is before is not looked at.

    Every method raises KafkaError (KafkaTimeoutError: no answer in `ANSWER_SECONDS`), and WireError where something
    else wrote to the topic.
    """

    def __init__(
        self,
        kafka: dict[str, Any],
        topic: str,
        skipped: Container[tuple[int, int]] = (),
        bases: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.skipped = skipped
        self.bases = bases
        self.topic = topic
        self._turn = asyncio.Lock()
        self._consumer = AIOKafkaConsumer(
            **kafka,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_partition_fetch_bytes=_FETCH_BYTES,
            fetch_max_wait_ms=_POLL_MS,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except BaseException:
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumer.stop()

    async def last(self, partition: int) -> Position | None:
        """Returns the end of the partition: `last` of its last committed record; None: it holds none."""
        record = await self.last_record(partition)
        return record.batch.last if record else None

    async def last_record(self, partition: int) -> Record | None:
        """Returns the last committed record that is still there."""
        async with self._asking(partition) as log:
            message = await log.last()
        return decode(message.value) if message else None

    async def first(self, partition: int) -> Position | None:
        """Returns the beginning of the partition: `prev` of its first committed record; None: it holds none."""
        async with self._asking(partition) as log:
            message = await log.at_or_behind(log.begin)
        return decode(message.value).batch.prev if message else None

    async def find(self, partition: int, position: Position, *, to_come: bool = False) -> int | None:
        """Returns the offset to read on from behind `position`.

        That is the offset of the first record whose `prev` is `position`, or the end of the partition where it ends
        there or holds nothing; with `to_come` also where it ends before that, as the record is still to come then.
        None: the log no longer reaches back so far, has no cut there, or does not reach it yet.  It is one look, of
        what there is at one moment: what is published meanwhile is behind the end.
        """
        async with self._asking(partition) as log:
            low, high = log.begin, log.end  # every record before `low` begins before the position, none from `high` on
            while low < high:
                middle = (low + high) // 2
                message = await log.at_or_behind(middle)
                if message is None or decode(message.value).batch.prev.order >= position.order:
                    high = middle
                else:
                    low = message.offset + 1
            found = await log.at_or_behind(low)
            if found is not None:
                return found.offset if decode(found.value).batch.prev.order == position.order else None
            last = await log.last()
            if last is None:
                return log.end
            end = decode(last.value).batch.last.order
            return log.end if end == position.order or (to_come and end < position.order) else None

    async def readable(self, partition: int, offset: int, records: int) -> int:
        """Reads up to so many records from `offset` on, and returns the offset behind the last of them."""
        async with self._asking(partition) as log:
            for _ in range(records):
                message = await log.at_or_behind(offset)
                if message is None:
                    return log.end
                offset = message.offset + 1
        return offset

    async def end(self, partition: int) -> int:
        """Returns the offset behind the last committed record."""
        async with self._asking(partition) as log:
            return log.end

    @contextlib.asynccontextmanager
    async def _asking(self, partition: int) -> AsyncIterator[_Partition]:
        tp = TopicPartition(self.topic, partition)
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    self._consumer.assign([tp])
                    begin = (await self._consumer.beginning_offsets([tp]))[tp]
                    end = (await self._consumer.end_offsets([tp]))[tp]
                    begin = min(max(begin, self.bases.get(partition, 0)), end)
                    yield _Partition(self._consumer, tp, begin, end, self.skipped)
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"no answer about {self.topic}/{partition} in {ANSWER_SECONDS:.0f} s"
                ) from None
            finally:
                self._consumer.pause(tp)  # or it would go on fetching; unsubscribed, aiokafka may hang at its stop


class _Partition:
    """Offsets `begin` to `end` of one partition, as the broker answers to read_committed: before any open transaction.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        tp: TopicPartition,
        begin: int,
        end: int,
        skipped: Container[tuple[int, int]] = (),
    ) -> None:
        self.begin, self.end = begin, end
        self._skipped = skipped
        self._consumer, self._tp = consumer, tp

    async def last(self) -> Message | None:
        """Returns the last committed record: reads to the end from ever farther before it, until there is one."""
        step = _FIRST_STEP
        while True:
            start = max(self.begin, self.end - step)
            found, offset = None, start
            while (message := await self.at_or_behind(offset)) is not None:
                found, offset = message, message.offset + 1
            if found is not None or start == self.begin:
                return found
            step *= 4

    def _passed_over(self, message: Message) -> bool:
        """Tells whether an operator passed the record over.  Raises WireError where it cannot be read otherwise."""
        try:
            decode(message.value, message.topic)
        except WireError as error:
            if (message.partition, message.offset) in self._skipped:
                return True
            raise at(error, message.partition, message.offset) from error
        return False

    async def at_or_behind(self, offset: int) -> Message | None:
        """Returns the first committed record from `offset` on."""
        if offset >= self.end:
            return None
        if await self._consumer.position(self._tp) != offset:
            self._consumer.seek(self._tp, offset)
        while await self._consumer.position(self._tp) < self.end:
            got = await self._consumer.getmany(self._tp, timeout_ms=_POLL_MS, max_records=1)
            for message in got.get(self._tp, ()):
                if message.offset >= self.end:
                    return None
                if not self._passed_over(message):
                    return message
        return None
