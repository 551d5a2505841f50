"""The shell around an apply machine: drain the mailbox → one `step` → start the effects as tasks → answers come back.

It holds no decision.  Everything moves in batches: the only things done per batch of the log are one append to the
mailbox and one wake-up.  Faust's agents drive the same machine with the same loop (a later step).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from adapters.capture import CaptureProcess
from adapters.frames import Failed, Order
from adapters.journal import Recorder
from adapters.sink import Sink
from engine.apply import ApplyMachine, State
from engine.effects import (
    ApplyBatch,
    ApplyDdl,
    ApplyEffect,
    CaughtUp,
    CommitBatch,
    Halt,
    RequestResend,
    RollbackBatch,
    SaveCheckpoint,
    StandDown,
)
from engine.errors import Alarm
from engine.events import ApplyEvent, LogArrived, ParkedWished, Paused, SourceFailed, Tick
from engine.records import Ddl, Position, TableName

TICK_SECONDS = 0.05
CONTROL_SECONDS = 1.0
FIRST_RESTART_SECONDS = 0.2
LONGEST_RESTART_SECONDS = 5.0
DRAIN_SECONDS = 10.0


class Shell:
    """`order(position)`: the capture order that reads on from there.  `tables(ddl)`: the feed's target tables once
    the statement is applied.

    `ended`: set when the feed halted, stood down, caught up, or was told to stop.
    """

    def __init__(
        self,
        machine: ApplyMachine,
        sink: Sink,
        order: Callable[[Position], Order],
        tables: Callable[[Ddl], Sequence[TableName]],
        journal: Recorder,
        first_capture: CaptureProcess,
    ) -> None:
        self.machine = machine
        self.caught_up = False
        self.stood_down: StandDown | None = None
        self.halt: Halt | None = None
        self.restarts = 0
        self.ended = asyncio.Event()
        self._sink = sink
        self._order = order
        self._tables = tables
        self._journal = journal
        self._mailbox: list[ApplyEvent] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._capture: CaptureProcess | None = first_capture
        self._reading: asyncio.Task[None] | None = None
        self._restart_delay = 0.0
        self._restarting = asyncio.Lock()  # one reader at a time, whatever asks for it
        self.stopping = False

    def post(self, event: ApplyEvent) -> None:
        self._mailbox.append(event)
        self._wake.set()

    async def run(self) -> None:
        """Until `ended`.  Raises whatever a sink raises: that is a bug, and the process must not go on."""
        control = self._start(self._watch_control())
        try:
            while not self.ended.is_set():
                self._step()
                if self.stopping and not self.machine.batches.busy:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK_SECONDS)
                self._raise_failures()
        finally:
            control.cancel()
            await self._close()

    def stop(self) -> None:
        """Finish what is in flight, then end (SIGTERM, SIGINT)."""
        if not self.stopping:
            self.stopping = True
            self.post(Paused(True))
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, self.ended.set)

    def _step(self) -> None:
        events, self._mailbox = self._mailbox or [Tick()], []
        self._wake.clear()
        now = time.monotonic_ns() // 1000
        self._journal.record(now, events)
        for effect in self.machine.step(now, events):
            self._carry_out(effect)
        if self.machine.full:
            self._room.clear()
        else:
            self._room.set()

    def _carry_out(self, effect: ApplyEffect) -> None:
        match effect:
            case ApplyBatch():
                self._start(self._answer(self._sink.apply(effect)))
            case CommitBatch():
                self._start(self._answer(self._sink.commit(effect)))
            case RollbackBatch():
                self._start(self._answer(self._sink.rollback(effect)))
            case SaveCheckpoint():
                self._start(self._answer(self._sink.save_checkpoint(effect)))
            case ApplyDdl():
                self._start(self._answer(self._sink.apply_ddl(effect, self._tables(effect.ddl))))
            case RequestResend():
                self._start(self._read_from(effect.position, effect.reader))
            case Halt():
                self._start(self._record_halt(effect))
            case StandDown():
                self.stood_down = effect
                self.ended.set()
            case CaughtUp():
                self.caught_up = True
                self.ended.set()
            case _:
                assert_never(effect)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)
        self._wake.set()

    def _raise_failures(self) -> None:
        for task in list(self._tasks):
            if task.done():
                self._tasks.discard(task)
                task.result()

    async def _answer(self, work: Coroutine[Any, Any, ApplyEvent]) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # an `apply` that a rollback interrupted answers nothing
            self.post(await work)

    async def _record_halt(self, halt: Halt) -> None:
        """A zombie's alarm is none: the newer owner took its source connection, or its locks."""
        if await self._sink.record_halt(halt):
            self.halt = halt
        else:
            self.stood_down = StandDown("a newer owner has taken the feed over", again=False)
        self.ended.set()

    # ------------------------------------------------------------------ the source

    def begin_reading(self, position: Position) -> None:
        self._start(self._read_from(position, 0))

    async def _read_from(self, position: Position, reader: int) -> None:
        """(Re)start the capture process behind `position`; the reading task lives until the next restart."""
        async with self._restarting:
            if self._reading is not None:
                self.restarts += 1
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
                await self._stop_capture()
                await asyncio.sleep(self._restart_delay)  # back off, not synchronisation
                self._restart_delay = min(max(self._restart_delay * 2, FIRST_RESTART_SECONDS), LONGEST_RESTART_SECONDS)
            capture = self._capture or CaptureProcess()
            self._capture = capture
            await capture.begin(self._order(position))
            self._reading = self._start(self._read(capture, reader))

    async def _read(self, capture: CaptureProcess, reader: int) -> None:
        while True:
            await self._room.wait()
            batch = await capture.next()
            if isinstance(batch, Failed):
                alarm = Alarm(batch.kind, batch.message, batch.hint)
                self.post(SourceFailed(alarm, batch.retryable))
                return
            self._restart_delay = 0.0
            self.post(LogArrived([batch], reader))

    async def _stop_capture(self) -> None:
        capture, self._capture = self._capture, None
        if capture is not None:
            await capture.stop()

    # ------------------------------------------------------------------ the operator

    async def _watch_control(self) -> None:
        """What the operator asked for at the target: pause, resume, rows retry and skip."""
        paused = False
        while True:
            if self.machine.state is State.FLOWING and not self.stopping:
                control = await self._sink.control()
                if (control.desired_state == "paused") != paused:
                    paused = not paused
                    self.post(Paused(paused))
                if control.wishes:
                    self.post(ParkedWished(control.wishes))
            await asyncio.sleep(CONTROL_SECONDS)

    async def _close(self) -> None:
        await self._stop_capture()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sink.close()
        self._journal.close()
