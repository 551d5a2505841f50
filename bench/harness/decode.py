"""A stretch of a live server's log: its packets as they come, and what a reader makes of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog.packets import PacketStream, dump
from tidelock.adapters.mysql.binlog.reader import BinlogReader
from tidelock.adapters.mysql.connection import Address
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, TableName

SERVER_ID: Final = 990_001


class Span(msgspec.Struct, frozen=True):
    """A stretch of the log with `rows` rows."""

    name: str
    start: Position
    end: Position
    rows: int


def captured(endpoint: Address, span: Span) -> bytes:
    """The span's packets, read ahead so that only decoding is timed."""
    connection = server.connect(endpoint)
    server.rows(connection, "SET @master_binlog_checksum=@@global.binlog_checksum, @mariadb_slave_capability=4")
    if not server.flavor(connection).is_mariadb:
        server.rows(connection, "SET @source_binlog_checksum=@@global.binlog_checksum")
    dump(connection, struct.pack("<IHI", span.start.offset, 3, SERVER_ID) + span.start.file.encode())
    stream = PacketStream(connection, 30.0)
    packets = []
    while True:
        packet = stream.packet()
        if packet is None:
            stream.wait()
            continue
        b, p, end = packet
        if b[p] or int.from_bytes(b[p + 14 : p + 18], "little") > span.end.offset:
            break
        packets.append(b[p - 4 : end])
    connection.close()
    return b"".join(packets)


def read(
    endpoint: Address,
    start: Position,
    end: Position,
    *,
    wanted: Callable[[TableName], bool],
    is_marker: Callable[[TableName], bool] = lambda table: False,
    chunk_rows: int = 500,
    images: bool = False,
) -> Iterator[SourceChunk]:
    """Collect what a reader hands out up to `end`, a place in the log of the server itself."""
    reader = BinlogReader(
        endpoint,
        server_id=SERVER_ID,
        wanted=wanted,
        is_marker=is_marker,
        start=start,
        chunk_rows=chunk_rows,
        images=images,
    )
    try:
        for chunk in reader.chunks():
            yield chunk
            if chunk.last.order >= end.order:
                return
    finally:
        reader.close()
