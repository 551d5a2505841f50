"""A process of ours that reads a source's log, and what it says of it beside its own messages."""

from __future__ import annotations

import msgspec

from tidelock.adapters.ports.capture_messages import FAILED, UNANSWERED, Failed, Unanswered
from tidelock.adapters.process.child import Child, Ended


class LogChild(Child):
    """`unanswered`: the prepared transaction that it reported last."""

    def __init__(self, module: str, name: str, *arguments: str) -> None:
        super().__init__(module, name, *arguments)
        self.unanswered = Unanswered()

    async def begin(self, order: msgspec.Struct) -> None:
        """Sends the order that it waits for."""
        await self.connect()
        await self.send(order)

    async def message(self) -> tuple[int, memoryview] | Failed:
        """Returns kind and body of the next frame that is the process's own, or why there are no more."""
        while True:
            frame = await self.receive()
            if isinstance(frame, Ended):
                return _ended(frame)
            kind, body = frame
            if kind == FAILED:
                return msgspec.msgpack.decode(body, type=Failed)
            if kind != UNANSWERED:
                return frame
            self.unanswered = msgspec.msgpack.decode(body, type=Unanswered)


def _ended(how: Ended) -> Failed:
    return Failed(
        f"{how.name.title()}ProcessEnded",
        str(how),
        "It is started again; if that repeats, its last words are on stderr",
        retryable=True,
    )
