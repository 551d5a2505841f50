"""The log of a feed, read in this process: slot → chunks → capture machine → batches."""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.ports.source_errors import OtherHistory, UnsuitableLog
from tidelock.adapters.postgres.logical.reader import Errand, LogicalReader
from tidelock.engine.capture import mapping
from tidelock.engine.capture.chunk_cutter import ChunkCutter, OtherServer
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import LogBatch, Position, TableName
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import SourceRead


class CapturedLog:
    """A `LogReader` (`adapters.ports.source`)."""

    def __init__(self, order: CaptureOrder) -> None:
        self._order = order
        self._mapping = mapping.Mapping(order.rules, order.own)
        receipts = TableName(order.own, "tidelock_progress")
        self._reader = LogicalReader(
            order.source,
            patterns=[rule.source for rule in order.rules],
            wanted=self._mapping.selects,
            is_marker=lambda table: table == receipts,
            start=order.start,
            stored=order.stored,
            chunk_rows=order.chunk_rows,
            chunk_bytes=order.chunk_bytes,
            heartbeat_seconds=order.heartbeat_seconds,
            further=order.further,
            forms=order.forms,
        )

    @property
    def unanswered(self) -> Unanswered:
        """None: a transaction that is prepared comes with its COMMIT PREPARED, and holds the slot back until then."""
        return Unanswered()

    def batches(self, errand: Errand | None = None) -> Iterator[LogBatch]:
        """As `LogReader` has it.  `errand`: is run whenever it is ready while the log says nothing."""
        machine = CaptureMachine(self._mapping, self._order.start, self._order.node)
        reader = self._reader
        cut = ChunkCutter(self._order.start, self._order.cuts).split if self._order.cuts else None
        try:
            for _ in reader.steps(errand):
                parts = [part for chunk in reader.ready for part in cut(chunk)] if cut else list(reader.ready)
                reader.ready.clear()
                for part in parts:
                    for effect in machine.step(0, [SourceRead([part])]):
                        if isinstance(effect, Halt):
                            raise UnsuitableLog(effect.alarm.message, effect.alarm.hint)
                        yield effect.batch
        except OtherServer as error:
            raise OtherHistory(
                f"{self._order.source} cannot be read for a group that stands at {error.place}, a place in the log of "
                "another server",
                f"Make that server the source again, or {RESYNC}",
            ) from None
        finally:
            reader.close()

    def take_learned(self) -> Learned:
        """As `LogReader` has it."""
        notices = self._reader.notices
        if notices is None:
            return Learned()
        taken = Learned(tuple(notices.learned), notices.looked)
        notices.learned.clear()
        notices.looked = None
        return taken

    def note_stored(self, position: Position) -> None:
        """Tells the server that the target has stored this checkpoint.  Raises SourceError."""
        self._reader.note_stored(position)

    def tend(self) -> None:
        """Lets the server hear of us while nobody takes the batches.  Raises SourceError."""
        self._reader.tend()

    @property
    def seconds_left(self) -> float:
        """Seconds until `tend` is to be called."""
        return self._reader.seconds_left

    def close(self) -> None:
        """Ends the reading."""
        self._reader.close()
