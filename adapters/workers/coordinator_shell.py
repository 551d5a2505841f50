"""The shell around a feed's coordinator (`cluster.coordinator`): run by the worker that owns partition 0 of `control`.

It takes over in this order: our epoch is committed at the target, which fences older coordinators' statements; the sole
writer of the control topic is opened, which shuts them out there; only then is the topic read.  Whatever is read after
that can no longer change under us.  The publisher's id does the same for the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Coroutine
from typing import Any, Final, assert_never

import msgspec
from aiokafka.errors import KafkaError

from tidelock.adapters.checks.refusals import refusals, tables_there
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka import control, topics
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import FEED, PLAN, ControlTopic, News, SeenControl, SoleWriter
from tidelock.adapters.operator.feed_control import halted_group
from tidelock.adapters.ports.sink import Sink, TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.complaint import Complaint
from tidelock.adapters.process.way_out import of_workers
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers.lost_log import LostLog, lost, lost_log, places_of
from tidelock.adapters.workers.new_log import first_log, new_log, open_log
from tidelock.adapters.workers.publishing import Publishing
from tidelock.adapters.workers.start_position import beginning
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.cluster.coordinator import Coordinator
from tidelock.engine.cluster.coordinator_states import Halted
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.coordinator_messages import (
    Announce,
    CoordinatorEffect,
    CoordinatorEvent,
    FeedTaken,
    GoOn,
    PassStatement,
    PlanStored,
    RunStatement,
    StartPublisher,
    StorePlan,
)
from tidelock.engine.protocol.effects import ApplyDdl, Halt, StepDown
from tidelock.engine.protocol.events import DdlApplied, DdlFailed, SourceFailed, Tick
from tidelock.engine.protocol.group_reports import FeedState, GroupReport
from tidelock.engine.protocol.published_log import PublishedLog

log = logging.getLogger(__name__)

COORDINATOR: Final = -1
"""Its group in the bookkeeping."""
TICK_SECONDS: Final = 0.1
AGAIN_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 5.0
DISPLACED_SECONDS: Final = 8.0  # longer than a session lives at the broker: by then we know whether it is still ours


class CoordinatorShell:
    """Coordinates until stopped.  A coordinator that was displaced, or whose feed halted and was released by an
    operator, begins anew.
    """

    def __init__(self, feed: Feed, worker: str, control_topic: ControlTopic) -> None:
        self._feed = feed
        self._worker = worker
        self._control = control_topic
        self._mapping = Mapping(rules_of(feed), feed.schema)
        self._stop = asyncio.Event()
        self._ours = asyncio.Event()
        self._trouble = Complaint(log)
        self._lost: LostLog | None = None  # why the feed halts
        self._resumed: LostLog | None = None  # why it halted until an operator ended that
        self._log = PublishedLog(0)

    async def run(self) -> None:
        """Coordinates until stopped.  Raises only what is a bug."""
        while not self._stop.is_set():
            try:
                await self._coordinate()
            except (TargetError, SourceError, LogError, KafkaError) as error:
                what, hint = getattr(error, "message", error), of_workers(getattr(error, "hint", ""))
                self._trouble.tell(f"feed {self._feed.name} has no coordinator: {what}. {hint}")
                await self._rest(AGAIN_SECONDS)

    async def stop(self) -> None:
        """Stops.  `run` returns once the publisher is gone and every session is closed."""
        self._stop.set()

    def reassigned(self) -> None:
        """Ends the wait of a displaced coordinator: a rebalance has left the feed with us, or given it to us again."""
        self._ours.set()

    async def _rest(self, seconds: float, sooner: asyncio.Event | None = None) -> None:
        """Waits until stopped, or until `sooner`."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._stop, sooner) if event is not None]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    async def _coordinate(self) -> None:
        async with session(self._feed.target_url) as target:
            found = await refusals(self._feed, target)
        if found:
            raise TargetError("; ".join(map(str, found)), "`tidelock check` shows it")
        sink = make_sink(self._feed, self._mapping, group=COORDINATOR)
        pen = SoleWriter(self._feed)
        try:
            taken = await self._take_over(sink, pen)
            self._trouble.over()
            coordinating = _Coordinating(
                self._feed, self._mapping, sink, pen, self._stop, self._log, self._control.seen.skipped
            )
            if self._lost is not None:
                coordinating.lose(self._lost)
            unwatch = self._control.watch(coordinating.hear)
            try:
                await coordinating.run(taken)
            finally:
                unwatch()
        finally:
            await pen.close()
            await sink.close()
        if coordinating.halted is not None:
            log.error("feed %s halted: %s", self._feed.name, coordinating.halted.alarm)
            await self._released()
            self._resumed = coordinating.lost
        elif coordinating.displaced:
            log.warning("feed %s: this coordinator is over, %s", self._feed.name, coordinating.displaced)
            self._ours.clear()
            await self._rest(DISPLACED_SECONDS, self._ours)

    async def _take_over(self, sink: Sink, pen: SoleWriter) -> FeedTaken:
        resumed = self._resumed
        found = await lost_log(self._feed)
        if resumed is not None and found is None:
            found = await lost(self._feed, resumed.plan, resumed.instead, resumed.cut)
        again = resumed is not None and found is not None and not found.obstacle
        self._lost = None if again else found
        if found is None or again:
            partitions = found.plan.partitions if found is not None else 1
            await topics.ensure(self._feed.log_url, self._feed.name, partitions)
        seen = await control.read(self._feed)
        start = await beginning(self._feed) if seen.plan is None else seen.plan.position
        async with session(self._feed.target_url) as target:
            names = dict.fromkeys(await tables_there(self._feed, target))
        names.update(dict.fromkeys(name for name, _ in seen.plan.tables) if seen.plan else {})
        taken = await sink.take_over(list(names), start)
        await pen.open()
        failure = await sink.settle()
        if failure is not None:
            raise TargetError(f"{self._feed.target_url}: {failure.message}", "It is tried again")
        seen = await control.read(self._feed)
        self._log, begun = await self._current_log(seen, pen, again)
        self._resumed = None
        reports = await self._reports(seen, stored=begun or self._lost is not None)
        if begun and reports:  # the end of the log before is not that of this one
            least = min((report.checkpoint for report in reports), key=lambda place: place.order)
            seen.state = seen.state and msgspec.structs.replace(seen.state, published=least)
        return FeedTaken(
            epoch=taken.epoch,
            worker=self._worker,
            start=start,
            tables=taken.tables,
            partitions=1 if self._feed.consistency == "transaction" else self._feed.partitions,
            ddl_passed=taken.ddl_passed,
            plan=seen.plan,
            feed=seen.state,
            reports=tuple(reports),
        )

    async def _current_log(self, seen: SeenControl, pen: SoleWriter, again: bool) -> tuple[PublishedLog, bool]:
        """Returns the log that the topic holds, and whether it begins here.  `again`: the source is to be published
        again.
        """
        if seen.plan is None:
            return await first_log(self._feed, pen, seen.log), False
        if again:
            return await new_log(self._feed, self._mapping, seen.plan, pen, self._control), True
        if seen.log is None:
            return (PublishedLog(0) if self._lost is not None else await first_log(self._feed, pen)), False
        if not seen.log.is_open and self._lost is None:
            return await open_log(self._feed, self._mapping, seen.plan, pen, self._control, seen.log), True
        return seen.log, False

    async def _reports(self, seen: SeenControl, *, stored: bool) -> list[GroupReport]:
        """Returns a report of each group, as it told last, or with the checkpoint that the target has (`stored`): that
        may be later.
        """
        if seen.plan is None:
            return list(seen.groups.values())
        places = await places_of(self._feed, seen.plan)
        unheard = [
            GroupReport(group=group, epoch=0, worker="", state="", resolved=place, checkpoint=place)
            for group, place in places.items()
            if group not in seen.groups
        ]
        told = [
            msgspec.structs.replace(one, checkpoint=places[one.group]) if stored else one
            for one in seen.groups.values()
            if one.group in places
        ]
        return [*told, *unheard]

    async def _released(self) -> None:
        """Waits until an operator has passed the statement, or cleared the halt."""
        while not self._stop.is_set():
            with contextlib.suppress(TargetError):
                if not await halted_group(self._feed, COORDINATOR):
                    return
            await self._rest(AGAIN_SECONDS)


class _Coordinating:
    """One epoch of a coordinator.  `halted`, `displaced`: why it ended, if it was not stopped."""

    def __init__(
        self,
        feed: Feed,
        mapping: Mapping,
        sink: Sink,
        pen: SoleWriter,
        stop: asyncio.Event,
        published: PublishedLog,
        skipped: Collection[tuple[int, int]],
    ) -> None:
        self.halted: Halt | None = None
        self.lost: LostLog | None = None
        self.displaced = ""
        self._feed = feed
        self._mapping = mapping
        self._sink = sink
        self._pen = pen
        self._stop = stop
        self._machine = Coordinator()
        self._published = published
        self._publishing = Publishing(feed, self._post, self._displace, published, skipped)
        self._lacking: dict[int, Position] = {}  # groups whose place the log no longer reaches back to
        self._look = asyncio.Event()
        self._tables: list[TableName] = []
        self._mailbox: list[CoordinatorEvent] = []
        self._wake = asyncio.Event()
        self._to_write: list[StorePlan | Announce] = []
        self._to_publisher: asyncio.Queue[StartPublisher | GoOn] = asyncio.Queue()
        self._written = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, news: News) -> None:
        """Hands news of the control topic to the machine."""
        if isinstance(news, GroupReport):
            self._post(news)
            if news.lacks is not None and news.log == self._published.number:
                self._lacking[news.group] = news.lacks
                self._look.set()

    def lose(self, lost: LostLog) -> None:
        """Halts the feed: its log is lost."""
        self.lost = lost
        self._post(SourceFailed(lost.alarm, retryable=False))

    def _post(self, event: CoordinatorEvent) -> None:
        self._mailbox.append(event)
        self._wake.set()

    def _displace(self, reason: str) -> None:
        self.displaced = self.displaced or reason
        self._wake.set()

    async def run(self, taken: FeedTaken) -> None:
        """Runs until stopped, displaced or halted.  Raises what a task raises: that is a bug."""
        self._tables = list(taken.tables)
        self._mailbox.insert(0, taken)
        self._start(self._write())
        self._start(self._drive())
        self._start(self._look_after_log())
        try:
            while not (self._stop.is_set() or self.displaced or (self.halted and not self._to_write)):
                self._step()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK_SECONDS)
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.discard(task)
                    task.result()
                self._publishing.check()
        finally:
            await self._publishing.stop()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _step(self) -> None:
        events, self._mailbox = self._mailbox or [Tick()], []
        self._wake.clear()
        for effect in self._machine.step(time.monotonic_ns() // 1000, events):
            self._carry_out(effect)

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        match effect:
            case StorePlan():
                self._to_write.append(effect)
                self._written.set()
            case Announce():
                if self._to_write and isinstance(self._to_write[-1], Announce):
                    self._to_write.pop()
                self._to_write.append(effect)
                self._written.set()
            case StartPublisher() | GoOn():
                self._to_publisher.put_nowait(effect)
            case RunStatement() | PassStatement():
                self._start(self._cross(effect))
            case Halt():
                self._start(self._halt(effect))
            case StepDown():
                self._displace(effect.reason)
            case _:
                assert_never(effect)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._wake.set())

    # ------------------------------------------------------------------ effects

    async def _write(self) -> None:
        """Writes records one after another: a plan is stored before it is announced."""
        while True:
            while self._to_write:
                effect = self._to_write[0]
                try:
                    await self._write_one(effect)
                except (KafkaError, LogError) as error:
                    self._displace(f"it cannot write to the control topic any more: {error}")
                    return
                self._to_write = [left for left in self._to_write if left is not effect]
            self._wake.set()
            self._written.clear()
            await self._written.wait()

    async def _write_one(self, effect: StorePlan | Announce) -> None:
        match effect:
            case StorePlan(plan=plan):
                await topics.ensure(self._feed.log_url, self._feed.name, plan.partitions)
                await self._pen.write(PLAN, plan)
                self._post(PlanStored(plan.version))
            case Announce(feed=feed):
                await self._pen.write(FEED, self._completed(feed))

    def _completed(self, feed: FeedState) -> FeedState:
        source = self._publishing
        return msgspec.structs.replace(
            feed,
            at_us=time.time_ns() // 1000,
            prepared=source.unanswered.xid,
            prepared_since=source.unanswered.since,
            hindrance=source.hindrance,
            silent_seconds=source.silent_seconds,
        )

    async def _drive(self) -> None:
        while True:
            effect = await self._to_publisher.get()
            if isinstance(effect, StartPublisher):
                await self._publishing.start(effect)
            else:
                await self._publishing.go_on(effect)

    async def _look_after_log(self) -> None:
        """Looks every few seconds whether the changes topic is still there: clients only wait for one that is gone.

        It looks at once where a group finds nothing that follows its place.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), LOOK_SECONDS)
            self._look.clear()
            plan = self._machine.plan
            if plan is None or isinstance(self._machine.state, Halted):
                continue
            with contextlib.suppress(LogError, TargetError):
                found = await lost_log(self._feed) or await self._cut_off(plan)
                if found is not None and not isinstance(self._machine.state, Halted):
                    self.lose(found)

    async def _cut_off(self, plan: TablePartitioning) -> LostLog | None:
        """Returns the loss of records that groups had not read, if any has told of it."""
        if not self._lacking:
            return None
        cut, self._lacking = self._lacking, {}
        return await lost(self._feed, plan, cut=cut)

    async def _cross(self, effect: RunStatement | PassStatement) -> None:
        made = [self._mapping.target(name) for name in effect.ddl.tables if self._mapping.selects(name)]
        self._tables = list(dict.fromkeys((*self._tables, *made)))
        asked = ApplyDdl(effect.id, effect.ddl, effect.end)
        answer: DdlApplied | DdlFailed
        if isinstance(effect, RunStatement):
            answer = await self._sink.apply_ddl(asked, self._tables, effect.votes)
        else:
            answer = await self._sink.pass_ddl(asked, self._tables)
        self._post(answer)

    async def _halt(self, halt: Halt) -> None:
        if await self._sink.record_halt(halt):
            self.halted = halt
        else:
            self._displace("a newer owner has taken the feed over")
