"""Faust's consumer with what our log needs: committed records only, and a place in the partition that we choose.

Both settings are fixed inside Faust.  It reads committed records for `exactly_once` alone, whose transactions are not
wanted here.  It lets a fetch wait for 1.5 s at the end of a partition, which holds up all others of the same broker,
and a seek as well. tests/adapters/test_consumer.py holds them against a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, cast

import faust
from aiokafka import AIOKafkaConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

FETCH_WAIT_MS: Final = 100
LEAVE_SECONDS: Final = 2.0

# Its services tell under this name of every start and stop, and warn of sensors that we do not use.
logging.getLogger(__name__).setLevel(logging.ERROR)


class App(faust.App):
    """A Faust app with our consumer.  `before_joining`: what must be done before it joins its group; may raise."""

    before_joining: Callable[[], Awaitable[None]] | None = None

    async def on_start(self) -> None:
        """Starts, once nothing speaks against joining."""
        if self.before_joining is not None:
            await self.before_joining()
        await super().on_start()

    def _create_directories(self) -> None:
        """Makes no directories: there are no tables, and the local disk holds nothing."""


class CommittedThread(driver.AIOKafkaConsumerThread):
    """The consumer's thread, with our settings.

    `seeks`: how often each partition was put to another place; `seen_seeks`: the same when records were fetched last.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seeks: Counter[TP] = Counter()
        self.seen_seeks: Mapping[TP, int] = {}

    def seek_here(self, tp: TP, offset: int) -> None:
        """Reads on from `offset`.  To be called in this thread, which may be in the middle of a fetch: Faust's own seek
        would crash it for good.
        """
        self._ensure_consumer().seek(tp, offset)
        self.seeks[tp] += 1

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> Any:
        records = await super()._fetch_records(*args, **kwargs)
        self.seen_seeks = dict(self.seeks)  # nothing has come between: the records are those of this moment
        return records

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class CommittedConsumer(driver.Consumer):
    """The consumer, with our thread, and with seeks that a fetch under way does not undo.

    Faust leaves out each record before the last one that it handed over.  With a backlog some hundred fetched records
    are on their way when a seek comes; handed over behind it, they would make Faust leave out what was sought.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sought: dict[TP, int] = {}

    async def seek_to(self, tp: TP, offset: int) -> None:
        """Reads on from `offset`; what was fetched before is not handed over any more."""
        thread = cast(Any, self)._thread
        self._sought[tp] = offset
        await thread.call_thread(thread.seek_here, tp, offset)
        self._begin_at(tp)

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:  # noqa: ASYNC109
        """Fetches records of all partitions once; those that a seek has overtaken are left out."""
        thread = cast(Any, self)._thread
        async for tp, message in super().getmany(timeout):
            if thread.seeks[tp] != thread.seen_seeks.get(tp, 0):
                continue
            yield tp, message
            if thread.seeks[tp] != thread.seen_seeks.get(tp, 0):  # while it was handed over
                self._begin_at(tp)

    def _begin_at(self, tp: TP) -> None:
        """Lets Faust's records of what was read and committed begin anew.

        Faust commits only what follows its last commit without a hole, and would wait for ever for what the seek passed
        over; after every rebalance it would then read from that old commit again.
        """
        consumer = cast(Any, self)
        consumer._read_offset[tp] = self._sought[tp] or None
        consumer._committed_offset[tp] = None
        for book in (consumer._gap, consumer._acked, consumer._acked_index):
            book.pop(tp, None)

    async def perform_seek(self) -> None:
        """Does nothing, where Faust would go to the committed offsets: each group sets its partition's place."""

    def _new_consumer_thread(self) -> Any:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(driver.Transport):
    """The transport, with our consumer."""

    Consumer = CommittedConsumer


async def leave(app: faust.App) -> None:
    """Gives the place in the group up at once: others get its partitions without waiting for its session to end.

    A static member's client would keep its place (aiokafka), which is meant for one that is killed and comes back.
    """
    consumer: Any = cast(Any, app)._consumer
    thread = consumer and consumer._thread
    if thread is None or thread._consumer is None:
        return  # it never joined

    async def close() -> None:
        coordinator = thread._consumer._coordinator
        coordinator._group_instance_id = None
        await coordinator.close()

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(thread.call_thread(close), LEAVE_SECONDS)


async def share_out_again(app: faust.App) -> None:
    """Asks the group to share its partitions out anew, which it does where we are the member that leads it."""
    consumer: Any = cast(Any, app)._consumer
    thread = consumer and consumer._thread
    if thread is None or thread._consumer is None:
        return

    async def ask() -> None:
        thread._consumer._coordinator.request_rejoin()

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(thread.call_thread(ask), LEAVE_SECONDS)


class PartitionFetcher:
    """`adapters.workers.partition.Fetcher` over Faust's consumer."""

    def __init__(self, app: faust.App, tp: TP) -> None:
        self._app = app
        self._tp = tp

    async def seek(self, offset: int) -> None:
        """Reads on from `offset`."""
        await cast(CommittedConsumer, self._app.consumer).seek_to(self._tp, offset)

    def pause(self) -> None:
        """Stops fetching from the partition."""
        self._app.consumer.pause_partitions({self._tp})

    def resume(self) -> None:
        """Fetches again."""
        self._app.consumer.resume_partitions({self._tp})
