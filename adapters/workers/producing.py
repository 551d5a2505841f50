"""The publisher's producer: one transaction for each flush, fenced by its id, and what its errors mean.

aiokafka retries for ever what may be retried, so a broker that is away for a moment only takes time.  An answer that
was lost is asked for again under the same producer id and epoch, and Kafka knows whether it has committed.  After
`ANSWER_SECONDS` the operator should hear of it, so then the process ends and the next one reports what it meets.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidProducerEpoch,
    InvalidTimestampError,
    KafkaError,
    ProducerFenced,
    UnknownError,
)

from tidelock.adapters.ports.capture_messages import LOG, Failed
from tidelock.adapters.workers.group_commit import Flush

MESSAGE_BYTES: Final = 1_048_588  # Kafka's default for max.message.bytes
ANSWER_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.05
_BATCH_BYTES: Final = 1 << 20
_ROOM: Final = 1 << 10
# Longer than any pause of this process that should be forgiven; the broker's bound is 15 minutes by default.  A
# transaction left open holds nobody up meanwhile: whoever publishes next ends it first.
TRANSACTION_MS: Final = 600_000


_AGAIN: Final = "It is started again and goes on from the last committed record; if that repeats, see the broker's log"
_REFUSALS: Final = {
    InvalidTimestampError: "Set this machine's clock, whose time the records have; if it is right, take "
    "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the changes topic away "
    "(`kafka-configs.sh --alter --delete-config`)",
    UnknownError: "See what `tidelock check FEED` says of the topics' settings (records of ours do not go into a topic "
    "that is compacted), and the broker's log",
}
"""Advice by errors whose own words do not say what helps."""


def producer_of(kafka: dict[str, Any], transactional_id: str, limit: int) -> AIOKafkaProducer:
    """Returns the producer.  `limit`: max.message.bytes of the topic, which holds for a request's part of one
    partition.
    """
    return AIOKafkaProducer(
        **kafka,
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_MS,
        max_batch_size=min(_BATCH_BYTES, limit - _ROOM),
        max_request_size=limit + _ROOM,
    )


async def commit(producer: AIOKafkaProducer, topic: str, flush: Flush) -> None:
    """Commits all of the flush, or nothing.

    Raises KafkaError, TimeoutError: then nobody knows which, and the producer is of no use any more.
    """
    async with asyncio.timeout(ANSWER_SECONDS):
        await producer.begin_transaction()
        sent = [await producer.send(topic, value, partition=partition) for partition, value in flush.records]
        await asyncio.gather(*sent)  # aiokafka would commit without those that the broker refused
        await producer.commit_transaction()


async def sees(producer: AIOKafkaProducer, topic: str, partitions: int) -> None:
    """Waits until the producer knows so many partitions of the topic.  Raises KafkaError, TimeoutError."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while len(await producer.partitions_for(topic)) < partitions:
            await producer.client.force_metadata_update()
            await asyncio.sleep(_AGAIN_SECONDS)  # the brokers tell each other


async def message_limit(kafka: dict[str, Any], topic: str) -> int:
    """Returns the topic's max.message.bytes; Kafka's default where we may not ask."""
    admin = AIOKafkaAdminClient(**kafka)
    try:
        await admin.start()
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        settings = {entry[0]: entry[1] for resource in answer.resources for entry in resource[4]}
        return int(settings.get("max.message.bytes", MESSAGE_BYTES))
    finally:
        await admin.close()


def explained(error: KafkaError | TimeoutError) -> Failed:
    """Returns why publishing ended.  A fenced producer is not to be tried again.  What helps against a refusal is in
    the message too, as that is what an operator sees meanwhile."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ProducerFenced | InvalidProducerEpoch):
            return Failed(
                "Fenced",
                "another worker publishes this feed now; this one's open transaction was undone",
                "Nothing to do if the feed runs elsewhere; if it does not, this process stood still for longer than "
                f"{TRANSACTION_MS // 60_000} minutes: run the feed again",
                retryable=False,
            )
        seen = seen.__cause__
    said = f"Kafka failed the publisher: {str(error) or f'no answer in {ANSWER_SECONDS:.0f} s'}"
    helps = next((words for kind, words in _REFUSALS.items() if isinstance(error, kind)), "")
    told = f"{said}. {helps}" if helps else said
    return Failed(type(error).__name__, told, helps or _AGAIN, retryable=True, at=LOG)
