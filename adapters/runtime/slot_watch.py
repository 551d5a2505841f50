"""Watches the slot of a run's source: one small question every ten seconds, on one session, in a thread of its own.

Neither the event loop nor the process that reads the log waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.runtime.progress import Sample
from tidelock.adapters.wiring.slot_state import slot_question
from tidelock.adapters.wiring.sources import keeps_for_us

FIRST_SECONDS: Final = 1.0
ASK_SECONDS: Final = 10.0
END_SECONDS: Final = 1.0


class SlotWatch:
    """Watches from `begin` until `end`; of a source that keeps its log for everybody, nothing."""

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: tuple[SlotState, float] | None = None

    def begin(self) -> None:
        """Starts, unless it has been started."""
        if self._thread is None and keeps_for_us(self._place):
            self._thread = threading.Thread(target=self._watch, name="slot watch", daemon=True)
            self._thread.start()

    def shown(self, sample: Sample) -> Sample:
        """Returns the sample with the slot's last state, and how old that is."""
        if self._state is None:
            return sample
        state, at = self._state
        return msgspec.structs.replace(
            sample, slot=msgspec.structs.replace(state, seconds=max(0.0, time.monotonic() - at))
        )

    async def end(self) -> None:
        """Ends the watch.  Where the source does not answer just then, its session ends with the process."""
        self._over.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, END_SECONDS)

    def _watch(self) -> None:
        if self._over.wait(FIRST_SECONDS):
            return
        question = slot_question(self._place)
        assert question is not None, "begun where there is a slot"
        while True:
            self._state = question.state(), time.monotonic()
            if self._over.wait(ASK_SECONDS):
                question.close()
                return
