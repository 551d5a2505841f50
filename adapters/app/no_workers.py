"""Waits for a feed to have no workers, before what asks for that: the session of one that was killed lives a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tidelock.adapters.config.feed import Feed

WORKERS_SECONDS: Final = 9.0
"""How long is waited for workers to be gone: longer than a dead one's session lives."""
LOOK_SECONDS: Final = 0.5


async def still_workers(feed: Feed, tell: Callable[[str], None]) -> str:
    """Returns '' once the feed has no workers; how many there are and where, if they stay.  `tell`: is given what is
    waited for.  Raises LogError."""
    if feed.log_url is None:
        return ""
    from tidelock.adapters.kafka.membership import members  # with Kafka's client, which an embedded feed does without

    end, told = time.monotonic() + WORKERS_SECONDS, False
    while hosts := await members(feed.log_url, feed.name):
        if time.monotonic() > end:
            count = f"{len(hosts)} worker{'s' if len(hosts) > 1 else ''}"
            return f"feed {feed.name} has {count}, on {', '.join(dict.fromkeys(hosts))}"
        if not told:
            told = True
            tell(f"Kafka knows of {len(hosts)} workers: waiting to see whether they are alive")
        await asyncio.sleep(LOOK_SECONDS)
    return ""
