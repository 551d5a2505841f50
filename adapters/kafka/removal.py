"""Removes a feed's topics, for a log that is to begin anew."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import LogError, administrator
from tidelock.adapters.kafka.topics import changes_topic, control_topic

POLL_SECONDS: Final = 0.3
REMOVED_SECONDS: Final = 20.0


async def remove(endpoint: Endpoint | None, feed: str) -> None:
    """Removes both topics, and returns once no broker lists them.  Raises LogError."""
    names = [changes_topic(feed), control_topic(feed)]
    async with administrator(endpoint) as admin:
        answer = await admin.delete_topics(names)
        for topic, code in answer.topic_error_codes:
            kind: type[KafkaError] = for_code(code)
            if code and kind is not UnknownTopicOrPartitionError:
                raise LogError(
                    f"the topic {topic} cannot be removed: {kind.__name__}",
                    "The feed's account needs the right to delete it (ACL: Delete), and the broker delete.topic.enable",
                )
        await _gone(admin, names)


async def _gone(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    end = time.monotonic() + REMOVED_SECONDS
    while left := sorted(set(names) & {topic["topic"] for topic in await admin.describe_topics()}):
        if time.monotonic() > end:
            raise LogError(
                f"{', '.join(left)} is still there {REMOVED_SECONDS:.0f} s after it was removed",
                "Some client makes it anew (auto.create.topics.enable): end it, then try again",
            )
        await asyncio.sleep(POLL_SECONDS)
