"""Faust's consumer as `adapters.workers.consumer` sets it: committed records only; every place can be gone back to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import faust
import pytest
from aiokafka import AIOKafkaProducer
from faust.types import TP

from bench.harness.numbers import numbers
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.workers.consumer import CommittedTransport, PartitionFetcher

Seen = list[tuple[int, bytes]]
_numbers = numbers()


@asynccontextmanager
async def consuming(kafka: Kafka, topic: str, folder: Path) -> AsyncIterator[tuple[faust.App, Seen]]:
    app = faust.App(
        f"consumer-{topic}",
        broker=f"kafka://{kafka.bootstrap}",
        autodiscover=False,
        consumer_auto_offset_reset="earliest",
        stream_wait_empty=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        datadir=str(folder),
    )
    app.transport = CommittedTransport(app.conf.broker_consumer, app, app.loop)
    seen: Seen = []

    async def take(stream: faust.StreamT) -> None:
        async for event in stream.noack().events():
            seen.append((event.message.offset, event.message.value))

    app.agent(app.topic(topic, value_serializer="raw", key_serializer="raw"))(take)
    await app.start()
    try:
        yield app, seen
    finally:
        await app.stop()


@asynccontextmanager
async def producing(kafka: Kafka) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"test{next(_numbers)}")
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"consumed{next(_numbers)}"
    kafka.create_topic(name)
    return name


async def send(producer: AIOKafkaProducer, topic: str, *values: bytes) -> None:
    async with producer.transaction():
        for value in values:
            await producer.send(topic, value, partition=0)


async def test_what_was_not_committed_is_never_seen(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    async with producing(kafka) as producer, consuming(kafka, topic, tmp_path) as (_, seen):
        await send(producer, topic, b"one")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"undone", partition=0)
        await producer.abort_transaction()
        await send(producer, topic, b"two")
        await until(lambda: len(seen) >= 2)
        assert [value for _, value in seen] == [b"one", b"two"]


async def test_every_place_can_be_gone_back_to(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    async with producing(kafka) as producer, consuming(kafka, topic, tmp_path) as (app, seen):
        await send(producer, topic, *(b"%d" % i for i in range(20)))
        await until(lambda: len(seen) >= 20)
        await PartitionFetcher(app, TP(topic, 0)).seek(seen[5][0])
        await until(lambda: len(seen) >= 35)
        assert seen[20:35] == seen[5:20]


async def test_a_paused_partition_gives_nothing_until_it_is_resumed(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    async with producing(kafka) as producer, consuming(kafka, topic, tmp_path) as (app, seen):
        await send(producer, topic, b"before")
        await until(lambda: bool(seen))
        fetcher = PartitionFetcher(app, TP(topic, 0))
        fetcher.pause()
        await asyncio.sleep(2.0)  # a fetch that was under way when the pause was asked for has ended by now
        before = len(seen)
        await send(producer, topic, b"while paused")
        await asyncio.sleep(1.0)
        assert len(seen) == before
        fetcher.resume()
        await until(lambda: len(seen) > before)


async def test_a_seek_beside_records_on_their_way_is_not_undone(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """Some hundred records are fetched and wait to be handed over when a seek comes.

    Faust would then leave out all that was sought, up to where those end.
    """
    async with producing(kafka) as producer, consuming(kafka, topic, tmp_path) as (app, seen):
        await send(producer, topic, *(b"%d" % i for i in range(5000)))
        fetcher = PartitionFetcher(app, TP(topic, 0))
        for _ in range(10):
            begun = len(seen)
            await until(lambda begun=begun: len(seen) > begun + 100)  # type: ignore[misc]
            await fetcher.seek(seen[0][0])
            begun = len(seen)
            await until(lambda begun=begun: seen[0] in seen[begun:])  # type: ignore[misc]
            places = [offset for offset, _ in seen[begun + seen[begun:].index(seen[0]) :]]
            assert places == list(range(places[0], places[0] + len(places)))
