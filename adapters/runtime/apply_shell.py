"""The shell around an apply machine: drain the mailbox → one `step` → start the effects as tasks → answers come back.

It holds no decision.  Everything moves in batches: the only things done per batch of the log are one append to the
mailbox and one wake-up.  An embedded run and a partition of a worker differ in their `Log` and in who runs a statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.ports.log import Log
from tidelock.adapters.ports.sink import Sink
from tidelock.adapters.runtime.copy_shell import Copies
from tidelock.adapters.runtime.journal import Recorder
from tidelock.adapters.runtime.meters import Meters
from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.protocol import effects, events
from tidelock.engine.protocol.steps import DeleteRows, Step

TICK_SECONDS = 0.05
CONTROL_SECONDS = 1.0
DRAIN_SECONDS = 10.0
BEGINS_WITH_IT = (
    "The feed begins with this copy (`start: copy`, `tidelock resync`), so nothing of these tables runs without it: "
    "correct that, then `tidelock resume FEED`"
)


class Shell:
    """The shell of one machine.  `apply_ddl`: carries out that effect.

    `ended`: set when the feed halted, stepped down, caught up, was told to stop, or cannot begin (`refusal`).
    `held`: why its permit lets it apply nothing; '' while it may.  `throttled`: why it holds for the target's sake.
    `wished`: no operator has paused it.  `turns`: of its loop so far; `turning`: that loop has begun and not ended.
    """

    def __init__(
        self,
        machine: ApplyMachine,
        sink: Sink,
        log: Log,
        apply_ddl: Callable[[effects.ApplyDdl], Coroutine[Any, Any, events.DdlApplied | events.DdlFailed]],
        journal: Recorder,
        copies: Copies,
        way_out: Callable[[str], str] = str,
        *,
        stays: bool = False,
        meters: Meters | None = None,
    ) -> None:
        """`stays`: its process goes on, and an operator ends a halt; so a copy that it cannot begin without is one.
        `meters`: counts what is sent and committed.
        """
        self.machine = machine
        self.meters = meters or Meters()
        self.meters.begin()
        self.caught_up = False
        self.stepped_down: effects.StepDown | None = None
        self.halt: effects.Halt | None = None
        self.refusal: Alarm | None = None
        self.copies = copies
        self.ended = asyncio.Event()
        self._sink = sink
        self._log = log
        self._apply_ddl = apply_ddl
        self._journal = journal
        self._way_out = way_out
        self._stays = stays
        self._mailbox: list[events.ApplyEvent] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.stopping = False
        self.turns = 0
        self.turning = False
        self.held = ""
        self.throttled = ""
        self._resting = False
        self.wished = True
        self._told_to_pause = False
        log.attach(self.post, self._room)
        copies.attach(self._copied, self._refused)

    @property
    def restarts(self) -> int:
        """The number of times that reading the log began anew."""
        return self._log.restarts

    @property
    def under_way(self) -> bool:
        """Tells whether something was sent to the target and is not answered."""
        return self.machine.under_way

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared for long and not decided."""
        return self._log.unanswered

    def post(self, event: events.ApplyEvent) -> None:
        """Puts an event into the mailbox, and wakes the loop."""
        self._mailbox.append(event)
        self._wake.set()

    async def run(self, start: Position, further: Sequence[Position] = ()) -> None:
        """Reads the log from behind `start`, until `ended`; `further`: as in `RequestResend`.

        Raises whatever a sink raises: that is a bug, and the process must not go on.
        """
        beginning = self._start(self._begin(start, further))
        self.turning = True
        try:
            while not self.ended.is_set():
                self.turns += 1
                self._step()
                if self.ended.is_set() or (self.stopping and not self.machine.under_way):
                    break
                if self.machine.planning_deferred:
                    await asyncio.sleep(0)  # what was just started writes to its socket, then we plan
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK_SECONDS)
                self._raise_failures()
        finally:
            self.turning = False
            beginning.cancel()
            await self._close()

    async def _begin(self, start: Position, further: Sequence[Position]) -> None:
        """Begins with the copies that are queued already, so that they cover the log from its first row on."""
        await self.copies.want((await self._sink.control()).wanted, 0)
        while self.copies.owed:
            await asyncio.sleep(CONTROL_SECONDS)  # until the next look, as `_watch_control` does
            await self.copies.want((await self._sink.control()).wanted, 0)
        self._start(self._watch_control())
        await self.copies.none_about_to_begin()
        if not self.ended.is_set():
            self._start(self._log.read_from(start, 0, further))

    def _refused(self, alarm: Alarm) -> None:
        if self._stays:
            told = "" if "`tidelock copy" in alarm.hint else f"{alarm.hint}. "  # it need not be asked for again
            self.give_up(replace(alarm, hint=told + BEGINS_WITH_IT))
            return
        self.refusal = alarm
        self.ended.set()

    def give_up(self, alarm: Alarm) -> None:
        """Halts for what the machine does not know of."""
        self._start(self._record_halt(effects.Halt(alarm)))

    def displaced(self) -> None:
        """Ends the shell: a newer owner has the feed, and its fence rejects whatever we would still write."""
        self.stepped_down = effects.StepDown("a newer owner has taken the feed over", again=False)
        self.ended.set()
        self._wake.set()

    def begin_anew(self, reason: str) -> None:
        """Ends the shell, so that the run takes the feed over once more, from what the target holds."""
        self.stepped_down = effects.StepDown(reason, again=True)
        self.ended.set()

    def stop(self) -> None:
        """Finishes what is in flight, then ends (SIGTERM, SIGINT)."""
        if not self.stopping:
            self.stopping = True
            self.post(events.Paused(True))
            asyncio.get_running_loop().call_later(DRAIN_SECONDS, self.ended.set)

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs what goes on as long as the shell does; what it raises ends the shell."""
        self._start(work)

    def hold(self, why: str) -> None:
        """Has nothing more planned, what is in flight finished, and the log read on; with '', goes on."""
        self.held = why
        self._tell_pause()

    def throttle(self, why: str) -> None:
        """Holds for the target's sake; with '', goes on."""
        self.throttled = why
        self._tell_pause()

    def pace(self, resting: bool) -> None:
        """Has nothing more planned while `resting`: the rate would be too great."""
        self._resting = resting
        self._tell_pause()

    def _tell_pause(self) -> None:
        paused = bool(self.held or self.throttled) or self._resting or not self.wished
        if paused != self._told_to_pause and not self.stopping:
            self._told_to_pause = paused
            self.post(events.Paused(paused))

    def _step(self) -> None:
        arrived, self._mailbox = self._mailbox or [events.Tick()], []
        self._wake.clear()
        now = time.monotonic_ns() // 1000
        if self._journal.records:
            self._journal.record(now, arrived)
        if self._journal.full and not self.copies.active and not self.stopping:
            self.begin_anew("the journal is full: it goes on in a new one")
        for effect in self.machine.step(now, arrived):
            self._carry_out(effect)
        self.meters.reached(*self.machine.reached)
        if self.machine.backpressured:
            self._room.clear()
        else:
            self._room.set()

    def _carry_out(self, effect: effects.ApplyEffect) -> None:
        match effect:
            case effects.ApplyBatch():
                self.meters.sent(effect.id, effect.rows, _by_table(effect.steps))
                self._trace(effect)
                self._start(self._answer(self._sink.apply(effect)))
            case effects.ApplyPiece():
                self.meters.sent_piece(effect.batch, effect.rows, _by_table(effect.steps))
                self._trace(effect)
                self._start(self._answer(self._sink.apply_piece(effect)))
            case effects.CommitBatch():
                self._start(self._answer(self._sink.commit(effect)))
            case effects.RollbackBatch():
                self._start(self._answer(self._sink.rollback(effect)))
            case effects.SaveCheckpoint():
                self._start(self._save(effect))
            case effects.ApplyDdl():
                self._start(self._change_schema(effect))
            case (
                effects.BeginCopy()
                | effects.ReadChunk()
                | effects.MergeChunk()
                | effects.FindRefused()
                | effects.DropStaged()
                | effects.RefuseCopy()
            ):
                self._trace(effect)
                self._start(self.copies.carry_out(effect))
            case effects.RequestResend():
                self._start(self._log.read_from(effect.position, effect.reader, effect.further))
            case effects.Halt():
                self._start(self._record_halt(effect))
            case effects.StepDown():
                self.stepped_down = effect
                self.ended.set()
            case effects.CaughtUp():
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

    async def _answer(self, work: Coroutine[Any, Any, events.ApplyEvent]) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # an `apply` that a rollback interrupted answers nothing
            answer = await work
            self.meters.answered(answer)
            self._traced(answer)
            self.post(answer)

    def _copied(self, event: events.ApplyEvent) -> None:
        self._traced(event)
        self.post(event)

    def _trace(self, effect: effects.ApplyEffect) -> None:
        if self.meters.spans is not None:
            self.meters.spans.sent(effect)

    def _traced(self, event: events.ApplyEvent) -> None:
        if self.meters.spans is not None:
            self.meters.spans.answered(event)

    async def _change_schema(self, effect: effects.ApplyDdl) -> None:
        answer = await self._apply_ddl(effect)
        if isinstance(answer, events.DdlApplied) and answer.copied is not None:
            self.copies.follow(answer.copied)
        self.post(answer)

    async def _save(self, effect: effects.SaveCheckpoint) -> None:
        """Stores a checkpoint; only then the log hears of it."""
        answer = await self._sink.save_checkpoint(effect)
        if isinstance(answer, events.CheckpointSaved):
            self._log.stored(effect.position)
        self.post(answer)

    async def _record_halt(self, halt: effects.Halt) -> None:
        """Stores the halt, unless a newer owner has the feed: a zombie's alarm counts for nothing."""
        alarm = halt.alarm
        halt = replace(halt, alarm=replace(alarm, hint=self._way_out(alarm.hint)))
        if await self._sink.record_halt(halt):
            self.halt = halt
        else:
            self.displaced()
        self.ended.set()

    # ------------------------------------------------------------------ the operator

    async def _watch_control(self) -> None:
        """Asks the target for operators' requests: pause, resume, rows retry and skip, copies, repairs."""
        while True:
            if self.machine.state is State.FLOWING and not self.stopping:
                answered = self.copies.answered
                control = await self._sink.control()
                self.wished = control.desired_state != "paused"
                self._tell_pause()
                if control.wishes:
                    self.post(events.ParkedWished(control.wishes))
                if control.wanted:
                    self._start(self.copies.want(control.wanted, answered))
            await asyncio.sleep(CONTROL_SECONDS)

    async def _close(self) -> None:
        await self._log.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.copies.close()
        await self._sink.close()
        self._journal.close()


def _by_table(steps: Sequence[Step]) -> Counter[str]:
    """Returns how many rows the steps write or delete, by table of the target."""
    found = Counter[str]()
    for step in steps:
        found[str(step.table.target.name)] += len(step.keys if isinstance(step, DeleteRows) else step.rows)
    return found
