"""`tidelock worker`: a worker in a process of its own, with our signals, progress and exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import Final

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.operator.copies import unfinished
from tidelock.adapters.operator.feed_control import books
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.ports.source_errors import OtherHistory
from tidelock.adapters.process.service_manager import ServiceManager
from tidelock.adapters.process.signals import heard
from tidelock.adapters.process.stuck import waiting
from tidelock.adapters.runtime.progress import Progress
from tidelock.adapters.runtime.service_watch import ServiceWatch
from tidelock.adapters.wiring.sources import keeps_for_us, overview_of, source_of
from tidelock.adapters.workers.worker import NoRecordsReceived, Worker
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.group_reports import FeedState

OK, FAILED, OPERATOR = 0, 1, 4
SAMPLE_SECONDS: Final = 0.25
STOP_SECONDS: Final = 30.0


async def work(
    feed: Feed,
    name: str,
    until_caught_up: bool,
    progress: Progress,
    socket: str = "",
    manager: ServiceManager | None = None,
) -> int:
    """Runs a worker until a signal comes, or the whole feed has caught up with what the source has now.
    `manager`: is told of it.

    Raises LogError, NameTaken, OtherTables, SourceError, StrangeTarget: the operator must correct something first.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidelock").setLevel(logging.INFO)
    # While a broker is away each of our clients says so hundreds of times a second; what follows from it, we say.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    goal = await asyncio.to_thread(_goal, feed) if until_caught_up else None
    worker = Worker(feed, name, watched=True, http_socket=socket)
    stop, manager = asyncio.Event(), manager or ServiceManager({})
    loop = asyncio.get_running_loop()
    watch = ServiceWatch(manager, lambda: [one.shell for one in worker.groups.values() if one.shell is not None])
    shown = [loop.create_task(_show(worker, progress)), loop.create_task(watch.run())]

    def told_to_stop() -> None:
        manager.stopping()
        stop.set()

    with heard(told_to_stop):
        try:
            await worker.begin()
            await worker.app.start()
            manager.ready()
            return await _until(worker, stop, goal, progress)
        finally:
            for task in shown:
                task.cancel()
            await asyncio.gather(*shown, return_exceptions=True)
            await _stopped(worker)


async def _stopped(worker: Worker) -> None:
    """Stops the worker in order.  A process that cannot end so ends all the same, or nobody would start it anew."""
    with contextlib.suppress(asyncio.CancelledError):
        ending = asyncio.ensure_future(worker.app.stop())
        await asyncio.wait([ending], timeout=STOP_SECONDS)
        if not ending.done():
            words = "the worker did not stop in %.0f s, and ends as it is; its tasks wait here:\n%s"
            logging.getLogger(__name__).error(words, STOP_SECONDS, "\n".join(waiting()))
            os._exit(FAILED)
        ending.result()


def _goal(feed: Feed) -> Position:
    return overview_of(feed).now


async def _until(worker: Worker, stop: asyncio.Event, goal: Position | None, progress: Progress) -> int:
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), SAMPLE_SECONDS)
        if isinstance(worker.failed, NoRecordsReceived):
            progress.error(f"{worker.failed}; start the worker again")
            return FAILED
        if worker.failed is not None:
            raise worker.failed
        if worker.app.should_stop:
            reason = worker.app.crash_reason
            why = f": {str(reason) or type(reason).__name__}" if reason is not None else ""
            progress.error(f"the worker lost its place in Kafka's group{why}; start it again")
            return FAILED
        state = worker.control.state
        if goal is not None and state is not None and state.alarm is not None:
            progress.error(str(state.alarm))
            return OPERATOR
        state = worker.fresh
        if goal is not None and state is not None and await _caught_up(worker, state, goal, progress):
            return OPERATOR if worker.parked else OK
    return OK


async def _caught_up(worker: Worker, state: FeedState, goal: Position, progress: Progress) -> bool:
    """Tells whether the feed is at the goal, in the log that it was set in, and copies nothing."""
    return (
        _reached(worker.feed, state).order >= goal.order
        and await _of_that_log(worker, state.checkpoint, progress)
        and not await _copying(worker.feed)
    )


def _reached(feed: Feed, state: FeedState) -> Position:
    """Returns how far the feed is.  Of a source that keeps its log for us, places where nothing happened to the feed's
    tables are stored rarely: what is committed there counts, and groups store it as they end."""
    return state.resolved if keeps_for_us(feed.source_url) else state.checkpoint


async def _of_that_log(worker: Worker, checkpoint: Position, progress: Progress) -> bool:
    """Compares a checkpoint with the log: one of another log compares with nothing, and the publisher, which asks as
    well, halts the feed.
    """
    try:
        await asyncio.to_thread(source_of(worker.feed.source_url).confirm, checkpoint)
    except OtherHistory as other:
        progress.message(str(other))
        return False
    return True


async def _copying(feed: Feed) -> bool:
    """Tells whether tables are queued to be copied, or being copied; yes while the target does not say."""
    try:
        async with books(feed) as book:
            return await unfinished(book)
    except TargetError:
        return True


async def _show(worker: Worker, progress: Progress) -> None:
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        progress.update(worker.latest)
