"""The publisher process against a real source and a real broker: the log is exact whatever happens to either."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewPartitions
from aiokafka.errors import ProducerFenced

from bench.harness.numbers import numbers
from bench.harness.servers import MariaDb
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.config.url import parse
from tidelock.adapters.kafka.connection import client_options
from tidelock.adapters.kafka.wire import decode, encode
from tidelock.adapters.ports.capture_messages import CaptureOrder, Failed
from tidelock.adapters.workers import producing, publisher_process
from tidelock.adapters.workers.log_end import Uneven
from tidelock.adapters.workers.publisher import PublisherProcess
from tidelock.adapters.workers.publisher_messages import AtStatement, Published, PublishOrder
from tidelock.engine.capture.mapping import Rule
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning

DEADLINE_SECONDS = 60.0
TABLES = ("account", "item", "parent")
HOMES = (0, 1, 0)
_topics = numbers()
_server_ids = itertools.count(7100)


class Feed:
    """Three tables at a source of which the first and the last share a partition, and what it takes to publish them."""

    def __init__(self, source: MariaDb, kafka: Kafka, **topic: Any) -> None:
        self.source, self.broker = source, kafka
        self.schema = source.database("log")
        self.topic = f"publisher-{next(_topics)}"
        kafka.create_topic(self.topic, partitions=2, **topic)
        self.run(*(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, note LONGTEXT)" for name in TABLES))
        self.start = self.here()
        self.ids = itertools.count(1)
        self.written: dict[str, list[int]] = {name: [] for name in TABLES}

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.source.execute(statement, database=self.schema)

    def here(self) -> Position:
        file, offset, *_ = self.source.execute("SHOW MASTER STATUS")[0]
        return Position(file, int(offset))

    def insert(self, table: str, rows: int = 1) -> None:
        """In one transaction."""
        ids = list(itertools.islice(self.ids, rows))
        self.run(f"INSERT INTO {table} VALUES {','.join(f'({id_}, REPEAT({id_ % 7}, 50))' for id_ in ids)}")
        self.written[table] += ids

    def plan(self, partitions: int = 2, version: int = 1, names: tuple[str, ...] = TABLES) -> TablePartitioning:
        tables = tuple((TableName(self.schema, name), home) for name, home in zip(names, HOMES, strict=False))
        return TablePartitioning(version, self.start, (self.start,) * partitions, tables)

    def order(self, plan: TablePartitioning | None = None) -> PublishOrder:
        """Each with an id of its own as a replica: the source ends the older reader of two with the same."""
        capture = CaptureOrder(
            source=parse(self.source.url(), Path("/")),
            server_id=next(_server_ids),
            rules=(Rule(source=f"{self.schema}.*", target=f"{self.schema}.*"),),
            own="tidelock",
            node="elsewhere:1",
            start=self.start,
        )
        log = parse(self.broker.url(), Path("/"))
        return PublishOrder(capture, log, self.topic, f"tidelock.{self.topic}", plan or self.plan())

    async def log(self, partition: int) -> list[LogBatch]:
        """All committed records."""
        tp = TopicPartition(self.topic, partition)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([tp])
            end = (await consumer.end_offsets([tp]))[tp]
            found = []
            async with asyncio.timeout(DEADLINE_SECONDS):
                while await consumer.position(tp) < end:
                    messages = (await consumer.getmany(tp, timeout_ms=50)).get(tp, ())
                    found += [decode(message.value).batch for message in messages]
            return found
        finally:
            await consumer.stop()

    async def is_exact(self, partitions: int = 2) -> None:
        """Every partition is one chain to one end, and each written row is in it once, in order, in its partition."""
        ends, ids = [], {name: [] for name in TABLES}
        for partition in range(partitions):
            log = await self.log(partition)
            assert log[0].prev == self.start
            for before, after in itertools.pairwise(log):
                assert after.prev == before.last
            ends.append(log[-1].last)
            for batch in log:
                for row in batch.rows:
                    name = batch.shapes[row.table].name.table
                    assert HOMES[TABLES.index(name)] == partition
                    ids[name].append(row.after[0])
        assert ids == self.written
        assert len(set(ends)) == 1


class Publishing:
    """A publisher process, and what it has told so far."""

    def __init__(self, process: PublisherProcess) -> None:
        self.process = process
        self.position = Position("", 0)
        self.rows = 0

    async def told(self) -> Published | AtStatement | Failed:
        async with asyncio.timeout(DEADLINE_SECONDS):
            said = await self.process.next()
        if isinstance(said, Published):
            self.position = said.position
            self.rows += sum(said.rows.values())
        return said

    async def reaches(self, position: Position) -> Failed | None:
        """Until the log does; or why it never will."""
        while self.position.order < position.order:
            said = await self.told()
            if isinstance(said, Failed):
                return said
            assert isinstance(said, Published), said
        return None

    async def fails(self) -> Failed:
        while not isinstance(said := await self.told(), Failed):
            pass
        return said


@pytest.fixture
async def publish() -> AsyncIterator[Callable[..., Any]]:
    async with contextlib.AsyncExitStack() as stack:

        async def begin(feed: Feed, plan: TablePartitioning | None = None) -> Publishing:
            order = feed.order(plan)
            process = PublisherProcess(order.capture.source)
            stack.push_async_callback(process.stop)
            await process.begin(order)
            return Publishing(process)

        yield begin


@pytest.fixture
def feed(mariadb: MariaDb, kafka: Kafka) -> Feed:
    return Feed(mariadb, kafka)


async def test_rows_go_to_the_partition_of_their_table(feed, publish):
    publisher = await publish(feed)
    for i in range(30):
        feed.insert(TABLES[i % 3], rows=1 + i % 4)
    feed.insert("account", rows=3000)  # a transaction in parts
    feed.insert("item")
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()
    items = [transaction for batch in await feed.log(1) for transaction in batch.transactions]
    assert len(items) == 10 + 1 + 1  # and the end of the one in parts
    assert all(transaction.complete for transaction in items)
    assert sum(map(len, feed.written.values())) == publisher.rows


async def test_a_publisher_that_is_killed_at_any_moment_leaves_an_exact_log(feed, publish):
    chance = random.Random(5)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            feed.insert(chance.choice(TABLES), rows=chance.choice((1, 1, 5, 700)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            publisher = await publish(feed)
            await publisher.told()
            await asyncio.sleep(random.random() * 0.4)  # any moment
            os.kill(publisher.process.pid, signal.SIGKILL)
            assert (await publisher.fails()).retryable
    finally:
        stop.set()
        await asyncio.to_thread(writer.join)
    publisher = await publish(feed)
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()


async def test_a_zombie_is_fenced(feed, publish):
    zombie = await publish(feed)
    feed.insert("account")
    assert await zombie.reaches(feed.here()) is None
    feed.insert("account", rows=2000)
    os.kill(zombie.process.pid, signal.SIGSTOP)
    newer = await publish(feed)
    feed.insert("item", rows=20)
    assert await newer.reaches(feed.here()) is None
    os.kill(zombie.process.pid, signal.SIGCONT)
    feed.insert("parent", rows=20)
    failed = await zombie.fails()
    assert (failed.kind, failed.retryable) == ("Fenced", False)
    assert "another worker publishes this feed now" in failed.message
    assert await newer.reaches(feed.here()) is None
    await feed.is_exact()


async def test_the_end_is_read_only_once_nobody_else_can_commit(feed, monkeypatch):
    """Else an older publisher's commit, already under way, would come behind the end, and its rows twice."""
    order = feed.order()
    older = producing.producer_of(client_options(order.log), order.transactional_id, 1 << 20)
    await older.start()
    await older.begin_transaction()
    await older.send_and_wait(feed.topic, b"under way", partition=0)

    async def read_end(*_: object) -> None:
        with pytest.raises(ProducerFenced):
            await older.commit_transaction()
        raise Uneven([])

    monkeypatch.setattr(publisher_process, "read_end", read_end)
    try:
        assert (await publisher_process.publish(order, None)).kind == "Uneven"
    finally:
        await older.stop()


async def test_partitions_that_end_apart_are_refused(feed, publish):
    feed.insert("account")
    publisher = await publish(feed)
    assert await publisher.reaches(feed.here()) is None
    await publisher.process.stop()
    other = AIOKafkaProducer(bootstrap_servers=feed.broker.bootstrap)
    await other.start()
    last = (await feed.log(1))[-1].last
    away = encode(LogBatch(last, msgspec.structs.replace(last, offset=last.offset + 1)), origin="", plan=1)
    await other.send_and_wait(feed.topic, away, partition=1)
    await other.stop()
    failed = await (await publish(feed)).fails()
    assert (failed.kind, failed.retryable) == ("Uneven", False)
    assert f"partition 0 at {last}, partition 1 at" in failed.message


@pytest.mark.proof
async def test_a_broker_that_dies_under_way_loses_and_doubles_nothing(mariadb, make_kafka, publish):
    kafka = make_kafka()
    feed = Feed(mariadb, kafka)
    publisher = await publish(feed)
    for _ in range(40):
        feed.insert("account", rows=100)
        feed.insert("item", rows=3)
    await publisher.told()
    kafka.kill()
    feed.insert("parent", rows=5)
    await asyncio.to_thread(kafka.start)
    while (failed := await publisher.reaches(feed.here())) is not None:
        assert failed.retryable, failed
        publisher = await publish(feed)
    await feed.is_exact()


async def test_a_statement_waits_for_leave_whoever_publishes(feed, publish):
    publisher = await publish(feed)
    feed.insert("account", rows=3)
    feed.run("ALTER TABLE account ADD COLUMN more INT")
    statement_end = feed.here()
    feed.run("ALTER TABLE account DROP COLUMN more")
    feed.insert("item", rows=2)
    while not isinstance(at := await publisher.told(), AtStatement):
        assert isinstance(at, Published)
    assert (at.position.offset, at.ddl.statement) == (statement_end.offset, "ALTER TABLE account ADD COLUMN more INT")
    await publisher.process.stop()

    publisher = await publish(feed)  # finds that the statement still waits
    assert isinstance(await publisher.told(), Published)
    again = await publisher.told()
    assert (again.position, again.ddl) == (at.position, at.ddl)
    for partition in (0, 1):
        last = (await feed.log(partition))[-1]
        assert (last.ddl, last.last) == (at.ddl, at.position)

    plan = feed.plan(version=2)
    await publisher.process.go_on(plan)
    while not isinstance(at := await publisher.told(), AtStatement):
        assert isinstance(at, Published)
    assert "DROP COLUMN" in at.ddl.statement
    feed.broker.admin(lambda admin: admin.create_partitions({feed.topic: NewPartitions(3)}))
    wider = feed.plan(partitions=3, version=3)
    widened = TablePartitioning(3, at.position, (feed.start, feed.start, at.position), wider.tables)
    await publisher.process.go_on(widened)
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()
    newcomer = await feed.log(2)
    assert newcomer[0].prev == at.position
    assert newcomer[-1].last == (await feed.log(0))[-1].last


async def test_an_idle_source_is_told_of_in_every_partition(feed, publish):
    feed.insert("account")
    publisher = await publish(feed)
    assert await publisher.reaches(feed.here()) is None
    for _ in range(3):
        assert isinstance(await publisher.told(), Published)
    for partition in (0, 1):
        beats = [batch for batch in await feed.log(partition) if batch.prev == batch.last]
        assert len(beats) >= 2
        assert all(one.end_us < other.end_us for one, other in itertools.pairwise(beats))


async def test_a_row_that_the_topic_does_not_take_is_named(mariadb, kafka, publish):
    feed = Feed(mariadb, kafka, max_message_bytes=200_000)
    feed.insert("item", rows=2)
    small = feed.here()
    publisher = await publish(feed)
    assert await publisher.reaches(small) is None
    feed.run("INSERT INTO account VALUES (4711, REPEAT('x', 300000))")
    failed = await publisher.fails()
    assert (failed.kind, failed.retryable) == ("TooLarge", False)
    assert f"the row of {feed.schema}.account with key id=4711" in failed.message
    assert "max.message.bytes" in failed.message and "max.message.bytes=16777216" in failed.hint
    assert {(await feed.log(partition))[-1].last.offset for partition in (0, 1)} == {small.offset}


@pytest.mark.parametrize(
    ("setting", "value", "helps"),
    [("message_timestamp_before_max_ms", "1", "machine's clock"), ("cleanup_policy", "compact", "is compacted")],
)
async def test_a_setting_that_refuses_records_is_told(mariadb, kafka, publish, setting, value, helps):
    feed = Feed(mariadb, kafka)
    publisher = await publish(feed)
    feed.insert("item")
    assert await publisher.reaches(feed.here()) is None
    kafka.set_topic(feed.topic, **{setting: value})
    feed.insert("item")
    failed = await publisher.fails()
    assert failed.retryable and helps in failed.hint, failed
    kafka.set_topic(feed.topic)  # the broker's defaults
    again = await publish(feed)
    assert await again.reaches(feed.here()) is None
    await feed.is_exact()


async def test_records_stay_below_the_limit_where_rows_allow(mariadb, kafka, publish):
    feed = Feed(mariadb, kafka, max_message_bytes=1_048_588)
    publisher = await publish(feed)
    feed.run("INSERT INTO account SELECT seq, REPEAT('y', 20000) FROM seq_1_to_300")
    feed.written["account"] += range(1, 301)
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()


@pytest.mark.proof
async def test_a_row_of_many_megabytes_passes_where_the_topic_takes_it(feed, publish):
    publisher = await publish(feed)
    feed.run(f"INSERT INTO account VALUES ({next(feed.ids)}, REPEAT('x', 7000000))")
    feed.run("UPDATE account SET note = CONCAT('y', note)")
    feed.written["account"] += [1, 1]
    assert await publisher.reaches(feed.here()) is None
    await publisher.process.stop()
    publisher = await publish(feed)  # finds its place behind it
    feed.insert("item")
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()


async def test_a_table_without_a_group_is_named(feed, publish):
    publisher = await publish(feed, feed.plan(names=("account", "item")))
    feed.insert("parent")
    failed = await publisher.fails()
    assert (failed.kind, failed.retryable) == ("NoGroup", False)
    assert f"{feed.schema}.parent" in failed.message


async def test_a_source_that_is_away_can_be_tried_again(kafka, make_mariadb, publish):
    source = make_mariadb()
    feed = Feed(source, kafka)
    publisher = await publish(feed)
    feed.insert("account", rows=5)
    assert await publisher.reaches(feed.here()) is None
    source.kill()
    assert (await publisher.fails()).retryable
    source.start()
    feed.insert("item", rows=5)
    publisher = await publish(feed)
    assert await publisher.reaches(feed.here()) is None
    await feed.is_exact()


@pytest.mark.proof
async def test_a_broker_that_is_not_there_can_be_tried_again(mariadb, make_kafka, publish):
    kafka = make_kafka()
    feed = Feed(mariadb, kafka)
    kafka.stop()
    failed = await (await publish(feed)).fails()
    assert failed.retryable
    assert f"{kafka.host}:{kafka.port}" in failed.message and "cannot be reached" in failed.message
