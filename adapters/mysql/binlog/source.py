"""A MySQL or MariaDB server as a source (`adapters.ports.source.Source`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pymysql

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import history, log_ends, visible
from tidelock.adapters.mysql.binlog.overview import look
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.ports.capture_messages import CaptureOrder
from tidelock.adapters.ports.source import Beginning, Loss, Overview, TableView
from tidelock.adapters.ports.source_errors import PurgedPosition
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, Shape, TableName

if TYPE_CHECKING:
    from tidelock.adapters.mysql.binlog.batch_frames import FrameDecoder
    from tidelock.adapters.mysql.binlog.captured_log import CapturedLog


class MySqlSource:
    """One server as a source.  The decoder of the log, and the catalogue, are imported when they are first needed."""

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._address = reader_endpoint(place)

    def look(self, patterns: Sequence[str], *, earliest: bool) -> Overview:
        return look(self._place, patterns, earliest=earliest)

    def end(self) -> tuple[Position, int]:
        return visible.log_end(self._place)

    def begun_before(self, moment: float, server_id: int) -> Position:
        from tidelock.adapters.mysql.binlog.log_times import file_at

        return file_at(self._address, moment, server_id)

    def committed_since(self, moment_us: int) -> Position:
        from tidelock.adapters.mysql.binlog.commit_search import committed_since

        return committed_since(self._address, moment_us)

    def keep_log(self, tables: Sequence[TableName], place: Position, *, kept: bool = False) -> Beginning:
        return Beginning(place)

    def witnessed(self, place: Position) -> Position:
        return history.witnessed(self._address, place)

    def confirm(self, place: Position, further: Sequence[Position] = ()) -> None:
        history.confirm(self._address, place, further)

    def loss_before(self, lost: Position) -> Loss:
        from tidelock.adapters.mysql.binlog.loss import loss_before

        return loss_before(self._address, lost)

    def require_log_behind(self, place: Position) -> None:
        history.confirm(self._address, place)
        try:
            with closing(server.connect(self._address)) as connection:
                earliest = log_ends.earliest_position(connection)
        except pymysql.MySQLError as error:
            raise server.explained(error, self._address) from error
        if earliest.order > place.order:
            raise PurgedPosition(
                f"{self._place} does not hold the position {place} any more: its log begins at {earliest}",
                f"What was committed in between is lost to the feed: {RESYNC}",
            )

    def require_visibility(self, tables: Sequence[TableName]) -> None:
        from tidelock.adapters.mysql.binlog.consistent_view import require_lockable

        try:
            with closing(server.connect(self._address)) as connection:
                for table in () if visible.is_told(connection) else tables:
                    require_lockable(self._address, table)
        except pymysql.MySQLError as error:
            raise server.explained(error, self._address) from error

    def visible_end(self) -> Position:
        return visible.visible_end(self._place)

    def wait_until_visible(self, place: Position, table: TableName) -> None:
        from tidelock.adapters.mysql.binlog.consistent_view import wait_for_writers

        try:
            with closing(server.connect(self._address)) as connection:
                if visible.is_told(connection):
                    visible.wait_until_visible(connection, place)
                else:
                    wait_for_writers(self._address, table)
        except pymysql.MySQLError as error:
            raise server.explained(error, self._address) from error

    @contextmanager
    def view(self, table: TableName) -> Iterator[TableView | None]:
        from tidelock.adapters.mysql.binlog.consistent_view import view_of

        try:
            with view_of(self._address, table) as view:
                yield view
        except pymysql.MySQLError as error:
            raise server.explained(error, self._address) from error

    def shapes(self, wanted: Callable[[TableName], bool]) -> dict[TableName, Shape]:
        from tidelock.adapters.mysql.catalogue import BlockingServer
        from tidelock.adapters.mysql.schema import read_shapes

        with closing(BlockingServer(server.connect(self._address), self._address)) as asked:
            return {name: table.shape for name, table in asyncio.run(read_shapes(asked, wanted)).items()}

    def reader(self, order: CaptureOrder) -> CapturedLog:
        from tidelock.adapters.mysql.binlog.captured_log import CapturedLog

        return CapturedLog(order)

    def batch_decoder(self) -> FrameDecoder:
        from tidelock.adapters.mysql.binlog.batch_frames import FrameDecoder

        return FrameDecoder()
