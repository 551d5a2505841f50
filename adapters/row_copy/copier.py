"""The copier as the engine's process sees it: it asks a child process, which starts when it is needed, and Spark in it
when a table is large.

Java and its helpers take hundreds of megabytes, so they live in that process's tree and end with it: when this process
closes it or dies, and when there was nothing to do for a while.  A process that dies fails what it was asked; the next
order starts another.  The table groups of a worker share it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.process.child import Child, Ended
from tidelock.adapters.row_copy import orders
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk
from tidelock.engine.protocol.events import ChunkFailed, ChunksPlanned, ChunkStaged

IDLE_SECONDS: Final = 120.0
SILENT_SECONDS: Final = 60.0
STOP_SECONDS: Final = 5.0
"""How long a group's end waits for reads of its own that were stopped, while other groups go on in the process."""
_ANSWER: Final = msgspec.msgpack.Decoder(orders.CopyAnswer)


class CopierProcess:
    """The child process of a feed's copies."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[orders.CopyAnswer]] = {}
        self._starting = asyncio.Lock()
        self._child: Child | None = None
        self._listener: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, where one runs."""
        return self._child.pid if self._child is not None else None

    def number(self) -> int:
        """Returns a number for an order."""
        return next(self._numbers)

    def stop(self, group: int, attempt: EffectId) -> None:
        """Stops the read of an attempt."""
        if self._child is not None:
            self._child.post(orders.StopOrder(group, attempt))

    async def close(self) -> None:
        """Ends the child process."""
        async with self._starting:
            self._calm()
            child, self._child = self._child, None
            if child is not None:
                await child.stop()
            if self._listener is not None:
                await asyncio.gather(self._listener, return_exceptions=True)

    async def ask(self, order: orders.PlanOrder | orders.ReadOrder) -> asyncio.Future[orders.CopyAnswer]:
        """Sends an order; its answer comes, or the end of the process does, whether anybody waits for it or not."""
        future: asyncio.Future[orders.CopyAnswer] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _: self._answered(order.number))
        self._calm()
        await self._send(order, future)
        return future

    def _answered(self, number: int) -> None:
        self._asked.pop(number, None)
        if not self._asked and self._child is not None:
            self._calm()
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._rest)

    async def _send(
        self, order: orders.PlanOrder | orders.ReadOrder, future: asyncio.Future[orders.CopyAnswer]
    ) -> None:
        async with self._starting:
            if self._child is None:
                child = Child("tidelock.adapters.row_copy.process", "copying")
                await child.connect()
                child.post(orders.Begin(self._feed))
                self._child = child
                self._listener = asyncio.get_running_loop().create_task(self._listen(child))
            self._asked[order.number] = future
            self._child.post(order)

    async def _listen(self, child: Child) -> None:
        while not isinstance(frame := await child.receive(), Ended):
            answer: orders.CopyAnswer = _ANSWER.decode(frame[1])
            if (future := self._asked.get(answer.number)) is not None and not future.done():
                future.set_result(answer)
        if self._child is child:  # nobody asked it to end
            self._child = None
            await child.stop()
        for number, future in list(self._asked.items()):
            if not future.done():
                future.set_result(orders.Unread(number, str(frame)))

    def _rest(self) -> None:
        """Ends the child process once nothing was asked for a while."""
        self._closing = asyncio.get_running_loop().create_task(self.close())

    def _calm(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


class SparkCopier:
    """A `Copier` (`adapters.ports.copier`).  `tell`: takes messages for the operator.  `group`: the feed's.

    `shared`: the process of several groups, which goes on when this copier closes; None: it has one of its own.
    """

    def __init__(
        self, feed: Feed, tell: Callable[[str], None], group: int = 0, shared: CopierProcess | None = None
    ) -> None:
        self._process = shared or CopierProcess(feed)
        self._alone = shared is None
        self._group = group
        self._tell = tell
        self._reads: dict[EffectId, asyncio.Future[orders.CopyAnswer]] = {}  # they outlive who waits for them
        self._told: tuple[str, float] = ("", 0.0)

    @property
    def pid(self) -> int | None:
        """The child's process id, where one runs."""
        return self._process.pid

    async def plan(self, wanted: Sequence[Wanted], tables: Mapping[TableName, TargetTable]) -> ChunksPlanned | Alarm:
        """Asks how to split what is queued."""
        there = tuple(tables[name] for name in dict.fromkeys(wish.table for wish in wanted) if name in tables)
        order = orders.PlanOrder(self._group, self._process.number(), tuple(wanted), there)
        answer = await asyncio.shield(await self._process.ask(order))
        match answer:
            case orders.Planned():
                return ChunksPlanned(answer.splits)
            case orders.Unplanned():
                return answer.alarm
        assert isinstance(answer, orders.Unread)
        return Alarm("copy", answer.why, "See the message before; then `tidelock copy` again")

    async def read(self, effect: ReadChunk, tables: Mapping[TableName, TargetTable]) -> ChunkStaged | ChunkFailed:
        """Asks to read and stage a chunk."""
        table = tables.get(effect.split.table)
        if table is None:
            self._complain(f"{effect.split.table} cannot be copied: the target has no such table")
            return ChunkFailed(effect.id)
        order = orders.ReadOrder(self._group, self._process.number(), effect, table)
        reading = self._reads[effect.id] = await self._process.ask(order)
        reading.add_done_callback(lambda _: self._reads.pop(effect.id, None))
        answer = await asyncio.shield(reading)
        if isinstance(answer, orders.ReadDone):
            return answer.event
        if isinstance(answer, orders.Unread) and answer.why:
            self._complain(answer.why)
        return ChunkFailed(effect.id)

    def stop(self, staged: EffectId) -> None:
        """Stops the read of an attempt."""
        self._process.stop(self._group, staged)

    async def close(self) -> None:
        """Ends the child process, or what it does for this group."""
        if self._alone:
            await self._process.close()
            return
        reading = dict(self._reads)
        for attempt in reading:
            self.stop(attempt)
        if reading:
            await asyncio.wait(reading.values(), timeout=STOP_SECONDS)

    def _complain(self, why: str) -> None:
        """Tells the operator of a failure once a minute, because the same is tried again every second."""
        told, at = self._told
        if why != told or time.monotonic() - at > SILENT_SECONDS:
            self._told = why, time.monotonic()
            self._tell(why)
