"""One epoch of a feed's coordinator: carries out the effects of its machine (`cluster.coordinator`) until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Coroutine
from typing import Any, Final, assert_never

import msgspec
from aiokafka.errors import KafkaError

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka import topics
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import FEED, PLAN, News, SoleWriter
from tidelock.adapters.operator.known_target import put_back
from tidelock.adapters.ports.sink import Sink, TargetError
from tidelock.adapters.process.ending import ended
from tidelock.adapters.runtime import long_statement
from tidelock.adapters.workers.copy_homes import follow_plan
from tidelock.adapters.workers.lost_log import LostLog, lost, lost_log, places_of
from tidelock.adapters.workers.publisher import PublisherProcess
from tidelock.adapters.workers.publisher_forms import PublisherForms
from tidelock.adapters.workers.publishing import Publishing
from tidelock.adapters.workers.same_file import digest
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

TICK_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 5.0


class CoordinatorTerm:
    """One epoch of a coordinator.  `halted`, `displaced`: why it ended, if it was not stopped.

    `publisher`: a process that has not begun yet; it ends with the term.  `reached`: as `Taken` has it.
    """

    def __init__(
        self,
        feed: Feed,
        mapping: Mapping,
        sink: Sink,
        pen: SoleWriter,
        stop: asyncio.Event,
        published: PublishedLog,
        skipped: Collection[tuple[int, int]],
        publisher: PublisherProcess,
        reached: Position | None,
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
        self._epoch = 0
        self._published = published
        self._publishing = Publishing(
            feed, self._post, self._displace, self._ends_short, published, publisher, skipped, reached
        )
        self._lacking: dict[int, Position] = {}  # groups whose place the log no longer reaches back to
        self._short = ""  # where the log ends, if that is before the groups' checkpoints
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

    def _ends_short(self, end: str) -> None:
        self._short = end
        self._look.set()

    def _displace(self, reason: str) -> None:
        self.displaced = self.displaced or reason
        self._wake.set()

    async def run(self, taken: FeedTaken) -> None:
        """Runs until stopped, displaced or halted.  Raises what a task raises: that is a bug."""
        self._epoch = taken.epoch
        self._tables = list(taken.tables)
        self._mailbox.insert(0, taken)
        self._publishing.forms = PublisherForms(self._feed, taken.epoch)
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
            await ended(*self._tasks)
            await self._publishing.stop()  # last: one of the tasks may have been about to start it anew

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
            case Announce(feed=feed):
                self._publishing.stored(feed.checkpoint)
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
                except TargetError as error:
                    self._displace(f"copies cannot follow the plan: {error}")
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
                # with the first one, all that an embedded run copied leaves its only group
                await follow_plan(self._feed, plan, self._epoch, plan.left if plan.version > 1 else (0,))
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
            tables=digest(self._feed),
        )

    async def _drive(self) -> None:
        while True:
            effect = await self._to_publisher.get()
            if isinstance(effect, StartPublisher):
                await self._publishing.start(effect)
            else:
                await self._publishing.go_on(effect)

    async def _look_after_log(self) -> None:
        """Looks every few seconds whether the changes topic is still there, as clients only wait for one that is gone;
        and whether the target holds what groups have told: where it does not, they wait for a coordinator to know it.

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
                elif put_back(self._machine.reports, await places_of(self._feed, plan)):
                    self._displace("the target was put back to an older state; it is taken over anew")

    async def _cut_off(self, plan: TablePartitioning) -> LostLog | None:
        """Returns the loss of records that groups had not read, or had read, if anybody has told of it."""
        if self._short:
            return await lost(self._feed, plan, short=self._short)
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
            work = self._sink.apply_ddl(asked, self._tables, effect.votes)
            answer = await long_statement.told(work, effect.ddl.statement, log.info)
        else:
            answer = await self._sink.pass_ddl(asked, self._tables)
        self._post(answer)

    async def _halt(self, halt: Halt) -> None:
        if await self._sink.record_halt(halt):
            self.halted = halt
        else:
            self._displace("a newer owner has taken the feed over")
