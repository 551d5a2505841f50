"""The publisher process as the coordinator sees it: started, told what to publish, heard, stopped."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import Failed, Unanswered
from tidelock.adapters.wiring.log_child import LogChild
from tidelock.adapters.workers.publisher_messages import (
    AT_STATEMENT,
    PUBLISHED,
    AtStatement,
    Published,
    PublishOn,
    PublishOrder,
)
from tidelock.engine.model.table_partitioning import TablePartitioning

_SAYS: Final[dict[int, msgspec.msgpack.Decoder[Any]]] = {
    PUBLISHED: msgspec.msgpack.Decoder(Published),
    AT_STATEMENT: msgspec.msgpack.Decoder(AtStatement),
}


class PublisherProcess:
    """One life of the process, which reads the log of `source`.  It is started before its order is known, so that its
    imports overlap other work.

    After `Failed` there is nothing more; a retryable one is answered with a new process and the same order (it goes on
    from the end of the log).  Not retryable: another publisher has fenced it, or an operator is needed.
    """

    def __init__(self, source: Endpoint) -> None:
        self._child = LogChild("tidelock.adapters.workers.publisher_process", "publisher", source.scheme)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def unanswered(self) -> Unanswered:
        """The prepared transaction that the process reported last."""
        return self._child.unanswered

    async def begin(self, order: PublishOrder) -> None:
        """Sends the order."""
        await self._child.connect()
        await self._child.send(order)

    async def next(self) -> Published | AtStatement | Failed:
        """Returns the next message of the process."""
        frame = await self._child.message()
        if isinstance(frame, Failed):
            return frame
        kind, body = frame
        said: Published | AtStatement = _SAYS[kind].decode(body)
        return said

    async def go_on(self, plan: TablePartitioning) -> None:
        """Gives leave to publish behind the statement, under `plan`."""
        await self._child.send(PublishOn(plan))

    async def stop(self) -> None:
        """Ends the process and waits until it is gone."""
        await self._child.stop()
