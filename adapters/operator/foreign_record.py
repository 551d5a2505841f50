"""Passes over one record of the changes topic that is none of the publisher's, and keeps a copy of it.

What is passed over cannot hide a loss: workers leave out only what they cannot read, and the chain of positions halts
them again where a change is missing.
"""

from __future__ import annotations

import socket
import time
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import LogError, client_options, explained
from tidelock.adapters.kafka.control import SKIPPED, ControlTopic
from tidelock.adapters.kafka.topics import changes_topic, look
from tidelock.adapters.kafka.wire import WireError, decode
from tidelock.adapters.operator.feed_control import books
from tidelock.engine.protocol.skipped_record import SkippedRecord

READ_MS: Final = 5_000


async def skip(feed: Feed, partition: int, offset: int) -> SkippedRecord:
    """Passes over the record, lets halted groups begin anew, and returns the copy.  Raises LogError, TargetError."""
    value = await _value(feed, partition, offset)
    try:
        decode(value, changes_topic(feed.name))
    except WireError:
        pass
    else:
        raise LogError(
            f"record {offset} of partition {partition} of {changes_topic(feed.name)} can be read: "
            "the publisher wrote it",
            "Nothing was skipped; `tidelock status FEED` names the record that cannot be read, if there is one",
        )
    record = SkippedRecord(partition, offset, value, socket.gethostname(), time.time_ns() // 1000)
    async with ControlTopic(feed) as control:
        await control.write(f"{SKIPPED}{partition}/{offset}", record)
    async with books(feed) as book:
        await book.clear_halts()
    return record


async def _value(feed: Feed, partition: int, offset: int) -> bytes:
    place = TopicPartition(changes_topic(feed.name), partition)
    nothing = LogError(
        f"there is no record {offset} in partition {partition} of {place.topic}",
        "`tidelock status FEED` names partition and offset of the record that cannot be read",
    )
    there = (await look(feed.log_url, feed.name)).changes
    if there is None or partition not in range(there.partitions):
        raise nothing
    consumer = AIOKafkaConsumer(
        **client_options(feed.log_url), enable_auto_commit=False, isolation_level="read_committed"
    )
    try:
        await consumer.start()
        consumer.assign([place])
        begin, end = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
        if not begin[place] <= offset < end[place]:
            raise nothing
        consumer.seek(place, offset)
        found = (await consumer.getmany(place, timeout_ms=READ_MS, max_records=1)).get(place, [])
    except KafkaError as error:
        assert feed.log_url is not None, "client_options has looked"
        raise explained(feed.log_url, error) from None
    finally:
        await consumer.stop()
    if not found or found[0].offset != offset:
        raise nothing
    return found[0].value or b""
