"""Says that a schema change still runs at the target, for as long as it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

EVERY_SECONDS: Final = 10.0
_SHOWN: Final = 200
Answer = TypeVar("Answer")


async def told(
    work: Coroutine[Any, Any, Answer],
    statement: str,
    say: Callable[[str], None],
    every_seconds: float = EVERY_SECONDS,
) -> Answer:
    """Returns what `work` returns, and has `say` told every so often how long it has taken.  Whoever is cancelled has
    ended `work` too."""
    task, begun = asyncio.ensure_future(work), time.monotonic()
    try:
        while not (await asyncio.wait((task,), timeout=every_seconds))[0]:
            seconds = time.monotonic() - begun
            say(f"a schema change has been running at the target for {seconds:.0f} s: {statement[:_SHOWN]}")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
