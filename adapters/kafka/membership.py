"""Lists the workers of a feed, as Kafka knows them: the members of its consumer group."""

from __future__ import annotations

from aiokafka.errors import for_code

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.kafka.connection import administrator


def consumer_group(feed: str) -> str:
    """Returns the name of the group of the feed's workers."""
    return f"tidelock.{feed}"


async def members(endpoint: Endpoint | None, feed: str) -> list[str]:
    """Lists the hosts of the feed's workers, one for each that Kafka takes for alive.  Raises LogError."""
    async with administrator(endpoint) as admin:
        answers = await admin.describe_consumer_groups([consumer_group(feed)])
        groups = [group for answer in answers for group in answer.groups]
        for group in groups:
            if group[0]:
                raise for_code(group[0])(f"the consumer group {group[1]} cannot be described")
        return [str(member[2]).lstrip("/") for group in groups for member in group[5]]
