"""The publisher as its coordinator controls it: started, held at the log's end, let go on, started anew with a delay.

To hold it, it is not started: its id is taken (which shuts any older publisher out) and the log's end is read, which
nobody can move then.  A log that ends with a statement needs no holding: every publisher waits there by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from aiokafka.errors import KafkaError

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.kafka.connection import client_options
from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.topics import changes_topic
from tidelock.adapters.kafka.wire import WireError
from tidelock.adapters.ports.capture_messages import Failed, Learned, Unanswered
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.complaint import Complaint
from tidelock.adapters.process.ending import ended
from tidelock.adapters.process.way_out import of_workers
from tidelock.adapters.wiring.capture_order import order_of
from tidelock.adapters.workers.log_end import LogEnd, Short, Uneven, read_end
from tidelock.adapters.workers.new_log import publisher_id, reader_name, shut_out
from tidelock.adapters.workers.publisher import PublisherProcess
from tidelock.adapters.workers.publisher_forms import PublisherForms
from tidelock.adapters.workers.publisher_messages import SHORT, AtStatement, Published, PublishOrder
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.model.table_partitioning import TablePartitioning
from tidelock.engine.protocol.coordinator_messages import (
    CoordinatorEvent,
    GoOn,
    LogGrew,
    StartPublisher,
    StatementReached,
)
from tidelock.engine.protocol.events import SourceFailed
from tidelock.engine.protocol.published_log import PublishedLog

log = logging.getLogger(__name__)

FIRST_RESTART_SECONDS: Final = 0.2
LONGEST_RESTART_SECONDS: Final = 10.0
FENCED: Final = "Fenced"
TELLS_SECONDS: Final = 2.0


class Publishing:
    """The publisher.  `post` takes what it says.  `displaced` is called when another publisher has shut ours out,
    `short` with the log's end where that is before the groups' checkpoints.

    `log`: which one it publishes.  `first`: the process that publishes first; those after it are started when they are
    needed.  `skipped`: records that an operator passed over, by partition and offset.  `reached`: where all groups were
    when the feed was taken over, as the target has it.
    """

    def __init__(
        self,
        feed: Feed,
        post: Callable[[CoordinatorEvent], None],
        displaced: Callable[[str], None],
        short: Callable[[str], None],
        log: PublishedLog,
        first: PublisherProcess,
        skipped: Collection[tuple[int, int]] = (),
        reached: Position | None = None,
    ) -> None:
        self._feed = feed
        self.log = log
        self._skipped, self._reached = skipped, reached
        self._post = post
        self._displaced = displaced
        self._short = short
        assert feed.log_url is not None, "the feed's log is in Kafka"
        self._url = feed.log_url
        self._kafka = client_options(feed.log_url)
        self._topic = changes_topic(feed.name)
        self._id = publisher_id(feed)
        self._first: PublisherProcess | None = first
        self._process: PublisherProcess | None = None
        self._stored: Position | None = None
        self.forms: PublisherForms | None = None
        """Keeps forms of tables, of a source whose reader learns them; else None."""
        self._start: StartPublisher | None = None
        self._running: asyncio.Task[None] | None = None
        self._delay = 0.0
        self._heard: float | None = None  # when the source's log last went on; None: nothing is asked for
        self.hindrance = ""
        """Why the publisher was started anew, until the source's log goes on."""
        self._failing = Complaint(logging.getLogger(__name__))

    async def start(self, effect: StartPublisher) -> None:
        """Starts a publisher in place of any before."""
        await self._end()
        delay, self._delay = self._delay, min(max(self._delay * 2, FIRST_RESTART_SECONDS), LONGEST_RESTART_SECONDS)
        self._start = effect
        self._heard = self._heard or time.monotonic()
        self._begin(self._run(effect, delay))

    async def go_on(self, effect: GoOn) -> None:
        """Lets it publish behind the statement."""
        self._heard = time.monotonic()
        if self._process is not None:
            await self._process.go_on(effect.plan)
        elif self._start is not None:
            await self._end()
            self._begin(self._publish(effect.plan, self._start))

    async def stop(self) -> None:
        """Ends it."""
        await self._end()
        if self._first is not None:
            await self._first.stop()

    def stored(self, position: Position) -> None:
        """Notes that every group has stored this checkpoint, or a later one."""
        if position != self._stored:
            self._stored = position
            if self._process is not None:
                self._process.tell_stored(position)

    @property
    def unanswered(self) -> Unanswered:
        """The transaction that the source has prepared for long and not decided, as far as the present publisher has
        seen it.
        """
        return self._process.unanswered if self._process is not None else Unanswered()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the source's log went on; an idle source reports that each second."""
        return 0.0 if self._heard is None else max(0.0, time.monotonic() - self._heard - TELLS_SECONDS)

    def check(self) -> None:
        """Raises the error that ended our side of the conversation: that is a bug."""
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._running = asyncio.create_task(work)

    async def _end(self) -> None:
        if self._running is not None:
            await ended(self._running)
            self._running = None
        if self._process is not None:
            await self._process.stop()
            self._process = None

    async def _run(self, effect: StartPublisher, delay: float) -> None:
        await asyncio.sleep(delay)  # back off, not synchronisation
        if effect.hold:
            end = await self._hold(effect)
            if isinstance(end, SourceFailed):
                self._post(end)
                return
            if isinstance(end, Short):
                self._short(str(end))
                return
            if end.statement is None:
                self._post(LogGrew(end.position))
                return
        await self._publish(effect.plan, effect)

    async def _hold(self, effect: StartPublisher) -> LogEnd | SourceFailed | Short:
        bases = dict(enumerate(self.log.bases))
        try:
            await shut_out(self._kafka, self._id)
            async with Places(self._kafka, self._topic, self._skipped, bases) as places:
                return await read_end(places, effect.plan, effect.start, self._reached)
        except KafkaError as error:
            return SourceFailed(
                Alarm("kafka", f"the end of the log cannot be read: {error}", "Is the broker up?"), True
            )
        except Short as short:
            return short
        except (Uneven, WireError) as error:
            return SourceFailed(Alarm("log", str(error), error.hint), retryable=False)

    async def _publish(self, plan: TablePartitioning, effect: StartPublisher) -> None:
        try:
            forms = await self.forms.all(effect.start) if self.forms is not None else ()
        except TargetError as error:
            self.hindrance = f"the target: {error}"
            self._post(SourceFailed(Alarm("target", str(error), error.hint), retryable=True))
            return
        order = PublishOrder(
            capture=order_of(
                self._feed,
                effect.start,
                cuts=self.log.places,
                stored=self._stored or effect.start,
                reader_name=reader_name(self._feed),
                forms=forms,
                keeps_forms=True,
            ),
            log=self._url,
            topic=self._topic,
            transactional_id=self._id,
            plan=plan,
            skipped=tuple(self._skipped),
            bases=self.log.bases,
            reached=self._reached,
        )
        process = self._process = await self._next_process()
        await process.begin(order)
        first = True
        while await self._hear(process, first):
            first = False

    async def _next_process(self) -> PublisherProcess:
        first, self._first = self._first, None
        if first is not None and first.running:
            return first
        if first is not None:
            await first.stop()
        return PublisherProcess(self._feed.source_url)

    async def _hear(self, process: PublisherProcess, first: bool) -> bool:
        """Takes a message, and returns whether there is more to come.  `first`: what it says before it has asked the
        source.
        """
        before = process.unanswered
        said = await process.next()
        if process.unanswered not in (before, Unanswered()):
            log.warning("feed %s: %s", self._feed.name, process.unanswered)
        match said:
            case Published() as said:
                if first and self.forms is not None and not await self._kept(self.forms.read_on(said.position)):
                    return False
                if not first:
                    self._heard, self.hindrance = time.monotonic(), ""
                    self._failing.over()
                if said.rows:
                    self._delay = 0.0
                self._post(LogGrew(said.position, said.rows))
            case AtStatement() as said:
                self._heard, self.hindrance = None, ""
                self._post(StatementReached(said.ddl, said.position))
            case Learned(forms=forms):
                assert self.forms is not None, "it was told to wait for them"
                if not await self._kept(self.forms.keep(forms)):
                    return False
                await process.forms_kept()
            case Failed() as failed if failed.kind == FENCED:
                self._displaced(failed.message)
                return False
            case Failed() as failed if failed.kind == SHORT:
                self._short(failed.message)
                return False
            case Failed() as failed:
                if failed.retryable:
                    self.hindrance = f"the {failed.at}: {failed.message}"
                    self._failing.tell(f"feed {self._feed.name} is not published, and tried again: {failed.message}")
                else:
                    self.hindrance = ""
                self._post(SourceFailed(Alarm("publisher", failed.message, of_workers(failed.hint)), failed.retryable))
                return False
        return True

    async def _kept(self, work: Coroutine[Any, Any, None]) -> bool:
        """Does what forms of tables are kept with at the target; returns whether it is done.  Else the feed halts."""
        try:
            await work
        except TargetError as error:
            why = f"forms of the source's tables cannot be kept: {error}"
            self._post(SourceFailed(Alarm("TargetError", why, of_workers(error.hint)), retryable=False))
            return False
        return True
