"""The log of a feed, read in this process: slot → chunks → batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.postgres.logical import history, overview
from tidelock.adapters.postgres.logical.reader import Errand, LogicalReader
from tidelock.adapters.postgres.logical.row_values import code, reading
from tidelock.adapters.postgres.logical.session import session
from tidelock.adapters.source.feed_log import FeedLog
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Column, Position, Shape, TableName, Value


class CapturedLog(FeedLog):
    """A `LogReader` (`adapters.ports.source`)."""

    def __init__(self, order: CaptureOrder) -> None:
        super().__init__(order)
        cuts = [place for place in order.cuts if place.order > order.start.order]
        self._reader = LogicalReader(
            order.source,
            patterns=[rule.source for rule in order.rules],
            wanted=self.wanted,
            is_marker=self.is_marker,
            start=order.start,
            stored=order.stored,
            chunk_rows=order.chunk_rows,
            chunk_bytes=order.chunk_bytes,
            heartbeat_seconds=order.heartbeat_seconds,
            further=(*order.further, *cuts),
            reader_name=order.reader_name,
            forms=order.forms,
            images=order.images,
            commands=order.sites is None,
        )

    def is_marker(self, table: TableName) -> bool:
        """As `FeedLog` has it.  Feeds that name sites leave messages, whatever tables a publication has."""
        return self._order.sites is None and super().is_marker(table)

    def log_end(self) -> Position:
        """As `FeedLog` has it."""
        with session(self._order.source, replication=True) as opened:
            return overview.log_end(opened, history.identify(opened))

    def shapes(self, names: set[TableName]) -> dict[TableName, Shape]:
        """As `FeedLog` has it."""
        import asyncio  # verdicts alone need it

        from tidelock.adapters.postgres.logical.catalogue_session import CatalogueSession
        from tidelock.adapters.postgres.schema import read_shapes

        with closing(CatalogueSession(self._order.source)) as asked:
            found = asyncio.run(read_shapes(asked.as_server(), names.__contains__))
            return {name: table.shape for name, table in found.items()}

    def value(self, column: Column, told: Any) -> Value:
        """As `FeedLog` has it."""
        return reading(code(column))(told.encode()) if isinstance(told, str) else told

    @property
    def unanswered(self) -> Unanswered:
        """None: a transaction that is prepared comes with its COMMIT PREPARED, and holds the slot back until then."""
        return Unanswered()

    def batches(self, errand: Errand | None = None) -> Iterator[LogBatch]:
        """As `LogReader` has it.  `errand`: is run whenever it is ready while the log says nothing."""
        return self.taken(self._reader, self._reader.steps(errand))

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
