"""One partition of the changes topic as the log of an apply machine (`adapters.ports.log.Log`).

Faust hands records over; it may drop some in a rebalance and hand others over twice.  So where the machine's log begins
is looked for by position, what was taken before is left out by offset, and the machine's chain finds what is missing.

*Back-pressure*: records wait here as bytes.  Beyond `HIGH_BYTES` the partition is paused at the fetcher; that is enough
for a second or two of the target's work, because a fetcher with nothing to fetch sleeps for a second.

*Offsets* are committed in order and only as a hint: a record is acknowledged when the checkpoint at the target has
passed it.  In a rebalance Faust forgets acknowledgements and places; then this log goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
from aiokafka.errors import KafkaError

from tidelock.adapters.kafka.offset_finder import Places
from tidelock.adapters.kafka.wire import WireError, at, decode
from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.process.ending import ended
from tidelock.adapters.workers.silence import Silence
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.events import ApplyEvent, LogArrived, SourceFailed

HIGH_BYTES: Final = 24 << 20
LOW_BYTES: Final = 12 << 20
STEP_ROWS: Final = 2000  # what is here already is handed over together: a record a step makes five times the batches
FIRST_RESTART_SECONDS: Final = 0.2
LONGEST_RESTART_SECONDS: Final = 5.0


class Fetcher(Protocol):
    """The consumer as one partition needs it."""

    async def seek(self, offset: int) -> None:
        """Reads on from `offset`."""

    def pause(self) -> None:
        """Stops reading."""

    def resume(self) -> None:
        """Reads again."""


class TakenRecord(msgspec.Struct):
    """A record that the machine has, and the checkpoint has not passed.  `ack` None: nothing to tell Faust."""

    offset: int
    last: Position
    ack: Callable[[], object] | None


class PartitionLog:
    """The log of one partition."""

    unanswered = Unanswered()  # the publisher reads the source's log

    def __init__(self, partition: int, places: Places, fetcher: Fetcher) -> None:
        self.restarts = 0
        self.silence = Silence()
        self.lacks: Position | None = None  # the place that the topic no longer reaches back to
        self._partition = partition
        self._places = places
        self._fetcher = fetcher
        self._waiting: deque[tuple[int, bytes, Callable[[], object]]] = deque()
        self._bytes = 0
        self._paused = False
        self._news = asyncio.Event()
        self._taken: deque[TakenRecord] = deque()
        self._offset = -1  # of the last record taken
        self._sought = 0  # where the machine's log was looked for
        self._reading: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._asked = 0  # how often it was to be read on; only the newest counts
        self._delay = 0.0
        self._reached: Position | None = None  # by the machine's reader; None while its place is looked for

    @property
    def silent_seconds(self) -> float:
        """Seconds for which records have been owed and none has come."""
        return self.silence.seconds

    def owed(self, published: Position) -> bool:
        """Tells whether records are due that have not come: the log ends at `published`, beyond what is here.

        While a place is looked for none are; that has a deadline of its own.
        """
        if self._paused or self._waiting or self._reached is None:
            return False
        return published.order > self._reached.order

    def attach(self, post: Callable[[ApplyEvent], None], room: asyncio.Event) -> None:
        """Takes the function that events go to, and the event without which nothing more is handed over."""
        self._post = post
        self._room = room

    # ------------------------------------------------------------------ from the consumer

    def offer(self, offset: int, value: bytes, ack: Callable[[], object]) -> None:
        """Takes a record as Faust hands it over; `ack` acknowledges it.  Never waits."""
        self._waiting.append((offset, value, ack))
        self._bytes += len(value)
        if self._bytes > HIGH_BYTES and not self._paused:
            self._paused = True
            self._fetcher.pause()
        self._news.set()

    def ask_again(self) -> None:
        """Makes the machine ask for a resend, because nothing comes."""
        what = f"partition {self._partition} is silent while the log goes on"
        self._post(SourceFailed(Alarm("kafka", what, "It is asked for again"), retryable=True))

    async def reassigned(self) -> None:
        """Finds its place again after a rebalance: the partition is still ours, and the consumer has forgotten its
        place and acknowledgements.
        """
        self._clear()
        for record in self._taken:
            record.ack = None
        if self._reading is not None:
            await self._fetcher.seek(max(self._offset + 1, self._sought))

    def saved(self, position: Position) -> None:
        """Notes that the checkpoint at the target is at `position`."""
        taken = self._taken
        while taken and taken[0].last.order <= position.order:
            record = taken.popleft()
            if record.ack is not None:
                record.ack()

    def _clear(self) -> None:
        self._waiting.clear()
        self._bytes = 0
        self._paused = False  # the consumer forgets it in a rebalance

    # ------------------------------------------------------------------ to the machine

    def stored(self, position: Position) -> None:
        """Does nothing: the publisher reads the source's log, and Kafka keeps its own."""

    async def read_from(self, position: Position, reader: int, further: Sequence[Position] = ()) -> None:
        """Reads on behind `position`.  `further` needs no look: whatever becomes of the source, Kafka keeps all records
        that receipts are of.  A reader that was asked for while an older one still looks for its place replaces it:
        else each would wait for those before it, and end what they had begun.
        """
        asked = self._asked = self._asked + 1
        async with self._turn:
            self._reached = None
            if self._reading is not None:
                self.restarts += 1
                await ended(self._reading)
                self._reading = None
                await asyncio.sleep(self._delay)  # back off, not synchronisation
                self._delay = min(max(self._delay * 2, FIRST_RESTART_SECONDS), LONGEST_RESTART_SECONDS)
            if asked != self._asked:  # what would be read here, the newer reader reads
                return
            self._reading = asyncio.current_task()
            failed = await self._seek(position)
        if failed is None:
            failed = await self._read(position, reader)
        self._post(failed)

    async def _seek(self, position: Position) -> SourceFailed | None:
        try:
            # A log that is published again may not have come so far.
            offset = await self._places.find(self._partition, position, to_come=True)
        except WireError as error:
            return SourceFailed(Alarm("wire", str(error), error.hint, str(position)), retryable=False)
        except KafkaError as error:
            return SourceFailed(Alarm("kafka", str(error), "Is the broker up?", str(position)), retryable=True)
        self.lacks = position if offset is None else None
        if offset is None:
            return SourceFailed(_too_short(self._partition, position), retryable=True)
        self._fetcher.resume()  # whoever had the partition before may have paused it
        self._clear()
        self._taken.clear()
        self._offset, self._sought, self._reached = -1, offset, position
        await self._fetcher.seek(offset)
        return None

    async def _read(self, position: Position, reader: int) -> SourceFailed:
        begun, rows, reached = False, 0, position.order
        while True:
            await self._room.wait()
            offset, value, ack = await self._next()
            if offset <= self._offset or offset < self._sought:
                self._again(offset, ack)
                continue
            try:
                batch = decode(value, self._places.topic).batch
            except WireError as error:
                if (self._partition, offset) in self._places.skipped:
                    ack()
                    continue
                placed = at(error, self._partition, offset)
                return SourceFailed(Alarm("wire", str(placed), placed.hint, str(position)), retryable=False)
            if batch.prev.order > reached:  # it was on its way when the place was sought
                continue
            if not begun:
                if batch.prev.order < position.order:
                    continue
                begun = batch.resent = True
            self.silence.heard()
            self._offset, self._reached, reached = offset, batch.last, batch.last.order
            self._taken.append(TakenRecord(offset, batch.last, ack))
            self._delay = 0.0
            self._post(LogArrived([batch], reader, len(value)))
            rows += len(batch.rows)
            if rows >= STEP_ROWS:
                rows = 0
                await asyncio.sleep(0)  # the machine says whether there is room for more

    async def _next(self) -> tuple[int, bytes, Callable[[], object]]:
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        offset, value, ack = self._waiting.popleft()
        self._bytes -= len(value)
        if self._paused and self._bytes < LOW_BYTES:
            self._paused = False
            self._fetcher.resume()
        return offset, value, ack

    def _again(self, offset: int, ack: Callable[[], object]) -> None:
        """Handles a record that was taken before and is handed over again."""
        for record in self._taken:
            if record.offset == offset:
                record.ack = ack
                return
        ack()

    async def close(self) -> None:
        """Pauses the partition; nothing more is handed over."""
        if self._reading is not None and self._reading is not asyncio.current_task():
            await ended(self._reading)


def _too_short(partition: int, position: Position) -> Alarm:
    return Alarm(
        "gap",
        f"partition {partition} of the changes topic no longer reaches back to {position}, where its group stands",
        "The coordinator of the feed halts it and says what to do",
        str(position),
    )
