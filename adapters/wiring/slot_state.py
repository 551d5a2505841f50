"""Maps a source to what asks for the state of the slot by which it keeps its log for one feed."""

from __future__ import annotations

from typing import Protocol

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.wiring.sources import keeps_for_us


class SlotQuestion(Protocol):
    """A question to one source, asked again and again.  Not safe for threads."""

    def state(self) -> SlotState:
        """Waits for the source's answer; raises nothing where there is none (`SlotState.unread`)."""
        ...

    def close(self) -> None: ...


def slot_question(place: Endpoint) -> SlotQuestion | None:
    """Returns what asks; None where the source keeps its log for everybody."""
    if not keeps_for_us(place):
        return None
    from tidelock.adapters.postgres.logical.slot_state import SlotSession

    return SlotSession(place)
