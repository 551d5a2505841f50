"""Ends tasks, also those of which a cancellation was lost on its way.

A library that closes what it has open waits for tasks of its own, and some pass over `CancelledError` meanwhile, also
where it was meant for whoever called them (aiokafka's clients).  A loop that is cancelled just there goes on for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

AGAIN_SECONDS: Final = 3.0
"""Long enough for a task to close in order what it has open: that must not be cut off."""


async def ended(*tasks: asyncio.Task[Any], again: float = AGAIN_SECONDS) -> None:
    """Cancels the tasks, once more every `again` seconds, and returns when all have ended, however they did."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again)
    await asyncio.gather(*tasks, return_exceptions=True)
