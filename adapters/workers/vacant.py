"""Says why a part of the feed has nobody: in the worker's log, and in the control topic, which `tidelock status` reads.

The worker that is to have the part tries again and again meanwhile.  It repeats its word, so that readers know an old
one of a worker that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Final

from tidelock.adapters.kafka.control import VACANT, ControlTopic
from tidelock.adapters.process.complaint import Complaint
from tidelock.engine.protocol.group_reports import Vacancy

REPEAT_SECONDS: Final = 5.0
WRITE_SECONDS: Final = 2.0  # the broker may be away


class VacancyNotice:
    """The notice of one part, by one worker."""

    def __init__(self, log: logging.Logger, control: ControlTopic, part: str, worker: str) -> None:
        self._complaint = Complaint(log)
        self._control = control
        self._part, self._worker = part, worker
        self._why, self._wrote = "", 0.0

    async def tell(self, what: str, why: str) -> None:
        """Says that `what` cannot be had, and why."""
        self._complaint.tell(f"{what}: {why}")
        if why != self._why or time.monotonic() - self._wrote > REPEAT_SECONDS:
            await self._write(why)

    async def over(self) -> None:
        """Says that the part has somebody."""
        self._complaint.over()
        if self._why:
            await self._write("")

    async def _write(self, why: str) -> None:
        word = Vacancy(self._part, self._worker, why, time.time_ns() // 1000)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._control.write(VACANT + self._part, word), WRITE_SECONDS)
            self._why, self._wrote = why, time.monotonic()
