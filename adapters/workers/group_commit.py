"""Group commit between two threads: one collects what the source says, the other commits what was collected.

The capture thread hands its batches to `add`, which cuts them by the plan and encodes them into the open flush.  The
publishing loop takes the open flush whenever it is free, and while it commits that one, the next fills: the busier the
source, the larger the transactions.  Memory is bounded however large a source transaction is: there is one flush with
the committer and one open, and `add` waits while the open one is full.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

from tidelock.adapters.kafka.topics import MESSAGE_BYTES
from tidelock.adapters.kafka.wire import encode
from tidelock.adapters.ports.capture_messages import Failed
from tidelock.engine.cluster.log_partitioner import LogPartitioner
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Shape, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.model.table_partitioning import TablePartitioning

BEHIND_SECONDS: Final = 3.0  # sources tell commit times in whole seconds
BEHIND_PATIENCE: Final = 5
_OVERHEAD: Final = 128  # what Kafka adds to a value that travels alone


class TooLarge(Exception):
    """A record that the topic does not take; `args[0]` says whose rows, `hint` what to do."""

    def __init__(self, batch: LogBatch, size: int, limit: int) -> None:
        super().__init__(
            f"{_contents(batch)} behind {batch.prev} makes a record of {size:,} bytes, and the changes topic takes "
            f"{limit:,} (max.message.bytes)"
        )
        wanted = max(MESSAGE_BYTES, 2 * size)
        self.hint = (
            f"Raise the topic's max.message.bytes to {wanted} (`kafka-configs.sh --alter --entity-type topics "
            f"--entity-name TOPIC --add-config max.message.bytes={wanted}`), then `tidelock run FEED`"
        )


@dataclasses.dataclass
class Flush:
    """One Kafka transaction: `records` as (partition, value) in order.  `position`: the end of every partition after
    it.

    `rows`: how many of each table.  `statement`: its last record, in every partition.
    """

    position: Position
    end_us: int = 0
    records: list[tuple[int, bytes]] = dataclasses.field(default_factory=list)
    size: int = 0
    rows: Counter[TableName] = dataclasses.field(default_factory=Counter)
    statement: Ddl | None = None


class FlushBuffer:
    """The open flush, and its hand-over.

    `limit`: max.message.bytes of the topic.  `flush_bytes`: what an open flush holds at most, give or take a batch.
    `flush_seconds`: the least time between two flushes, unless the open one is full; far behind the source,
    `BEHIND_PATIENCE` times as long.  `cuts`: places at which each partition has a record that ends there, as the
    batches do.  Made inside the loop.
    """

    def __init__(
        self, publisher: LogPartitioner, plan: TablePartitioning, origin: str, limit: int, flush_bytes: int,
        flush_seconds: float, cuts: Iterable[Position] = (), topic: str = ""
    ) -> None:
        self._publisher = publisher
        self._plan = plan.version
        self._origin, self._topic = origin, topic
        self._limit = limit - _OVERHEAD
        self._flush_bytes = flush_bytes
        self._flush_seconds = flush_seconds
        self._cuts = frozenset(place.order for place in cuts)
        self._taken_at = 0.0
        self._open = Flush(publisher.last)
        self._failed: Failed | None = None
        self._sound = True
        self._room = threading.Condition()
        self._loop = asyncio.get_running_loop()
        self._some, self._full = asyncio.Event(), asyncio.Event()

    # ------------------------------------------------------------------ in the capture thread

    def has_room(self, seconds: float | None) -> bool:
        """Waits until `add` need not wait, or so long (None: for ever); returns whether it need not."""
        with self._room:
            return self._room.wait_for(self._is_open, seconds)

    def _is_open(self) -> bool:
        return self._open.size < self._flush_bytes and self._publisher.statement is None

    def add(self, batch: LogBatch) -> None:
        """Adds a batch; waits while the open flush is full or a statement waits for leave.

        Raises TooLarge, NoGroup: nothing that is open will be taken, `fail` must follow.
        """
        with self._room:
            self._room.wait_for(self._is_open)
            sound, self._sound = self._sound, False  # until all of the batch is in, the flush must not be settled
            flush = self._open
            for home, part in self._parts(batch):
                value = self._encoded(part)
                flush.records.append((home, value))
                flush.size += len(value)
                for number, count in Counter([row.table for row in part.rows]).items():
                    flush.rows[part.shapes[number].name] += count
            flush.statement = self._publisher.statement
            self._sound = sound
            self._call(self._some)
            if flush.size >= self._flush_bytes or flush.statement is not None:
                self._call(self._full)

    def _parts(self, batch: LogBatch) -> list[tuple[int, LogBatch]]:
        """Returns what each partition gets of the batch; at a cut all of them end, also within a flush."""
        parts = self._publisher.take(batch)
        if batch.last.order in self._cuts and self._publisher.statement is None:
            parts += self._publisher.heartbeats()
        return parts

    def fail(self, failed: Failed) -> None:
        """Ends the flow: nothing more will come.  What is open is dropped: a restart reads it again."""
        with self._room:
            self._failed = failed
            self._call(self._some)
            self._call(self._full)

    def _encoded(self, batch: LogBatch) -> bytes:
        value = encode(batch, origin=self._origin, plan=self._plan, topic=self._topic)
        if len(value) > self._limit:
            raise TooLarge(batch, len(value), self._limit)
        return value

    def _call(self, event: asyncio.Event) -> None:
        if not event.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                self._loop.call_soon_threadsafe(event.set)

    # ------------------------------------------------------------------ in the loop

    async def take(self) -> Flush | Failed:
        """Returns the open flush, settled, once there is one and its time has come; or why there are no more."""
        while True:
            await self._some.wait()
            wait = self._taken_at + self._patience() - time.monotonic()
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), wait)
            with self._room:
                if self._failed is not None:
                    return self._failed
                self._some.clear()
                self._full.clear()
                flush = self._settled() if self._sound else None
                self._room.notify_all()
            if flush is not None:
                self._taken_at = time.monotonic()
                return flush

    def _patience(self) -> float:
        """Returns the time to wait: far behind the source, larger flushes make larger batches, and nobody waits for one
        transaction.
        """
        end_us = self._publisher.end_us
        behind = end_us > 0 and time.time() - end_us / 1e6 > BEHIND_SECONDS
        return self._flush_seconds * (BEHIND_PATIENCE if behind else 1)

    def _settled(self) -> Flush | None:
        """Returns the open flush; None: nothing has happened."""
        flush, publisher = self._open, self._publisher
        flush.records += [(home, self._encoded(part)) for home, part in publisher.heartbeats()]
        if not flush.records:
            return None
        flush.position, flush.end_us = publisher.last, publisher.end_us
        self._open = Flush(publisher.last)
        return flush

    def go_on(self, plan: TablePartitioning) -> None:
        """Notes that the statement has passed everywhere."""
        with self._room:
            self._plan = plan.version
            self._publisher.go_on(plan)
            self._room.notify_all()


def _contents(batch: LogBatch) -> str:
    """Returns words for people: the statement, the row, or of many rows the largest."""
    if not batch.rows:
        return "a statement"
    largest = max(batch.rows, key=_bytes)
    row = f"the row of {_name(batch.shapes[largest.table], largest)}"
    return row if len(batch.rows) == 1 else f"a batch of {len(batch.rows)} rows, the largest {row},"


def _bytes(change: RowChange) -> int:
    """Returns about what a row takes in a record, in bytes."""
    values = [*(change.before or ()), *(change.after or ())]
    return sum(len(value) if isinstance(value, str | bytes) else 9 for value in values)


def _name(shape: Shape, change: RowChange) -> str:
    """Returns table and primary key, cut short."""
    row = change.after if change.after is not None else change.before or ()
    key = ", ".join(
        f"{column.name}={str(value)[:60]}"
        for column, value in zip(shape.columns, row, strict=True)
        if column.name in shape.primary_key
    )
    return f"{shape.name} with key {key}" if key else f"{shape.name}, which has no key"
