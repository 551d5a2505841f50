"""Begins the log in the changes topic anew, where what was in it is lost: the source is published again from the least
checkpoint, and each group goes on from its own.

The order is what makes it exact:

1. The publisher's id is taken, so nobody writes to the topic any more.  Where each partition ends now, the new log
   begins (`bases`): what is before, of whomever it is, nobody looks at again.
2. The log is told, not open yet, and seen in the topic by ourselves.  An owner reads the control topic once it has
   taken its group over at the target, so whoever takes one over from now on waits.
3. Each group is taken over at the target.  Every owner before that, who may still apply the log before, is fenced; its
   checkpoint is what we read, and cannot move until the log is open.
4. The log is told to be open, with those places.  The publisher begins at the least of them and ends a record of every
   partition at each (`engine.capture.chunk_cutter`).  A group looks for the record that follows its checkpoint, as
   ever, and there is one.

A coordinator that comes anew after 2 goes on with 3: it finds the log not open.  After 4 the cuts that are still to
come are those of `places` behind the log's end, whoever publishes.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

from aiokafka import AIOKafkaProducer

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import topics
from tidelock.adapters.kafka.connection import client_options, stopped
from tidelock.adapters.kafka.control import LOG, ControlTopic, SoleWriter
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import WireError
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.published_log import PublishedLog


def publisher_id(feed: Feed) -> str:
    """Returns the transactional id that all publishers of the feed have: it fences."""
    return f"tidelock.{feed.name}.publisher"


def reader_name(feed: Feed) -> str:
    """Returns the name that readers of the source's log for publishers of this feed have, with this log and target.

    Whoever has the publisher's id knows that all others of the name are over.
    """
    assert feed.log_url is not None, "the feed's log is in Kafka"
    same = (feed.name, feed.schema, str(feed.target_url), *sorted(feed.log_url.servers))
    return f"tidelock publisher {hashlib.blake2b(' '.join(same).encode(), digest_size=8).hexdigest()}"


async def shut_out(kafka: dict[str, Any], transactional_id: str) -> None:
    """Takes the publisher's id, which ends any older publisher and its open transaction.  Raises KafkaError."""
    producer = AIOKafkaProducer(**kafka, transactional_id=transactional_id)
    try:
        await producer.start()
    finally:
        await stopped(producer)


async def first_log(feed: Feed, pen: SoleWriter, before: PublishedLog | None = None) -> PublishedLog:
    """Tells, and returns, that the topic holds the log from where it ends now: of what is in it no plan says in which
    group a table's rows are.  Raises KafkaError, LogError."""
    kafka = client_options(feed.log_url)
    await shut_out(kafka, publisher_id(feed))
    there = (await topics.look(feed.log_url, feed.name)).changes
    async with Places(kafka, topics.changes_topic(feed.name)) as places:
        bases = [await places.end(one) for one in range(there.partitions if there is not None else 0)]
    log = PublishedLog(
        before.number if before is not None else 1,
        there.id if there is not None else "",
        tuple(bases) if any(bases) else (),
    )
    await pen.write(LOG, log)
    return log


async def log_as_it_is(feed: Feed, pen: SoleWriter) -> PublishedLog:
    """Tells, and returns, that all of the topic is the log, of which nobody has told before.  Raises KafkaError,
    LogError."""
    there = (await topics.look(feed.log_url, feed.name)).changes
    log = PublishedLog(1, there.id if there is not None else "")
    await pen.write(LOG, log)
    return log


async def new_log(
    feed: Feed, mapping: Mapping, plan: TablePartitioning, pen: SoleWriter, control: ControlTopic
) -> PublishedLog:
    """Begins the log anew in the topic that is there, and returns it.  Raises KafkaError, LogError, TargetError."""
    kafka = client_options(feed.log_url)
    await shut_out(kafka, publisher_id(feed))
    there = (await topics.look(feed.log_url, feed.name)).changes
    before = control.seen.log
    async with Places(kafka, topics.changes_topic(feed.name), control.seen.skipped, control.seen.bases) as places:
        bases = tuple([await places.end(partition) for partition in range(plan.partitions)])
        ended: Position | None = None
        with contextlib.suppress(WireError):
            ended = await places.last(0)
    number = before.number + 1 if before is not None else 1
    log = PublishedLog(number, there.id if there is not None else "", bases, False, (ended,) if ended else ())
    await pen.write(LOG, log)
    return await open_log(feed, mapping, plan, pen, control, log)


async def open_log(
    feed: Feed,
    mapping: Mapping,
    plan: TablePartitioning,
    pen: SoleWriter,
    control: ControlTopic,
    log: PublishedLog,
) -> PublishedLog:
    """Stops the groups and opens the log, and returns it.  Raises KafkaError, TargetError."""
    await control.log_numbered(log.number)
    stood = [await fenced(feed, mapping, group, plan.since[group]) for group in range(plan.partitions)]
    opened = PublishedLog(log.number, log.topic_id, log.bases, True, (*stood, *log.places))
    await pen.write(LOG, opened)
    return opened


async def fenced(feed: Feed, mapping: Mapping, group: int, since: Position) -> Position:
    """Takes the group from its owner, and returns its checkpoint.  Raises TargetError."""
    sink = make_sink(feed, mapping, group=group)
    try:
        return (await sink.take_over([], since)).checkpoint
    finally:
        await sink.close()
