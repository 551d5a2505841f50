"""The log of a feed, whichever source it is of: chunks → capture machine → batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from typing import Any, Protocol

from tidelock.adapters.bookkeeping.tables import CHECKPOINTS, RECEIPTS, VERDICTS
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.source_errors import OtherHistory, UnsuitableLog
from tidelock.adapters.source.verdict_changes import VerdictChanges
from tidelock.engine.capture.chunk_cutter import ChunkCutter, OtherServer
from tidelock.engine.capture.echoes import Echoes
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.capture.mapping import Mapping
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import LogBatch, SourceChunk
from tidelock.engine.model.records import Column, Position, Shape, TableName, Value
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import SourceRead


class ChunkReader(Protocol):
    """The reader of a source's log.  At each of its steps there are chunks in `ready`, to be taken out before the next.
    """

    ready: list[SourceChunk]

    def close(self) -> None: ...


class FeedLog(ABC):
    """The part of a `LogReader` (`adapters.ports.source`) that does not know the source.  `wanted`: tells whether the
    feed takes a table."""

    def __init__(self, order: CaptureOrder) -> None:
        self._order = order
        self._mapping = Mapping(order.rules, order.own)
        self._receipts = TableName(order.own, RECEIPTS)
        self.wanted = self._mapping.selects
        self._echoes = order.sites is not None and order.sites.echo != "none"

    def is_marker(self, table: TableName) -> bool:
        """Tells whether the table holds receipts of feeds that write to the source; or their checkpoints, where sites
        have names.  Then it may be of any schema: feeds that differ there do not pass each other by unseen."""
        if self._order.sites is not None:
            return table.table in (RECEIPTS, CHECKPOINTS) or (self._echoes and table.table == VERDICTS)
        return table == self._receipts

    def understood(self, statement: SourceChunk) -> SourceChunk:
        """Returns a chunk that is a statement, with what that does."""
        return statement

    def met(self, shapes: MappingOf[int, Shape], place: Position) -> None:  # noqa: B027  a log may know its tables
        """Takes note of the shapes of rows that are read up to a place.  Raises SourceError."""

    @abstractmethod
    def log_end(self) -> Position:
        """Returns where the log ends, or a place behind that.  Raises SourceError."""

    @abstractmethod
    def shapes(self, names: set[TableName]) -> MappingOf[TableName, Shape]:
        """Returns the columns of those of the tables that are there, as the catalogue has them now.  Raises
        SourceError."""

    @abstractmethod
    def value(self, column: Column, told: Any) -> Value:
        """Returns the log's value of one that a copy of the table reads, which is not NULL.  Raises ValueError."""

    def taken(self, reader: ChunkReader, steps: Iterable[None]) -> Iterator[LogBatch]:
        """Yields the batches that the chunks of a reader make, step by step, and closes it at the end.  Raises
        SourceError."""
        order = self._order
        machine = CaptureMachine(self._mapping, order.start, order.node, order.sites, self._made_echoes())
        verdicts = VerdictChanges(order.sites.sister, self.value, self.shapes) if order.sites and self._echoes else None
        cut = ChunkCutter(order.start, order.cuts).split if order.cuts else None
        try:
            for _ in steps:
                ready = list(reader.ready)
                reader.ready.clear()
                for chunk in map(self._read, ready):
                    if verdicts is not None:
                        chunk = verdicts.read(chunk, self.wanted)
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

    def _made_echoes(self) -> Echoes | None:
        sites = self._order.sites
        if sites is None or not self._echoes:
            return None
        order, every = self._order, sites.echo == "all"
        return Echoes(sites.target, order.tables, self.log_end(), every=every, groups=order.groups)

    def _read(self, chunk: SourceChunk) -> SourceChunk:
        is_statement = chunk.transactions and chunk.transactions[0].ddl is not None
        if is_statement:
            return self.understood(chunk)
        self.met(chunk.shapes, chunk.last)
        return chunk
