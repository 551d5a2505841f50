"""Places in the log: where a partition begins and ends, and at which offset a position is read on from.

Records of one partition are in the order of their positions, but their offsets have holes: transaction markers and
aborted records take offsets too.  Everything here sees committed records only, by a consumer without a group.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from adapters.kafka.wire import Record
from engine.records import Position


class Places:
    """Of one changes topic.  `kafka`: keyword arguments for aiokafka.  An async context manager.

    Every method raises aiokafka's KafkaError when the broker cannot be asked, WireError for a record of others.
    """

    def __init__(self, kafka: dict[str, Any], topic: str) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError

    async def last(self, partition: int) -> Position | None:
        """Where the partition ends: `last` of its last committed record; None: it has none."""
        raise NotImplementedError

    async def last_record(self, partition: int) -> Record | None:
        """The last committed record."""
        raise NotImplementedError

    async def first(self, partition: int) -> Position | None:
        """Where the partition begins: `prev` of its first committed record; None: it has none."""
        raise NotImplementedError

    async def find(self, partition: int, position: Position) -> int | None:
        """The offset to read on from behind `position`: that of the first record whose `prev` is at it, or the end of
        the partition where the last record ends at it.

        None: the log no longer reaches back so far, does not reach it yet, or is cut elsewhere.
        """
        raise NotImplementedError
