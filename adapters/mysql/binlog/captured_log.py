"""The log of a feed, read in this process: binlog → chunks → batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.binlog.row_layout import Columns
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.source.feed_log import FeedLog
from tidelock.engine.model.records import LogBatch, Position, SourceChunk


class CapturedLog(FeedLog):
    """A `LogReader` (`adapters.ports.source`).  The server keeps its log for no reader."""

    seconds_left: float | None = None

    def __init__(self, order: CaptureOrder) -> None:
        super().__init__(order)
        self._scheme = order.source.scheme
        self._reader = BinlogReader(
            reader_endpoint(order.source),
            server_id=order.server_id,
            wanted=self.wanted,
            is_marker=self.is_marker,
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
        return self.taken(self._reader, self._reader.steps())

    def understood(self, statement: SourceChunk) -> SourceChunk:
        return classified(statement, self._scheme, folded=self._reader.folded)

    def note_stored(self, position: Position) -> None:
        """Does nothing: there is nothing to note."""

    def tend(self) -> None:
        """Does nothing."""

    def take_learned(self) -> Learned:
        """Returns nothing: the log has the statements that change tables."""
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
