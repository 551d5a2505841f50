"""Places in a real partition, whose offsets have holes: transaction markers, aborted records, an expired beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import KafkaTimeoutError

from bench.harness.numbers import numbers
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.kafka import offset_finder as module
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import WireError, encode
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position

_topics = numbers()


def at(offset: int) -> Position:
    return Position("log.000001", offset)


def record(prev: int, last: int) -> bytes:
    return encode(LogBatch(at(prev), at(last)), origin="", plan=1)


class Topic:
    """One topic of two partitions, a producer of its transactions, and where its records are.

    The broker answers a commit before its marker is in the log, so whoever wants to read what was committed waits.
    """

    def __init__(self, kafka: Kafka, name: str) -> None:
        self.kafka, self.name = {"bootstrap_servers": kafka.bootstrap}, name
        self.offsets: dict[tuple[int, int], int] = {}  # of (prev, last)
        self.end = self.open_end = 0
        self._producer = AIOKafkaProducer(**self.kafka, transactional_id=name)
        self._reader = AIOKafkaConsumer(**self.kafka, isolation_level="read_committed")

    async def __aenter__(self) -> Topic:
        await self._producer.start()
        await self._reader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()
        await self._reader.stop()

    async def commit(self, *records: tuple[int, int], abort: bool = False) -> None:
        await self._producer.begin_transaction()
        for prev, last in records:
            written = await self._producer.send_and_wait(self.name, record(prev, last), partition=0)
            if not abort:
                self.offsets[prev, last] = written.offset
            self.end = written.offset + 2  # the transaction's marker follows
        await (self._producer.abort_transaction() if abort else self._producer.commit_transaction())
        await self._ended()

    async def open(self, *records: tuple[int, int]) -> None:
        """A transaction that is not ended."""
        await self._producer.begin_transaction()
        for prev, last in records:
            written = await self._producer.send_and_wait(self.name, record(prev, last), partition=0)
            self.open_end = written.offset + 2

    async def abort(self) -> None:
        await self._producer.abort_transaction()
        self.end = self.open_end
        await self._ended()

    async def _ended(self) -> None:
        """Until the transaction's marker is there."""
        place = TopicPartition(self.name, 0)
        async with asyncio.timeout(30):
            while (await self._reader.end_offsets([place]))[place] < self.end:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
async def topic(kafka: Kafka) -> AsyncIterator[Topic]:
    name = f"places-{next(_topics)}"
    kafka.create_topic(name, partitions=2)
    async with Topic(kafka, name) as opened:
        yield opened


async def test_an_empty_partition(topic):
    async with Places(topic.kafka, topic.name) as places:
        assert [await places.last(1), await places.first(1), await places.find(1, at(7))] == [None, None, 0]


async def test_every_place_is_found_among_markers_and_aborted_records(topic):
    for i in range(12):
        step = 30 * i
        if i % 3 == 1:
            await topic.commit(*[(step, 9999)] * 40, abort=True)
        await topic.commit((step, step + 10), (step + 10, step + 20), (step + 20, step + 20), (step + 20, step + 30))
    await topic.commit(*[(360, 9999)] * 50, abort=True)
    async with Places(topic.kafka, topic.name) as places:
        assert await places.last(0) == at(360)
        assert await places.first(0) == at(0)
        for step in range(0, 360, 30):
            found = [await places.find(0, at(step + more)) for more in (0, 10, 20)]
            keys = ((step, step + 10), (step + 10, step + 20), (step + 20, step + 20))
            assert found == [topic.offsets[key] for key in keys]
        assert await places.find(0, at(360)) == topic.end
        assert await places.find(0, at(15)) is None  # no cut there
        assert await places.find(0, at(361)) is None  # not so far yet
        assert await places.find(0, at(361), to_come=True) == topic.end
        assert await places.find(0, at(15), to_come=True) is None
        assert await places.last(1) is None


async def test_an_open_transaction_is_not_there_yet(topic):
    await topic.commit((0, 10))
    await topic.open((10, 20))
    async with Places(topic.kafka, topic.name) as places:
        assert await places.last(0) == at(10)
        assert await places.find(0, at(10)) == topic.end
        assert await places.find(0, at(20)) is None
        await topic.abort()
        await topic.commit((10, 30))
        assert await places.last(0) == at(30)
        assert await places.find(0, at(10)) == topic.offsets[10, 30]


async def test_what_is_published_during_a_look_is_to_come(topic, monkeypatch):
    """A group that is ahead of a log that is published again must not find it too short as it comes to its place."""
    await topic.commit((0, 10))
    end = topic.end
    look = module._Partition.at_or_behind

    async def meanwhile(partition, offset):
        found = await look(partition, offset)
        if topic.end == end:
            await topic.commit((10, 20), (20, 30))
        return found

    monkeypatch.setattr(module._Partition, "at_or_behind", meanwhile)
    async with Places(topic.kafka, topic.name) as places:
        assert await places.find(0, at(20), to_come=True) == end
        assert await places.find(0, at(20), to_come=True) == topic.offsets[20, 30]


async def test_a_beginning_that_retention_has_taken(topic):
    for i in range(5):
        await topic.commit((10 * i, 10 * i + 10))
    admin = AIOKafkaAdminClient(**topic.kafka)
    await admin.start()
    await admin.delete_records({TopicPartition(topic.name, 0): RecordsToDelete(topic.offsets[20, 30])})
    await admin.close()
    async with Places(topic.kafka, topic.name) as places:
        assert await places.first(0) == at(20)
        assert await places.find(0, at(10)) is None
        assert await places.find(0, at(20)) == topic.offsets[20, 30]
        assert await places.last(0) == at(50)


async def test_what_something_else_wrote_is_refused(topic):
    producer = AIOKafkaProducer(**topic.kafka)
    await producer.start()
    await producer.send_and_wait(topic.name, b"\x63hello", partition=0)
    await producer.stop()
    async with Places(topic.kafka, topic.name) as places:
        with pytest.raises(WireError, match="version 99"):
            await places.last(0)


@pytest.mark.proof
async def test_a_broker_that_is_away_is_an_error_and_then_no_longer(make_kafka, monkeypatch):
    kafka = make_kafka()
    kafka.create_topic("away", partitions=1)
    async with Topic(kafka, "away") as topic:
        await topic.commit((0, 10))
    async with Places(topic.kafka, "away") as places:
        assert await places.last(0) == at(10)
        monkeypatch.setattr(module, "ANSWER_SECONDS", 1.0)
        kafka.stop()
        with pytest.raises(KafkaTimeoutError, match=r"no answer about away/0 in 1 s"):
            await places.last(0)
        kafka.start()
        monkeypatch.setattr(module, "ANSWER_SECONDS", 30.0)
        assert await places.last(0) == at(10)
