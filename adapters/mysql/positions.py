"""The GTID set at a place of a MySQL log: what its file begins with, and the GTIDs from there to the place.

MariaDB answers that itself (BINLOG_GTID_POS); MySQL does not, so the file is read once, without decoding rows.
"""

from __future__ import annotations

import struct
from typing import Final

from adapters.mysql import connection as server
from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.errors import LogGap
from adapters.mysql.gtid import MySqlGtids
from adapters.mysql.packets import PacketStream, dump
from engine.records import Position

_NON_BLOCKING: Final = 1
_SILENCE_SECONDS: Final = 60.0
_BEFORE: Final = (events.ROTATE, events.FORMAT_DESCRIPTION, events.PREVIOUS_GTIDS)


def gtids_at(endpoint: Endpoint, place: Position, server_id: int) -> MySqlGtids:
    """Raises SourceError, LogGap if the file ends before the place."""
    connection = server.connect(endpoint)
    gtids = MySqlGtids()
    end = 4
    try:
        server.rows(connection, "SET @source_binlog_checksum=@@global.binlog_checksum")
        dump(connection, struct.pack("<IHI", 4, _NON_BLOCKING, server_id) + place.file.encode())
        stream = PacketStream(connection, _SILENCE_SECONDS)
        while True:
            packet = stream.packet()
            if packet is None:
                stream.wait()
                continue
            b, p, packet_end = packet
            if b[p] != 0:
                if b[p] == 0xFF:
                    raise server.refusal(b, p, packet_end, endpoint)
                break
            kind, log_end = b[p + 5], int.from_bytes(b[p + 14 : p + 18], "little")
            if kind not in _BEFORE and log_end > place.offset:
                return gtids
            if kind == events.ROTATE and log_end:
                break
            body = p + 1 + events.HEADER_SIZE
            end = log_end or end
            if kind == events.PREVIOUS_GTIDS:
                gtids = MySqlGtids.decode(b[body:packet_end])
            elif kind == events.GTID:
                gtids.add(*events.mysql_gtid(b, body)[:2])
            elif kind == events.GTID_TAGGED:
                gtids.add(*events.tagged_gtid(b, body)[:2])
    finally:
        connection._force_close()  # type: ignore[attr-defined]
    if end < place.offset:
        raise LogGap(f"{place.file} ends at {end}, before {place}", "Start the feed from a place that the log has")
    return gtids
