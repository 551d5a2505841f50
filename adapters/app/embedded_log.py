"""The log of an embedded run: the source's own, read by a capture process beside this one."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Sequence

from tidelock.adapters.ports.capture_messages import CaptureOrder, Failed, Unanswered
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.table_form import FormKeeper
from tidelock.adapters.wiring.capture import CaptureProcess
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent, GoalSet, LogArrived, SourceFailed

FIRST_RESTART_SECONDS = 0.2
LONGEST_RESTART_SECONDS = 5.0
KEEP_AGAIN_SECONDS = 1.0


class EmbeddedLog:
    """A log that is the source's own.

    `order(position, further, stored)`: makes the capture order that reads on from `position`.  `first`: a process that
    has been started already, so that its imports overlap the takeover.  `forms`: keeps forms of tables at the target,
    before what is behind them in the log is told.

    `readings`: how often reading has begun.  `proven`: in the present reading something was read of the log: where that
    needs a proof that receipts are in it (`adapters.mysql.binlog.probe`), it stands before.
    """

    def __init__(
        self,
        order: Callable[[Position, Sequence[Position], Position | None], CaptureOrder],
        first: CaptureProcess,
        stored: Position | None = None,
        forms: FormKeeper | None = None,
        *,
        looks: bool = False,
    ) -> None:
        """`stored`: the checkpoint that the target holds.  `looks`: the reader tells where it has looked at tables."""
        self.restarts = 0
        self._order = order
        self._forms, self._looks = forms, looks
        self._goal: Position | None = None
        self._stored = stored
        self._told: CaptureProcess | None = None  # of checkpoints, since it has its order
        self._capture: CaptureProcess | None = first
        self._reading: asyncio.Task[None] | None = None
        self._delay = 0.0
        self._heard: float | None = None  # None: nothing is asked for
        self.readings = 0
        self.proven = False
        self._restarting = asyncio.Lock()  # one reader at a time, whatever asks for it

    def attach(self, post: Callable[[ApplyEvent], None], room: asyncio.Event) -> None:
        """Takes the function that events go to, and the event without which nothing more is read."""
        self._post = post
        self._room = room

    def aim(self, goal: Position) -> None:
        """Sets the place at which the feed has caught up; it is behind what the log does not tell by itself, where the
        source's has no statements."""
        if not self._looks:
            self._post(GoalSet(goal))
        else:
            self._goal = goal

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last batch or heartbeat; 0 while nothing is asked for."""
        return 0.0 if self._heard is None else max(0.0, time.monotonic() - self._heard)

    async def read_from(self, position: Position, reader: int, further: Sequence[Position] = ()) -> None:
        """Reads on behind `position` as reader number `reader`, in place of an earlier reader.

        Returns when reading has ended, also because another call took over.
        """
        async with self._restarting:
            if self._reading is not None:
                self.restarts += 1
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
                await self.close()
                await asyncio.sleep(self._delay)  # back off, not synchronisation
                self._delay = min(max(self._delay * 2, FIRST_RESTART_SECONDS), LONGEST_RESTART_SECONDS)
            self._reading = asyncio.current_task()
            if self._forms is not None and not await self._done(functools.partial(self._forms.read_on, position)):
                return
            self.readings, self.proven = self.readings + 1, False
            order = self._order(position, further, self._stored)
            capture = self._capture = self._capture or CaptureProcess(order.source)
            await capture.begin(order)
            self._told = capture
            if self._stored is not None and self._stored != order.stored:
                capture.tell_stored(self._stored)
        await self._read(capture, reader)

    async def _read(self, capture: CaptureProcess, reader: int) -> None:
        while True:
            self._heard = self._heard or time.monotonic()
            batch = await capture.next()
            if isinstance(batch, Failed):
                self._post(SourceFailed(Alarm(batch.kind, batch.message, batch.hint), batch.retryable))
                return
            if capture.learned and self._forms is not None:
                if not await self._done(functools.partial(self._forms.keep, tuple(capture.learned))):
                    return
                capture.learned.clear()
            self._delay = 0.0
            self.proven = True
            await self._has_room()  # behind the proof: without it a permit holds the feed, and makes no room
            self._heard = time.monotonic()
            self._post(LogArrived([batch], reader, capture.frame_bytes))
            if self._goal is not None and capture.looked is not None:
                self._post(GoalSet(max(self._goal, capture.looked, key=lambda place: place.order)))
                self._goal = None

    async def _has_room(self) -> None:
        if not self._room.is_set():
            self._heard = None
            await self._room.wait()

    async def _done(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Does what the target is needed for, and waits for one that cannot now.  Returns whether it is done; else the
        log is told to have failed."""
        self._heard = None  # the source is asked for nothing meanwhile
        while True:
            try:
                await work()
            except TargetError as error:
                if not (error.passing or error.unreachable):
                    alarm = Alarm("TargetError", f"forms of the source's tables cannot be kept: {error}", error.hint)
                    self._post(SourceFailed(alarm, retryable=False))
                    return False
                await asyncio.sleep(KEEP_AGAIN_SECONDS)  # back off, not synchronisation
            else:
                return True

    def stored(self, position: Position) -> None:
        """Tells the capture process that the target holds this checkpoint for good."""
        self._stored = position
        if self._told is not None:
            self._told.tell_stored(position)

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared for long and not decided."""
        return self._capture.unanswered if self._capture is not None else Unanswered()

    async def close(self) -> None:
        """Ends the capture process."""
        capture, self._capture, self._told = self._capture, None, None
        if capture is not None:
            await capture.stop()
