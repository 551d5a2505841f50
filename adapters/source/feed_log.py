"""The log of a feed, whichever source it is of: chunks → capture machine → batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, RECEIPTS
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.source_errors import OtherHistory, UnsuitableLog
from tidelock.engine.capture.chunk_cutter import ChunkCutter, OtherServer
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import LogBatch, SourceChunk, TableName
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import SourceRead


class ChunkReader(Protocol):
    """The reader of a source's log.  At each of its steps there are chunks in `ready`, to be taken out before the next.
    """

    ready: list[SourceChunk]

    def close(self) -> None: ...


class FeedLog:
    """The part of a `LogReader` (`adapters.ports.source`) that does not know the source.  `wanted`: tells whether the
    feed takes a table."""

    def __init__(self, order: CaptureOrder) -> None:
        self._order = order
        self._mapping = Mapping(order.rules, order.own)
        self._receipts = TableName(order.own, RECEIPTS)
        self.wanted = self._mapping.selects

    def is_marker(self, table: TableName) -> bool:
        """Tells whether the table holds receipts of feeds that write to the source; or their checkpoints, where sites
        have names.  Then it may be of any schema: feeds that differ there do not pass each other by unseen."""
        if self._order.sites is not None:
            return table.table in (RECEIPTS, CHECKPOINTS)
        return table == self._receipts

    def understood(self, statement: SourceChunk) -> SourceChunk:
        """Returns a chunk that is a statement, with what that does."""
        return statement

    def taken(self, reader: ChunkReader, steps: Iterable[None]) -> Iterator[LogBatch]:
        """Yields the batches that the chunks of a reader make, step by step, and closes it at the end.  Raises
        SourceError."""
        order = self._order
        machine = CaptureMachine(self._mapping, order.start, order.node, order.sites)
        cut = ChunkCutter(order.start, order.cuts).split if order.cuts else None
        try:
            for _ in steps:
                ready = list(reader.ready)
                reader.ready.clear()
                for chunk in map(self._read, ready):
                    for part in cut(chunk) if cut else (chunk,):
                        for effect in machine.step(0, [SourceRead([part])]):
                            if isinstance(effect, Halt):
                                raise UnsuitableLog(effect.alarm.message, effect.alarm.hint)
                            yield effect.batch
        except OtherServer as error:
            raise OtherHistory(
                f"{order.source} cannot be read for a group that stands at {error.place}, a place in the log of "
                "another server",
                f"Make that server the source again, or {RESYNC}",
            ) from None
        finally:
            reader.close()

    def _read(self, chunk: SourceChunk) -> SourceChunk:
        is_statement = chunk.transactions and chunk.transactions[0].ddl is not None
        return self.understood(chunk) if is_statement else chunk
