"""`check` of a feed that has published to Kafka: what its groups would read next is looked at, and it says what."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from aiokafka import AIOKafkaProducer

from bench.harness.numbers import numbers
from bench.harness.servers.kafka import Kafka
from tidelock.adapters.checks.log import check_log
from tidelock.adapters.checks.unread import RECORDS
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.loader import read
from tidelock.adapters.kafka.control import PLAN, SKIPPED, ControlTopic, SoleWriter
from tidelock.adapters.kafka.topics import changes_topic, ensure
from tidelock.adapters.kafka.wire import encode
from tidelock.adapters.ports.finding import Finding
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.group_reports import GroupReport
from tidelock.engine.protocol.skipped_record import SkippedRecord

NAMES = numbers()
GROUPS = 2
FOREIGN = b"\x63hello"


def at(offset: int) -> Position:
    return Position("log.000001", offset)


async def published(kafka: Kafka, records: Sequence[Sequence[bytes]]) -> Feed:
    """A feed with a plan of two groups that begin at 0, and these records in their partitions."""
    text = (
        f"feed: unread{next(NAMES)}\nsource: mysql://u:p@h\ntarget: mysql://u:p@h\n"
        f"tables: [{{source: a.*}}]\nlog: {kafka.url()}\n"
    )
    feed = read(text, Path("shop.yaml"))
    await ensure(feed.log_url, feed.name, GROUPS)
    pen = SoleWriter(feed)
    await pen.open()
    await pen.write(PLAN, TablePartitioning(1, at(0), (at(0),) * GROUPS, ()))
    await pen.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    try:
        for partition, values in enumerate(records):
            for value in values:
                await producer.send_and_wait(changes_topic(feed.name), value, partition=partition)
    finally:
        await producer.stop()
    return feed


def written(count: int) -> list[bytes]:
    return [encode(LogBatch(at(number), at(number + 1)), origin="", plan=1) for number in range(count)]


async def told(feed: Feed, group: int, checkpoint: int, *, ago: float = 0.0) -> None:
    """The group's report: it stands at `checkpoint`, where the source was `ago` seconds before now."""
    end_us = int((time.time() - ago) * 1e6)
    async with ControlTopic(feed) as control:
        report = GroupReport(group, 1, "w", "running", at(checkpoint), at(checkpoint), end_us=end_us)
        await control.write(f"group/{group}", report)


async def of_kind(feed: Feed, kind: str) -> list[Finding]:
    return [finding for finding in await check_log(feed) if finding.kind == kind]


async def test_a_foreign_record_is_told_where_its_group_would_read_next(kafka: Kafka) -> None:
    feed = await published(kafka, [written(3), [*written(2), FOREIGN]])
    (finding,) = await of_kind(feed, "log-foreign")
    assert finding.level == "error" and "record 2 of partition 1" in finding.message
    assert "`tidelock log skip FEED --partition 1 --offset 2`" in finding.hint
    async with ControlTopic(feed) as control:
        await control.write(f"{SKIPPED}1/2", SkippedRecord(1, 2, FOREIGN))
    assert not await of_kind(feed, "log-foreign")


async def test_what_was_looked_at_is_said(kafka: Kafka) -> None:
    """The look is bounded, and begins where each group stands: what is before it was read."""
    feed = await published(kafka, [written(2), written(RECORDS + 5)])
    await told(feed, 0, 2)
    (finding,) = await of_kind(feed, "log-unread")
    assert finding.level == "note"
    assert "partition 0: nothing unread" in finding.message
    assert f"partition 1: 0 to {RECORDS - 1}" in finding.message
    await told(feed, 1, RECORDS)
    (finding,) = await of_kind(feed, "log-unread")
    assert f"partition 1: {RECORDS} to {RECORDS + 4}" in finding.message


async def test_a_group_that_has_stood_still_for_much_of_the_retention(kafka: Kafka) -> None:
    feed = await published(kafka, [written(1), written(1)])
    await told(feed, 0, 1)
    assert not await of_kind(feed, "log-retention")
    await told(feed, 1, 0, ago=5 * 86_400)
    (finding,) = await of_kind(feed, "log-retention")
    assert finding.level == "warning" and "group 1 stands where the source was 120.0 h ago" in finding.message
