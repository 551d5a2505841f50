"""Waits until a feed runs with the file that it has now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from tidelock.adapters.app.feed_edit import run_of
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.runs import Run

HELD_SECONDS: Final = 15.0
"""How long a run may go on behind a change of its file: `serve` looks every 5 s, and ends it at once."""

BEGIN_SECONDS: Final = 90.0
"""How long the next run may take to begin: what is in flight is finished first, for at most 25 s."""

_LOOK_SECONDS: Final = 0.5
Taken: TypeAlias = Literal["taken", "not taken", "ended"]


async def taken(feed: Feed, before: Run, tell: Callable[[str], None]) -> tuple[Taken, Run | None]:
    """Returns `taken` and the new run; `not taken` where the one of `before` goes on; `ended` where it has ended and
    none has begun.  Raises TargetError."""
    begun = time.monotonic()
    tell(f"waiting for the run {before} to take the file")
    while True:
        run = await run_of(feed)
        if run is not None and run.token != before.token:
            return "taken", run
        passed = time.monotonic() - begun
        if run is not None and passed > HELD_SECONDS:
            return "not taken", run
        if run is None and passed > BEGIN_SECONDS:
            return "ended", None
        await asyncio.sleep(_LOOK_SECONDS)  # until the next look
