"""A process of ours that reads a source's log, and what it says of it beside its own messages."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from tidelock.adapters.ports.capture_messages import FAILED, FORMS, UNANSWERED, Failed, Learned, Unanswered
from tidelock.adapters.ports.table_form import TableForm
from tidelock.adapters.process.child import Ended, SpeakingChild
from tidelock.engine.model.records import Position

Own = TypeVar("Own")
_FAILED: Final = msgspec.msgpack.Decoder(Failed)
_UNANSWERED: Final = msgspec.msgpack.Decoder(Unanswered)
_LEARNED: Final = msgspec.msgpack.Decoder(Learned)


class LogChild(SpeakingChild[Own | Failed], Generic[Own]):
    """Its messages are its own, and Failed: why there are no more.

    `unanswered`: the prepared transaction that it reported last.  `learned`: forms of tables that it has learned, to be
    kept before its last message is acted upon; whoever keeps them takes them out.  `looked`: as `Learned` has it.
    """

    def __init__(self, module: str, name: str, *arguments: str) -> None:
        super().__init__(module, name, *arguments)
        self.unanswered = Unanswered()
        self.learned: list[TableForm] = []
        self.looked: Position | None = None
        self.asides = {
            FAILED: _FAILED.decode,
            UNANSWERED: self._note,
            FORMS: self._learn,
        }

    async def begin(self, order: msgspec.Struct) -> None:
        """Sends the order that it waits for."""
        await self.connect()
        await self.send(order)

    def _note(self, body: memoryview) -> None:
        self.unanswered = _UNANSWERED.decode(body)

    def _learn(self, body: memoryview) -> None:
        learned = _LEARNED.decode(body)
        self.learned += learned.forms
        self.looked = learned.looked or self.looked

    def ended(self, how: Ended) -> Failed:
        """Returns why there are no more: the process is gone."""
        return Failed(
            f"{how.name.title()}ProcessEnded",
            str(how),
            "It is started again; if that repeats, its last words are on stderr",
            retryable=True,
        )
