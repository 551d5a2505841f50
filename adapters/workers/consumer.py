"""Faust's consumer with what our log needs: committed records only, and a place in the partition that we choose.

Both settings are fixed inside Faust.  It reads committed records for `exactly_once` alone, whose transactions are not
wanted here.  It lets a fetch wait for 1.5 s at the end of a partition, which holds up all others of the same broker,
and a seek as well. tests/adapters/test_consumer.py holds them against a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
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
    """The consumer's thread, with our settings."""

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class AnyOffset(int):
    """The offset of the last record that was handed over.  No other is below it: `offset >= last` is always true."""

    def __le__(self, other: int) -> bool:
        return True


class ReadOffsets(defaultdict[TP, int | None]):
    """Faust's record of the last offset of each partition, from which it tells gaps, and drops what is below.

    At a seek it may be in the middle of a fetch.  It goes on with that, and would then drop all that the seek was for:
    with a backlog each seek fails so.  What is a duplicate the partition's log knows itself.
    """

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def __setitem__(self, partition: TP, offset: int | None) -> None:
        super().__setitem__(partition, None if offset is None else AnyOffset(offset))


class CommittedConsumer(driver.Consumer):
    """The consumer, with our thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._read_offset = ReadOffsets()

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


class PartitionFetcher:
    """`adapters.workers.partition.Fetcher` over Faust's consumer."""

    def __init__(self, app: faust.App, tp: TP) -> None:
        self._app = app
        self._tp = tp

    async def seek(self, offset: int) -> None:
        """Seeks in the consumer's own thread, which may be in the middle of a fetch: Faust's seek would crash it for
        good.

        Faust commits only what follows its last commit without a hole, and would wait for ever for what the seek passed
        over; after every rebalance it would then read from that old commit again.  So its records of commits begin anew
        here.
        """
        consumer: Any = self._app.consumer
        thread = consumer._thread
        await thread.call_thread(thread._ensure_consumer().seek, self._tp, offset)
        consumer._read_offset[self._tp] = offset or None
        consumer._committed_offset[self._tp] = None
        for book in (consumer._gap, consumer._acked, consumer._acked_index):
            book.pop(self._tp, None)

    def pause(self) -> None:
        """Stops fetching from the partition."""
        self._app.consumer.pause_partitions({self._tp})

    def resume(self) -> None:
        """Fetches again."""
        self._app.consumer.resume_partitions({self._tp})
