"""Protocol of the log that an apply machine reads, as the shell around it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent


class Log(Protocol):
    """A log.  `restarts`: how often reading began anew."""

    restarts: int

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared for long and not decided, where the reader of its log is ours.
        """

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last batch or heartbeat; 0 while nothing is asked for."""
        ...

    def attach(self, post: Callable[[ApplyEvent], None], room: asyncio.Event) -> None:
        """Connects the log, once, before reading.

        Events go to `post`: LogArrived, or SourceFailed when reading ends.  While `room` is not set nothing more is
        read.
        """
        ...

    async def read_from(self, position: Position, reader: int, further: Sequence[Position] = ()) -> None:
        """Reads on behind `position`, in place of an earlier read, as reader number `reader`; the first batch is marked
        `resent`.

        `further`: as in `RequestResend`.  Returns when reading has ended, also because another call took over.
        """
        ...

    def stored(self, position: Position) -> None:
        """Notes that the target holds this checkpoint for good, so that nothing before it need be kept for us."""

    async def close(self) -> None:
        """Ends reading."""
