"""The parts of an embedded run that outlive a takeover of its feed, and the ways in which a run ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, Literal

from tidelock.adapters.app.pulse import Pulse
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.runtime.meters import Meters
from tidelock.adapters.runtime.progress import Hindered, Sample
from tidelock.adapters.runtime.service_watch import ServiceWatch
from tidelock.adapters.runtime.slot_watch import SlotWatch

if TYPE_CHECKING:  # a run imports these while servers answer
    from tidelock.adapters.runtime.apply_shell import Shell
    from tidelock.adapters.runtime.sampler import Sampler
    from tidelock.engine.apply.machine import ApplyMachine

OK: Final = 0
REFUSED: Final = 1
OPERATOR: Final = 4
AGAIN: Final = -1  # take the feed over anew


class RunLife:
    """The parts of a run that outlive a new takeover of the feed: the sign of life, HTTP, the watch on
    the source's slot, and how to stop.  `meters`: what is counted beside the machine.

    `has_run`: this process has had the feed.  `stream_idle_us`: of the next machine, in microseconds (`StepDown`).
    """

    def __init__(self, pulse: Pulse, slot: SlotWatch, socket: str, manager: ServiceManager | None) -> None:
        self.pulse = pulse
        self.slot = slot
        self.shell: Shell | None = None
        self.told_to_stop = False
        self.has_run = False
        self.stream_idle_us: int | None = None
        self.sampler: Sampler | None = None
        self.meters = Meters()
        self._socket = socket
        self._between = Sample()  # two machines
        self._http = contextlib.AsyncExitStack()
        self._serves = False
        self._manager = manager or ServiceManager({})
        watch = ServiceWatch(self._manager, lambda: [self.shell] if self.shell is not None else [])
        self._signs = asyncio.get_running_loop().create_task(watch.run())
        self._task = asyncio.current_task()

    async def serve(self, feed: Feed) -> None:
        """Serves HTTP from the first machine on, also while a server is waited for.  Raises ListenError, TlsError."""
        if not self._serves:
            from tidelock.adapters.runtime.tracing import tracing
            from tidelock.adapters.web.serving import serve, served_at

            for at in served_at(feed, self._socket):
                page = serve(at, self._latest, feed.name, lambda: [self.meters], self._machines, feed.http_tls)
                await self._http.enter_async_context(page)
            self.meters.spans = (await self._http.enter_async_context(tracing(feed)))(0)
            self._serves = True

    def _machines(self) -> list[tuple[int, ApplyMachine]]:
        return [(0, self.shell.machine)] if self.shell is not None else []

    def _latest(self) -> Sample:
        return self.slot.shown(self._between) if self.sampler is None else self.sampler.latest

    def waits(self, at: Literal["source", "target"], said: str, seconds: float) -> None:
        """Notes that no machine runs, because that end cannot be reached."""
        self._between = Sample(unreachable=said, hindrances=(Hindered(at, seconds, said),))

    def took(self) -> None:
        """Notes that this process has had the feed."""
        self.has_run = True

    def begin(self, shell: Shell) -> None:
        """Notes the shell that runs the feed from now on."""
        self.shell = shell
        self._manager.ready()

    async def end(self) -> None:
        """Ends the signs of life, HTTP and the watch."""
        await self._http.aclose()
        await self.slot.end()
        await self.pulse.end()
        self._signs.cancel()

    def let_go(self) -> None:
        """Drops every reference to a shell that is over: its machine may hold all rows that were in flight."""
        if self.shell is not None and self.shell.stepped_down is not None:
            self.stream_idle_us = self.shell.stepped_down.stream_idle_us or self.stream_idle_us
        self.shell = None
        self.sampler, self._between = None, Sample()
        self.pulse.unwatch()

    def stop(self) -> None:
        """Stops the run once what is in flight is finished; at once before anything is."""
        self._manager.stopping()
        if self.shell is not None:
            self.shell.stop()
        elif not self.told_to_stop and self._task is not None:
            self.told_to_stop = True
            self._task.cancel()
