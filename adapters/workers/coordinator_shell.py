"""The shell around a feed's coordinator (`cluster.coordinator`): run by the worker that owns partition 0 of `control`.

It takes the feed over (`coordinator_takeover`), coordinates for one epoch (`coordinator_term`), and begins anew where
it was displaced, or where an operator has ended the halt of its feed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from aiokafka.errors import KafkaError

from tidelock.adapters.bookkeeping.checkpoints import COORDINATOR
from tidelock.adapters.checks.refusals import refusals
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.rules import rules_of
from tidelock.adapters.kafka.connection import LogError
from tidelock.adapters.kafka.control import ControlTopic, SoleWriter
from tidelock.adapters.operator.feed_control import halted_group
from tidelock.adapters.ports.sink import Sink, TargetError
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.process.way_out import of_workers
from tidelock.adapters.wiring.session import session
from tidelock.adapters.wiring.sinks import make_sink
from tidelock.adapters.workers.coordinator_takeover import CoordinatorTakeover
from tidelock.adapters.workers.coordinator_term import CoordinatorTerm
from tidelock.adapters.workers.lost_log import LostLog
from tidelock.adapters.workers.publisher import PublisherProcess
from tidelock.adapters.workers.vacant import VacancyNotice
from tidelock.engine.capture.mapping import Mapping

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 2.0
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
        self._vacant = VacancyNotice(log, control_topic, "feed", worker)
        self._resumed: LostLog | None = None  # why it halted until an operator ended that
        self._publisher: PublisherProcess | None = None  # of the term that is about to begin

    async def run(self) -> None:
        """Coordinates until stopped.  Raises only what is a bug."""
        try:
            while not self._stop.is_set():
                try:
                    await self._coordinate()
                except (TargetError, SourceError, LogError, KafkaError) as error:
                    what, hint = getattr(error, "message", error), of_workers(getattr(error, "hint", ""))
                    await self._vacant.tell(f"feed {self._feed.name} has no coordinator", f"{what}. {hint}")
                    await self._rest(AGAIN_SECONDS)
        finally:
            if self._publisher is not None:
                await self._publisher.stop()

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
            term = await self._serve(sink, pen)
        finally:
            await pen.close()
            await sink.close()
        if term.halted is not None:
            log.error("feed %s halted: %s", self._feed.name, term.halted.alarm)
            await self._released()
            self._resumed = term.lost
        elif term.displaced:
            log.warning("feed %s: this coordinator is over, %s", self._feed.name, term.displaced)
            self._ours.clear()
            await self._rest(DISPLACED_SECONDS, self._ours)

    async def _serve(self, sink: Sink, pen: SoleWriter) -> CoordinatorTerm:
        """Takes the feed over and coordinates for one epoch; returns that, ended.

        The process that will publish is started first: its imports take as long as the takeover."""
        if self._publisher is None:
            self._publisher = PublisherProcess(self._feed.source_url)
        takeover = CoordinatorTakeover(self._feed, self._mapping, self._worker, self._control, sink, pen, self._resumed)
        try:
            taken = await takeover.run()
        finally:
            self._resumed = takeover.resumed
        await self._vacant.over()
        skipped = self._control.seen.skipped
        publisher, self._publisher = self._publisher, None
        term = CoordinatorTerm(
            self._feed, self._mapping, sink, pen, self._stop, taken.log, skipped, publisher, taken.reached
        )
        if taken.lost is not None:
            term.lose(taken.lost)
        unwatch = self._control.watch(term.hear)
        try:
            await term.run(taken.feed)
        finally:
            unwatch()
        return term

    async def _released(self) -> None:
        """Waits until an operator has passed the statement, or cleared the halt."""
        while not self._stop.is_set():
            with contextlib.suppress(TargetError):
                if not await halted_group(self._feed, COORDINATOR):
                    return
            await self._rest(AGAIN_SECONDS)
