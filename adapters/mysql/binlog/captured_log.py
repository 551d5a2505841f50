"""The log of a feed, read in this process: binlog → chunks → capture machine → batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.binlog.row_layout import Columns
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.ports.source_errors import OtherHistory, UnsuitableLog
from tidelock.engine.capture import mapping
from tidelock.engine.capture.chunk_cutter import ChunkCutter, OtherServer
from tidelock.engine.capture.machine import CaptureMachine
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import LogBatch, SourceChunk, TableName
from tidelock.engine.protocol.effects import Halt
from tidelock.engine.protocol.events import SourceRead


class CapturedLog:
    """A `LogReader` (`adapters.ports.source`)."""

    def __init__(self, order: CaptureOrder) -> None:
        self._order = order
        self._mapping = mapping.Mapping(order.rules, order.own)
        receipts = TableName(order.own, "tidelock_progress")
        self._reader = BinlogReader(
            reader_endpoint(order.source),
            server_id=order.server_id,
            wanted=self._mapping.selects,
            is_marker=lambda table: table == receipts,
            start=order.start,
            chunk_rows=order.chunk_rows,
            chunk_bytes=order.chunk_bytes,
            heartbeat_seconds=order.heartbeat_seconds,
            images=order.images,
            patience_seconds=order.patience_seconds,
            further=order.further,
        )

    @property
    def unanswered(self) -> Unanswered:
        return self._reader.unanswered or Unanswered()

    @property
    def image_columns(self) -> Mapping[int, Columns]:
        """Columns of the tables whose rows are images, by shape number, as they are known by now."""
        return self._reader.image_columns

    def batches(self) -> Iterator[LogBatch]:
        machine = CaptureMachine(self._mapping, self._order.start, self._order.node)
        scheme, reader = self._order.source.scheme, self._reader
        cut = ChunkCutter(self._order.start, self._order.cuts).split if self._order.cuts else None
        try:
            for _ in reader.steps():
                parts = [part for chunk in reader.ready for part in cut(chunk)] if cut else reader.ready
                for part in parts:
                    for effect in machine.step(0, [SourceRead([classified(part, scheme, folded=reader.folded)])]):
                        if isinstance(effect, Halt):
                            raise UnsuitableLog(effect.alarm.message, effect.alarm.hint)
                        yield effect.batch
                reader.ready.clear()
        except OtherServer as error:
            raise OtherHistory(
                f"{self._order.source} cannot be read for a group that stands at {error.place}, a place in the log of "
                "another server",
                f"Make that server the source again, or {RESYNC}",
            ) from None
        finally:
            reader.close()

    def take_learned(self) -> Learned:
        """Nothing: the log has the statements that change tables."""
        return Learned()

    def close(self) -> None:
        self._reader.close()


def classified(chunk: SourceChunk, scheme: str, *, folded: bool = False) -> SourceChunk:
    """The chunk with its DDL statement, if it is one, read; `folded` as in `adapters.ddl.translate.classify`."""
    first = chunk.transactions[0] if chunk.transactions else None
    if first is None or first.ddl is None:
        return chunk
    from tidelock.adapters.ddl.translate import (
        classify,  # sqlglot takes a quarter of a second to import, and DDL is rare
    )

    read = classify(first.ddl, "mariadb" if scheme == "mariadb" else "mysql", folded=folded)
    return msgspec.structs.replace(chunk, transactions=[msgspec.structs.replace(first, ddl=read)])
