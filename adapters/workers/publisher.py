"""The publisher process as the coordinator sees it: started, told what to publish, heard, stopped."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import FORMS, Learned, Stored
from tidelock.adapters.wiring.log_child import LogChild
from tidelock.adapters.wiring.sources import keeps_for_us
from tidelock.adapters.workers.publisher_messages import (
    AT_STATEMENT,
    PUBLISHED,
    AtStatement,
    FormsKept,
    Published,
    PublishOn,
)
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning

_SAYS: Final[dict[int, msgspec.msgpack.Decoder[Any]]] = {
    FORMS: msgspec.msgpack.Decoder(Learned),
    PUBLISHED: msgspec.msgpack.Decoder(Published),
    AT_STATEMENT: msgspec.msgpack.Decoder(AtStatement),
}


class PublisherProcess(LogChild[Published | AtStatement | Learned]):
    """One life of the process, which reads the log of `source`.  It is started before its order is known, so that its
    imports overlap other work.

    After `Failed` there is nothing more; a retryable one is answered with a new process and the same order (it goes on
    from the end of the log).  Not retryable: another publisher has fenced it, or an operator is needed.
    """

    def __init__(self, source: Endpoint) -> None:
        super().__init__("tidelock.adapters.workers.publisher_process", "publisher", source.scheme)
        self.decode = lambda kind, body: _SAYS[kind].decode(body)
        self.asides = {kind: read for kind, read in self.asides.items() if kind != FORMS}  # they wait for an answer
        self._listens = keeps_for_us(source)

    async def go_on(self, plan: TablePartitioning) -> None:
        """Gives leave to publish behind the statement, under `plan`."""
        await self.send(PublishOn(plan))

    async def forms_kept(self) -> None:
        """Lets it go on behind the forms that it has learned."""
        await self.send(FormsKept())

    def tell_stored(self, position: Position) -> None:
        """Tells it that every group has stored this checkpoint or passed it, where that is of use, and it is still
        there."""
        if self._listens and self.connected:
            self.post(Stored(position))
