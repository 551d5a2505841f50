"""Where an apply machine's batches come from, as the shell around it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent


class Log(Protocol):
    """`restarts`: how often reading began anew.  `unanswered`: what the source has prepared and not decided for long,
    where the reader of its log is ours."""

    restarts: int

    @property
    def unanswered(self) -> Unanswered: ...

    @property
    def silent_seconds(self) -> float:
        """Since the last batch or heartbeat; 0 while nothing is wanted."""
        ...

    def attach(self, post: Callable[[ApplyEvent], None], room: asyncio.Event) -> None:
        """Once, before reading.  Events go to `post`: LogArrived, or SourceFailed when reading ends; while `room` is
        not set nothing more is read."""
        ...

    async def read_from(self, position: Position, reader: int, further: Sequence[Position] = ()) -> None:
        """Read on from behind `position`, in the place of whatever was read before, as reader number `reader`; the
        first batch is marked `resent`.  `further`: as in `RequestResend`.  Returns when reading has ended, also because
        another call took over."""
        ...

    async def close(self) -> None: ...
