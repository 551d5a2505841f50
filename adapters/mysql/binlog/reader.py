"""Reads a MySQL or MariaDB binlog and has chunks of decoded source transactions put together.

The reader is synchronous and meant for a process of its own.  It does not reconnect: after any SourceError the caller
starts a new one from the `last` position of the last chunk it took; what was in between is read again, nothing is lost.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

import pymysql

from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.binlog.assembly import CHUNK_BYTES, Assembly
from tidelock.adapters.mysql.binlog.decoder import LogDecoder
from tidelock.adapters.mysql.binlog.events import TRANSACTION_PAYLOAD
from tidelock.adapters.mysql.binlog.far_places import asked, begun_at
from tidelock.adapters.mysql.binlog.history import confirm, identity
from tidelock.adapters.mysql.binlog.known_columns import Named
from tidelock.adapters.mysql.binlog.named_tables import Reading
from tidelock.adapters.mysql.binlog.packets import Packet, PacketStream, Silence, command, dump
from tidelock.adapters.mysql.binlog.positions import survey
from tidelock.adapters.mysql.binlog.prepared_log import prepared_events
from tidelock.adapters.mysql.binlog.prepared_search import find_prepare
from tidelock.adapters.mysql.binlog.prepares import PATIENCE_SECONDS, Prepares
from tidelock.adapters.mysql.binlog.row_layout import Columns
from tidelock.adapters.mysql.binlog.table_map import TableMap
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.connection import (
    Address,
    Flavor,
    column_kinds,
    connect,
    dumps_checksums,
    explained,
    flavor,
    refusal,
    rows,
    variable,
)
from tidelock.adapters.mysql.gtid import GtidSet, MariaDbGtids, MySqlGtids, NoGtids
from tidelock.adapters.ports.capture_messages import Unanswered
from tidelock.adapters.ports.source_errors import SourceError, Unreachable
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Kind, Position, TableName

_DUMP_GTID: Final = 0x1E
_THROUGH_GTID: Final = 4
_ANNOTATE_ROWS: Final = 2
_OK, _ERROR = 0, 0xFF
_SIGN_SECONDS: Final = 1.0  # inside a transaction of which there is nothing else to tell
_SLACK_SECONDS: Final = 10
_MISSED_HEARTBEATS: Final = 4
_TYPE_AT: Final = 5  # after the status byte and the time


class BinlogReader:
    """`server_id`: unique among the source's replicas; a second reader with the same id ends the first.

    `column_hints(table)` names columns that are more than the log says (MariaDB's uuid, inet4 and inet6, logged as
    BINARY); by default the source's catalogue is asked, once for each table that could have some.
    `images`: rows may be row images (`row_layout`).  `patience_seconds`: see `unanswered`.
    `folded`: the server keeps names in lower case, as told since the first chunk (`lower_case_table_names=1`).
    `further`: places that the log must hold besides `start` (`engine.protocol.effects.RequestResend`).
    `names`: as `Tables` has it.
    """

    def __init__(
        self,
        endpoint: Address,
        *,
        server_id: int,
        wanted: Callable[[TableName], bool],
        is_marker: Callable[[TableName], bool],
        start: Position,
        chunk_rows: int = 500,
        chunk_bytes: int = CHUNK_BYTES,
        heartbeat_seconds: float = 1.0,
        column_hints: Callable[[TableName], Mapping[str, Kind]] | None = None,
        images: bool = False,
        patience_seconds: float = PATIENCE_SECONDS,
        further: Sequence[Position] = (),
        names: Callable[[TableMap, bool], Named] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._server_id = server_id
        self._start = start
        self._further = further
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._heartbeat = heartbeat_seconds
        self._connection: pymysql.Connection[Any] | None = None
        self._flavor = Flavor("mysql", (0, 0, 0))
        self._clock_skew = 0.0
        self._patience = patience_seconds
        self._prepares: Prepares | None = None
        self._server = ""
        self._from_head = False  # what comes begins before the start
        self.folded = False
        self.ready: list[SourceChunk] = []
        self._assembly: Assembly | None = None
        self._tables = Tables(wanted, is_marker, column_hints or self._catalogue_kinds, images, names)

    def chunks(self) -> Iterator[SourceChunk]:
        """Chunks for ever, in log order.  Raises SourceError."""
        with contextlib.closing(self.steps()) as steps:
            for _ in steps:
                yield from self.ready
                self.ready.clear()

    def steps(self) -> Generator[None, None, None]:
        """Reads for ever; at each step there are chunks in `ready`, to be taken out before the next.  Raises
        SourceError.

        So they go from where they are put together straight to who takes them.
        """
        try:
            yield from self._steps()
        except Silence as error:
            raise Unreachable(
                f"{self._endpoint} sent nothing, not even a heartbeat, for {self._silence_seconds:.0f} s",
                "Start a new reader from the last position; check the network and the source",
            ) from error
        except (pymysql.MySQLError, OSError, EOFError) as error:
            raise explained(error, self._endpoint) from error
        finally:
            self.close()

    @property
    def image_columns(self) -> Mapping[int, Columns]:
        """The columns of tables whose rows are images, by shape number."""
        return self._tables.columns

    @property
    def reading(self) -> Reading:
        """The place that is read; only while it is."""
        assembly = self._assembly
        assert assembly is not None, "nothing is read yet"
        return Reading(Position(assembly.state.file, assembly.state.offset), assembly.place, self._server)

    def expect_names(self, are_named: bool) -> None:
        """Notes whether the server's log names columns now."""
        self._tables.are_named = are_named

    def forget_names(self, tables: Collection[TableName]) -> None:
        """As `Tables.forget_names`."""
        self._tables.forget_names(tables)

    @property
    def unanswered(self) -> Unanswered | None:
        """The oldest transaction with wanted rows that this reader saw prepared, and that is neither committed nor
        rolled back after as long as one has patience."""
        oldest = self._prepares.unanswered() if self._prepares is not None else None
        if oldest is None or time.time() + self._clock_skew - oldest[1].when < self._patience:
            return None
        return Unanswered(str(oldest[0]), oldest[1].when)

    def close(self) -> None:
        """Ends the stream; the iterator of `chunks` must not be used any more."""
        if self._connection is not None:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                self._connection._force_close()  # type: ignore[attr-defined]
            self._connection = None

    @property
    def _silence_seconds(self) -> float:
        return _MISSED_HEARTBEATS * self._heartbeat + _SLACK_SECONDS

    def _steps(self) -> Iterator[None]:
        connection = self._connection = connect(self._endpoint)
        decoder, assembly = self._machines(connection)
        self._prepares = decoder.prepares
        ready = self.ready = assembly.ready
        stream = PacketStream(connection, self._silence_seconds)
        told = time.monotonic()
        if self._from_head:
            for head in begun_at(stream.awaited(), self._start):
                yield from self._packet(decoder, assembly, head)
        while True:
            stream.hand(decoder.run)
            yield from self._due(decoder, assembly)
            if ready:
                told = time.monotonic()
            elif time.monotonic() - told >= _SIGN_SECONDS:
                told = time.monotonic()
                assembly.go_on()
            if not ready:
                packet = stream.packet()
                if packet is None:
                    assembly.flush()
                    if ready:
                        yield
                    stream.wait()
                else:
                    yield from self._packet(decoder, assembly, packet)
                    yield from self._due(decoder, assembly)
            if ready:
                yield

    def _packet(self, decoder: LogDecoder, assembly: Assembly, packet: Packet) -> Iterator[None]:
        """A packet that is not a usual event; stops where a compressed transaction has made a chunk ready."""
        b, p, end = packet
        if end == p or b[p] != _OK:
            self._refused(b, p, end)
        if end > p + _TYPE_AT and b[p + _TYPE_AT] == TRANSACTION_PAYLOAD:
            for _ in decoder.payload(b, p + 1, end):
                if assembly.ready:
                    yield
        else:
            decoder.event(b, p + 1, end)
            if decoder.take_heartbeats():
                assembly.state.server_us = self._server_us()
                assembly.tell()

    def _due(self, decoder: LogDecoder, assembly: Assembly) -> Iterator[None]:
        """The rows of a transaction that was prepared elsewhere in the log, where the log commits it."""
        for due in tuple(decoder.due):
            try:
                place = due.place or find_prepare(self._endpoint, due.xid, assembly.place)
                for event in prepared_events(self._endpoint, self._tables, due.xid, place):
                    decoder.replay(*event)
                    if assembly.ready:
                        yield
            except SourceError as error:
                error.position = error.position or str(assembly.place)
                raise
            decoder.settle()

    def _machines(self, connection: pymysql.Connection[Any]) -> tuple[LogDecoder, Assembly]:
        """Sets the session up, asks for the log, and makes the machines that understand it."""
        self._flavor = flavor(connection)
        confirm(self._endpoint, self._start, self._further)
        who = self._server = identity(connection)
        gtids, by_gtid = self._gtids(connection)
        self.folded = variable(connection, "lower_case_table_names") == "1"
        checksums = self._session(connection)
        self._clock_skew = float(rows(connection, "SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]) - time.time()
        self._request(connection, gtids, by_gtid)
        assembly = self._assembly = Assembly(
            self._tables, self._start, gtids, self._chunk_rows, self._chunk_bytes, settled=not by_gtid,
            server=who,
        )  # fmt: skip
        unreached = gtids.domains() if by_gtid and isinstance(gtids, MariaDbGtids) else set()
        return (
            LogDecoder(self._tables, assembly, checksums=checksums, by_gtid=by_gtid, unreached=unreached),
            assembly,
        )

    def _gtids(self, connection: pymysql.Connection[Any]) -> tuple[GtidSet, bool]:
        """The set before the start, and whether to ask for the log by it."""
        if self._flavor.is_mariadb:
            known = bool(self._start.gtids)
            text = self._start.gtids or log_ends.mariadb_gtids(connection, self._start.file, self._start.offset)
            return MariaDbGtids(text), known
        if variable(connection, "gtid_mode") != "ON":
            return NoGtids(), False
        if self._start.gtids:
            return MySqlGtids(self._start.gtids), True
        return MySqlGtids(survey(self._endpoint, self._start).gtids), False

    def _session(self, connection: pymysql.Connection[Any]) -> bool:
        """Tell the source what a replica tells about itself; returns whether the stream begins with checksums."""
        period = int(self._heartbeat * 1e9)
        settings = [
            "@master_binlog_checksum=@@global.binlog_checksum",
            f"@master_heartbeat_period={period}",
            "@mariadb_slave_capability=4",
        ]
        if not self._flavor.is_mariadb:
            settings += [
                "@source_binlog_checksum=@@global.binlog_checksum",
                f"@source_heartbeat_period={period}",
            ]
        rows(connection, f"SET {', '.join(settings)}")
        return dumps_checksums(connection)

    def _request(self, connection: pymysql.Connection[Any], gtids: GtidSet, by_gtid: bool) -> None:
        if by_gtid and isinstance(gtids, MySqlGtids):
            data = gtids.encode()
            head = struct.pack("<HIIQI", _THROUGH_GTID, self._server_id, 0, 4, len(data))
            command(connection, _DUMP_GTID, head + data)
            return
        file, offset = self._start.file, self._start.offset
        flags = _ANNOTATE_ROWS if self._flavor.is_mariadb else 0
        if by_gtid:
            rows(connection, "SET @slave_connect_state=%s, @slave_gtid_strict_mode=0", str(gtids))
            file, offset = "", 4
        self._from_head = asked(offset) != offset
        dump(connection, struct.pack("<IHI", asked(offset), flags, self._server_id) + file.encode())

    def _refused(self, b: bytes, p: int, end: int) -> NoReturn:
        if end > p and b[p] == _ERROR:
            raise refusal(b, p, end, self._endpoint)
        raise Unreachable(f"{self._endpoint} ended the stream", "Start a new reader from the last position")

    def _server_us(self) -> int:
        """Heartbeats carry no time: the local clock, corrected by what the server's said at the start."""
        return int((time.time() + self._clock_skew) * 1e6)

    def _catalogue_kinds(self, table: TableName) -> Mapping[str, Kind]:
        if not self._flavor.is_mariadb:
            return {}
        connection = connect(self._endpoint)
        try:
            return column_kinds(connection, table)
        finally:
            connection.close()
