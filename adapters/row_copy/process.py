"""The process that reads for a copy: it plans, starts Spark when it is first needed, and reads several chunks at once.
Small tables it reads itself (`direct`).

Started as `python -m tidelock.adapters.row_copy.process FD`.  On the socket FD come a `Begin`, then orders (`orders`).
It ends when the other side closes the socket or is gone, and Java ends with it, when the pipe from this process closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.process.frames import receive, send
from tidelock.adapters.row_copy.direct import large
from tidelock.adapters.row_copy.failing import alarm, look_for_spark, told
from tidelock.adapters.row_copy.jobs import Jobs
from tidelock.adapters.row_copy.orders import (
    ANSWER,
    Begin,
    CopyAnswer,
    CopyOrder,
    Planned,
    PlanOrder,
    ReadDone,
    ReadOrder,
    StopOrder,
    Unplanned,
    Unread,
)
from tidelock.adapters.row_copy.reading import Request, read
from tidelock.adapters.row_copy.scans import Scans
from tidelock.adapters.row_copy.source import CopySource
from tidelock.adapters.row_copy.splitting import splits, wanted_sources
from tidelock.adapters.wiring.source_tables import tables_at
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.protocol.effects import EffectId, ReadChunk

THREADS: Final = 16
COLLECT_SECONDS: Final = 0.2
END_SECONDS: Final = 4.0  # of an orderly end; Java goes in any case, when this process has
_BEGIN: Final = msgspec.msgpack.Decoder(Begin)
_ORDER: Final = msgspec.msgpack.Decoder(CopyOrder)


def main() -> None:
    """Serves orders until the socket closes."""
    # The socket tells when to end; what we start must not ignore them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _hush())
    parent = os.getppid()
    channel = socket.socket(fileno=int(sys.argv[1]))
    with contextlib.suppress(EOFError, ConnectionError):
        worker = CopyProcess(_BEGIN.decode(receive(channel)).feed, channel)
        try:
            while True:
                worker.take(_ORDER.decode(receive(channel)))
        finally:
            if os.getppid() != parent:  # it was killed, and waits for nothing
                os._exit(1)
            _hush()
            threading.Timer(END_SECONDS, os._exit, (1,)).start()
            worker.end()
            os._exit(0)  # whatever a thread still waits for


def _hush() -> None:
    """Silences Python's complaints about Java from here on: Java is being ended."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stderr.fileno())
    os.close(silence)


class CopyProcess:
    """Carries orders out, each in a thread; all groups share Spark."""

    def __init__(self, feed: Feed, channel: socket.socket) -> None:
        self._feed = feed
        self._channel = channel
        self._sending = threading.Lock()
        self._groups: dict[int, CopyWorker] = {}
        self._jobs = Jobs(feed.spark, f"copy {feed.name}", feed.source_url)
        self._pool = ThreadPoolExecutor(THREADS, "copy")

    def take(self, order: CopyOrder) -> None:
        """Starts to carry out an order."""
        if order.group not in self._groups:
            self._groups[order.group] = CopyWorker(self._feed, order.group, self._answer, self._jobs, self._pool)
        self._groups[order.group].take(order)

    def end(self) -> None:
        """Ends Spark; answers go nowhere any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._jobs.end()

    def _answer(self, answer: CopyAnswer) -> None:
        with self._sending, contextlib.suppress(OSError):
            send(self._channel, ANSWER, msgspec.msgpack.encode(answer))


class CopyWorker:
    """Carries out the orders of one table group."""

    def __init__(
        self, feed: Feed, group: int, answer: Callable[[CopyAnswer], None], jobs: Jobs, pool: ThreadPoolExecutor
    ) -> None:
        self._feed, self._group = feed, group
        self._answer = answer
        self._lock = threading.Lock()  # of the scans and of what is open
        self._scans = Scans()
        self._open: dict[EffectId, ReadOrder] = {}  # not yet answered
        self._stopped: set[EffectId] = set()
        self._running: dict[str, list[EffectId]] = {}  # by the tag of their job
        self._jobs = jobs
        self._pool = pool

    def take(self, order: CopyOrder) -> None:
        """Starts to carry out an order."""
        match order:
            case PlanOrder():
                self._pool.submit(self._plan, order)
            case ReadOrder():
                self._take_read(order)
            case StopOrder():
                self._stop(order.attempt)

    # ------------------------------------------------------------------ plans

    def _plan(self, order: PlanOrder) -> None:
        try:
            made = asyncio.run(self._splits(order))
        except Exception as error:
            self._answer(Unplanned(order.number, alarm(error)))
        else:
            self._answer(Planned(order.number, made))

    async def _splits(self, order: PlanOrder) -> tuple[ChunkSplit, ...]:
        tables = {table.name: table for table in order.tables}
        async with tables_at(self._feed.source_url) as server:
            found = await wanted_sources(self._feed, server, order.wanted, tables)
            if order.wanted[0].mode != "repair":
                self._prepare(await large(server, found.values(), self._feed.spark.small_rows), tables)
            return await splits(self._feed, server, order.wanted, tables, found)

    def _prepare(self, found: Sequence[CopySource], tables: Mapping[TableName, TargetTable]) -> None:
        """Starts Spark for these tables.  Those without a key are read in one view each, and Spark starts only where a
        source has no such view.  Raises Missing."""
        if found:
            look_for_spark()
        if any(tables[one.target].key for one in found):
            self._pool.submit(self._jobs.session)  # it takes some seconds: what is wrong the first read tells

    # ------------------------------------------------------------------ reads

    def _take_read(self, order: ReadOrder) -> None:
        with self._lock:
            self._open[order.effect.id] = order
            alone = self._scans.add(order.effect)
        if alone:
            self._pool.submit(self._read, [order.effect])
        else:
            self._collect()

    def _collect(self) -> None:
        """Waits a moment, so that orders that come together are read together."""
        timer = threading.Timer(COLLECT_SECONDS, self._read_due)
        timer.daemon = True
        timer.start()

    def _read_due(self) -> None:
        with self._lock:
            scans = self._scans.due()
        for scan in scans:
            self._pool.submit(self._read, scan)

    def _stop(self, attempt: EffectId) -> None:
        with self._lock:
            waited = self._scans.ended(attempt)
            if attempt in self._open:
                self._stopped.add(attempt)
            unread = self._open.pop(attempt, None) if waited else None
            idle = [tag for tag, attempts in self._running.items() if self._stopped.issuperset(attempts)]
        if unread is not None:
            self._stopped.discard(attempt)
            self._answer(Unread(unread.number, ""))
        for tag in idle:
            self._jobs.cancel(tag)
        self._collect()

    def _read(self, effects: list[ReadChunk]) -> None:
        tag = f"tidelock {self._group} {effects[0].id.epoch} {effects[0].id.counter}"
        with self._lock:
            self._running[tag] = [effect.id for effect in effects]
            reads = [self._open[effect.id] for effect in effects]
        try:
            events = read(self._feed, self._group, Request(tuple(effects), reads[0].table), self._jobs, tag)
        except Exception as error:
            self._unread(reads, f"{effects[0].split.table} cannot be copied yet: {self._jobs.silent or told(error)}")
        else:
            for order, event in zip(reads, events, strict=True):
                self._answer(ReadDone(order.number, event))
        if self._jobs.lost:
            os._exit(1)  # the other side starts this process again
        with self._lock:
            del self._running[tag]
            for effect in effects:
                del self._open[effect.id]
                self._stopped.discard(effect.id)

    def _unread(self, reads: list[ReadOrder], why: str) -> None:
        with self._lock:
            for order in reads:
                self._scans.ended(order.effect.id)
            stopped = set(self._stopped)
        for order in reads:
            self._answer(Unread(order.number, "" if order.effect.id in stopped else why))
        self._collect()


if __name__ == "__main__":
    main()
