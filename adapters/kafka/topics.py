"""Names, checks and makes the two topics of a feed.

`changes` holds the log for a week, a partition for each group of tables.  `control` is one partition that keeps the
newest value of each key; its segments are small so that reading all of it stays quick.  Only missing topics are made:
settings that someone has changed are left as they are (`check` reports them).

All topics are listed, and never only ours asked for by name: many brokers make a topic that they are asked for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidPartitionsError,
    KafkaError,
    TopicAlreadyExistsError,
    for_code,
)

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import administrator
from tidelock.adapters.kafka.topic_ids import ids_of

MESSAGE_BYTES: Final = 16 << 20
RETENTION_MS: Final = 7 * 86_400_000
CHANGES: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(RETENTION_MS),
    "max.message.bytes": str(MESSAGE_BYTES),
}
CONTROL: Final = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(MESSAGE_BYTES),
    "segment.bytes": str(1 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
TRANSACTIONS: Final = "__transaction_state"
REPLICAS_WANTED: Final = 3  # where the broker does not tell its default


def changes_topic(feed: str) -> str:
    """Returns the name of the feed's changes topic."""
    return f"tidelock.{feed}.changes"


def control_topic(feed: str) -> str:
    """Returns the name of the feed's control topic."""
    return f"tidelock.{feed}.control"


class Topic(msgspec.Struct, frozen=True):
    """A topic.  `replicas`: of the partition with the fewest.  `settings`: those in force, the broker's defaults
    included; none where we may not read them.  `id`: of this topic alone, '' where the broker has none.
    """

    name: str
    partitions: int
    replicas: int
    settings: dict[str, str]
    id: str = ""


class Topics(msgspec.Struct, frozen=True):
    """The topics of a feed as they are, None where there is none.

    `brokers`: how many there are.  `broker_settings`: those of one broker, none where we may not read them.
    `transactions`: whether a transaction has been run here before.
    """

    changes: Topic | None
    control: Topic | None
    brokers: int
    broker_settings: dict[str, str]
    transactions: bool

    @property
    def default_replicas(self) -> int:
        """The number of replicas that a new topic gets."""
        return int(self.broker_settings.get("default.replication.factor", min(self.brokers, REPLICAS_WANTED)))


async def look(endpoint: Endpoint | None, feed: str) -> Topics:
    """Reads what exists; writes nothing.  Raises LogError."""
    async with administrator(endpoint) as admin:
        return await _look(admin, feed)


async def ensure(endpoint: Endpoint | None, feed: str, partitions: int) -> None:
    """Makes what is missing, so that `changes` has at least so many partitions.  Raises LogError."""
    async with administrator(endpoint) as admin:
        there = await _look(admin, feed)
        wanted = [topic for topic in _wanted(feed, partitions, there) if not _exists(topic, there)]
        await create(admin, wanted)
        if there.changes is not None and there.changes.partitions < partitions:
            await _grow(admin, there.changes.name, partitions)


async def ensure_control(endpoint: Endpoint | None, feed: str) -> Topics:
    """Makes the control topic, if it is missing, and returns what there was.  Raises LogError."""
    async with administrator(endpoint) as admin:
        there = await _look(admin, feed)
        if there.control is None:
            await create(admin, [topic for topic in _wanted(feed, 1, there) if topic.name == control_topic(feed)])
        return there


async def refused(endpoint: Endpoint | None, feed: str, partitions: int) -> dict[str, str]:
    """Returns missing topics that could not be made, with the broker's reason; writes nothing.  Raises LogError."""
    async with administrator(endpoint) as admin:
        there = await _look(admin, feed)
        problems = {}
        for topic in _wanted(feed, partitions, there):
            if not _exists(topic, there):
                try:
                    await create(admin, [topic], only_try=True)
                except KafkaError as error:
                    problems[topic.name] = str(error)
        return problems


async def create(admin: AIOKafkaAdminClient, topics: list[NewTopic], only_try: bool = False) -> None:
    """Makes a topic; one that exists already is left as it is.  Raises KafkaError."""
    if not topics:
        return
    answer = await admin.create_topics(topics, validate_only=only_try)
    for topic, code, message in answer.topic_errors:
        kind = for_code(code)
        if code and kind is not TopicAlreadyExistsError:
            raise kind(f"{topic} cannot be created: {message or kind.__name__}")


def _wanted(feed: str, partitions: int, there: Topics) -> list[NewTopic]:
    replicas = there.default_replicas
    return [
        NewTopic(changes_topic(feed), partitions, replicas, topic_configs=CHANGES),
        NewTopic(control_topic(feed), 1, replicas, topic_configs=CONTROL),
    ]


def _exists(topic: NewTopic, there: Topics) -> bool:
    return any(found is not None and found.name == topic.name for found in (there.changes, there.control))


async def _grow(admin: AIOKafkaAdminClient, topic: str, partitions: int) -> None:
    try:
        await admin.create_partitions({topic: NewPartitions(partitions)})
    except InvalidPartitionsError:  # another has just done it
        (found,) = await admin.describe_topics([topic])
        if len(found["partitions"]) < partitions:
            raise


async def _look(admin: AIOKafkaAdminClient, feed: str) -> Topics:
    brokers = (await admin.describe_cluster())["brokers"]
    found = {topic["topic"]: topic for topic in await admin.describe_topics()}
    names = [name for name in (changes_topic(feed), control_topic(feed)) if name in found]
    ids = await ids_of(admin, names)
    changes, control = [
        await _topic(admin, found.get(name), ids.get(name, "")) for name in (changes_topic(feed), control_topic(feed))
    ]
    settings = await _settings(admin, ConfigResourceType.BROKER, str(brokers[0]["node_id"]))
    return Topics(changes, control, len(brokers), settings, TRANSACTIONS in found)


async def _topic(admin: AIOKafkaAdminClient, found: dict[str, Any] | None, topic_id: str) -> Topic | None:
    if found is None:
        return None
    if found["error_code"]:
        raise for_code(found["error_code"])(found["topic"])
    return Topic(
        name=found["topic"],
        partitions=len(found["partitions"]),
        replicas=min((len(partition["replicas"]) for partition in found["partitions"]), default=0),
        settings=await _settings(admin, ConfigResourceType.TOPIC, found["topic"]),
        id=topic_id,
    )


async def _settings(admin: AIOKafkaAdminClient, kind: ConfigResourceType, name: str) -> dict[str, str]:
    """Reads settings; none where we may not."""
    (answer,) = await admin.describe_configs([ConfigResource(kind, name)])
    return {entry[0]: entry[1] for resource in answer.resources for entry in resource[4] if entry[1] is not None}
