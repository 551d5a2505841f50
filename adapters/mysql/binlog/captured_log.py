"""The log of a feed, read in this process: binlog → chunks → batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Literal

import msgspec
import pymysql

from tidelock.adapters.mysql.binlog.fed_statements import with_path
from tidelock.adapters.mysql.binlog.history import HINT
from tidelock.adapters.mysql.binlog.log_ends import current_position
from tidelock.adapters.mysql.binlog.named_tables import NamedTables
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.binlog.row_layout import Columns
from tidelock.adapters.mysql.binlog.statements_ahead import StatementsAhead, changes_tables
from tidelock.adapters.mysql.binlog.table_history import TableHistory
from tidelock.adapters.mysql.binlog.table_look import TableLook
from tidelock.adapters.mysql.charsets import lenient_decoder
from tidelock.adapters.mysql.connection import connect, explained, flavor, reader_endpoint, rows, variable
from tidelock.adapters.mysql.left_out import require_logged
from tidelock.adapters.mysql.log_settings import METADATA, NAME_COLUMNS
from tidelock.adapters.mysql.spellings import SPELLINGS
from tidelock.adapters.ports.capture_messages import CaptureOrder, Learned, Unanswered
from tidelock.adapters.ports.source_errors import OtherHistory, UnsuitableLog
from tidelock.adapters.source.feed_log import FeedLog
from tidelock.engine.capture.shadow_names import may_shadow
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import LogBatch, SourceChunk
from tidelock.engine.model.records import Column, Kind, Position, Shape, TableName, Value
from tidelock.engine.model.schema_change import DdlKind


class CapturedLog(FeedLog):
    """A `LogReader` (`adapters.ports.source`).  The server keeps its log for no reader."""

    seconds_left: float | None = None

    def __init__(self, order: CaptureOrder) -> None:
        super().__init__(order)
        self._scheme = order.source.scheme
        self._history: TableHistory | None = None
        self._names: NamedTables | None = None
        self._is_named = True
        if order.keeps_forms:
            look = TableLook(order.source, self._mapping)
            self._history = TableHistory(order.start, order.forms, look, self.wanted, self._may_shadow)
            ahead = StatementsAhead(
                reader_endpoint(order.source), _dialect(self._scheme), lambda: self._reader.folded
            )
            self._names = NamedTables(self._history, look, ahead, lambda: self._reader.reading)
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
            names=self._names,
        )

    def _may_shadow(self, table: TableName) -> bool:
        return may_shadow(table, self._mapping)

    @property
    def unanswered(self) -> Unanswered:
        return self._reader.unanswered or Unanswered()

    @property
    def image_columns(self) -> Mapping[int, Columns]:
        """Columns of the tables whose rows are images, by shape number, as they are known by now."""
        return self._reader.image_columns

    def batches(self) -> Iterator[LogBatch]:
        self._require_own_kind()
        self._require_logged()
        if self._history is not None:
            self._history.begin()
        return self.taken(self._reader, self._reader.steps())

    def _require_own_kind(self) -> None:
        start = self._order.start
        if "/" in start.file:
            error = OtherHistory(
                f"{start} is a place in the log of a PostgreSQL server, and {self._order.source} is none", HINT
            )
            error.position = str(start)
            raise error

    def _require_logged(self) -> None:
        address = reader_endpoint(self._order.source)
        try:
            with closing(connect(address)) as connection:
                there = [str(row[0]) for row in rows(connection, "SHOW DATABASES")]
                drawn = [name for name in there if self._mapping.draws_on(name)]
                is_mariadb = flavor(connection).is_mariadb
                value = variable(connection, METADATA)
                self._is_named = value == "FULL"
                self._reader.expect_names(self._is_named)
                if self._history is None and not self._is_named:
                    raise UnsuitableLog(
                        f"{self._order.source} has {METADATA}={value}, and this feed keeps no tables of its source by "
                        "which columns could be named",
                        f"Run {NAME_COLUMNS} then `tidelock run FEED`; where it says then that the log does not name "
                        f"columns, {RESYNC}",
                    )
                require_logged(connection, address, drawn, self._mapping.selects, mariadb=is_mariadb)
        except pymysql.MySQLError as error:
            raise explained(error, address) from error

    def understood(self, statement: SourceChunk) -> SourceChunk:
        read = classified(statement, self._scheme, folded=self._reader.folded)
        first = read.transactions[0]
        if self._history is not None and first.ddl is not None:
            if changes_tables(first.ddl):
                self._reader.forget_names(first.ddl.tables)
            first = msgspec.structs.replace(first, ddl=self._history.passed(first.ddl, read.last))
            read = msgspec.structs.replace(read, transactions=[first])
            if self._names is not None and first.ddl is not None and first.ddl.kind is DdlKind.CREATE_TABLE:
                self._complete(self._names, first.ddl.tables[0])
        if self._order.sites is None or first.ddl is None:
            return read
        known = with_path(first.ddl, self._order.source, self._order.own)
        return msgspec.structs.replace(read, transactions=[msgspec.structs.replace(first, ddl=known)])

    def _complete(self, names: NamedTables, table: TableName) -> None:
        if not self._is_named and (self.wanted(table) or self._may_shadow(table)):
            names.complete(table)

    def met(self, shapes: Mapping[int, Shape], place: Position) -> None:
        if self._history is not None:
            self._history.met(shapes, place)

    def log_end(self) -> Position:
        address = reader_endpoint(self._order.source)
        try:
            with closing(connect(address)) as connection:
                return current_position(connection)
        except pymysql.MySQLError as error:
            raise explained(error, address) from error

    def shapes(self, names: set[TableName]) -> dict[TableName, Shape]:
        import asyncio  # verdicts alone need it

        from tidelock.adapters.mysql.catalogue import BlockingServer
        from tidelock.adapters.mysql.schema import read_shapes

        address = reader_endpoint(self._order.source)
        with closing(BlockingServer(connect(address), address)) as asked:
            found = asyncio.run(read_shapes(asked, names.__contains__))
            return {name: table.shape for name, table in found.items()}

    def value(self, column: Column, told: Any) -> Value:
        match column.kind:
            case Kind.INT | Kind.YEAR | Kind.BIT:
                return int(told)
            case Kind.FLOAT | Kind.DOUBLE:
                return float(told)
            case Kind.TEXT if isinstance(told, bytes):
                return lenient_decoder(column.charset)(told)
            case kind if kind in SPELLINGS and isinstance(told, bytes):
                return SPELLINGS[kind](told)
        return told

    def note_stored(self, position: Position) -> None:
        """Does nothing: there is nothing to note."""

    def tend(self) -> None:
        """Does nothing."""

    def take_learned(self) -> Learned:
        """Returns the tables as they are behind statements of the log."""
        return Learned(self._history.take_learned() if self._history is not None else ())

    def close(self) -> None:
        self._reader.close()


def classified(chunk: SourceChunk, scheme: str, *, folded: bool = False) -> SourceChunk:
    """The chunk with its DDL statement, if it is one, read; `folded` as in `adapters.ddl.classify.classify`."""
    first = chunk.transactions[0] if chunk.transactions else None
    if first is None or first.ddl is None:
        return chunk
    from tidelock.adapters.ddl.classify import classify  # DDL is rare

    read = classify(first.ddl, _dialect(scheme), folded=folded)
    return msgspec.structs.replace(chunk, transactions=[msgspec.structs.replace(first, ddl=read)])


def _dialect(scheme: str) -> Literal["mysql", "mariadb"]:
    return "mariadb" if scheme == "mariadb" else "mysql"
