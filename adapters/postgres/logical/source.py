"""A PostgreSQL server as a source (`adapters.ports.source.Source`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.source import Beginning, Loss, Overview, TableView
from tidelock.adapters.ports.source_errors import PurgedPosition
from tidelock.adapters.postgres.logical import history, kept_slot, making, overview
from tidelock.adapters.postgres.logical.session import session
from tidelock.engine.model.records import Position, Shape, TableName
from tidelock.engine.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tidelock.adapters.postgres.logical.batch_frames import FrameDecoder
    from tidelock.adapters.postgres.logical.captured_log import CapturedLog
    from tidelock.adapters.postgres.logical.consistent_view import SessionView


class PlacedView:
    """A `TableView`: a view of a table with its place in the log."""

    def __init__(self, seen: SessionView, place: Position) -> None:
        self.snapshot = Snapshot(place)
        self._seen = seen

    def batches(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        return self._seen.batches(sql, size)


class PostgresSource:
    """One database of a server as a source.  Its URL's `slot` names slot and publication."""

    def __init__(self, place: Endpoint) -> None:
        self._place = place

    def look(self, patterns: Sequence[str], *, earliest: bool) -> Overview:
        return overview.look(self._place, patterns)

    def end(self) -> tuple[Position, int]:
        with session(self._place, replication=True) as opened:
            clock = opened.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
            return overview.log_end(opened, history.identify(opened)), int(str(clock))

    def begun_before(self, moment: float, server_id: int) -> Position:
        raise self._no_past()

    def committed_since(self, moment_us: int) -> Position:
        raise self._no_past()

    def _no_past(self) -> PurgedPosition:
        return PurgedPosition(
            f"{self._place} keeps its log for the feed alone, from the feed's checkpoint on",
            "A PostgreSQL source cannot be read from an earlier place",
        )

    def keep_log(self, tables: Sequence[TableName], place: Position, *, kept: bool = False) -> Beginning:
        if kept:
            return kept_slot.begin_at(self._place, tables, place.offset)
        return making.keep_log(self._place, tables)

    def witnessed(self, place: Position) -> Position:
        with session(self._place, replication=True) as opened:
            identity = history.confirm(opened, place, slot=False)
        return identity.place(place.offset, place.rows)

    def confirm(self, place: Position, further: Sequence[Position] = ()) -> None:
        with session(self._place, replication=True) as opened:
            history.confirm(opened, place, further, slot=False)

    def loss_before(self, lost: Position) -> Loss:
        from tidelock.adapters.postgres.logical.loss import loss_before

        return loss_before(self._place, lost)

    def require_log_behind(self, place: Position) -> None:
        with session(self._place, replication=True) as opened:
            history.confirm(opened, place)

    def require_visibility(self, tables: Sequence[TableName]) -> None:
        """The server tells it of every table."""

    def visible_end(self) -> Position:
        from tidelock.adapters.postgres.logical import visible

        return self._at(visible.visible_end(self._place))

    def wait_until_visible(self, place: Position, table: TableName) -> None:
        from tidelock.adapters.postgres.logical import visible

        visible.wait_until_visible(self._place, place, table)

    @contextmanager
    def view(self, table: TableName) -> Iterator[TableView | None]:
        from tidelock.adapters.postgres.logical.consistent_view import view_of

        with view_of(self._place, table) as seen:
            yield PlacedView(seen, self._at(seen.place))

    def shapes(self, wanted: Callable[[TableName], bool]) -> Mapping[TableName, Shape]:
        from tidelock.adapters.postgres.logical.catalogue_session import CatalogueSession
        from tidelock.adapters.postgres.schema import read_shapes

        with closing(CatalogueSession(self._place)) as asked:
            return {name: table.shape for name, table in asyncio.run(read_shapes(asked.as_server(), wanted)).items()}

    def _at(self, lsn: int) -> Position:
        with session(self._place, replication=True) as opened:
            return history.identify(opened).place(lsn)

    def reader(self, order: CaptureOrder) -> CapturedLog:
        from tidelock.adapters.postgres.logical.captured_log import CapturedLog

        return CapturedLog(order)

    def batch_decoder(self) -> FrameDecoder:
        from tidelock.adapters.postgres.logical.batch_frames import FrameDecoder

        return FrameDecoder()
