"""Where in a source's log some moment lies: at the beginning of a file, each of which says when it was begun."""

from __future__ import annotations

import struct
from typing import Final

from adapters.mysql import connection as server
from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.errors import PurgedPosition, SourceError
from adapters.mysql.packets import PacketStream, dump
from engine.records import Position

_NON_BLOCKING: Final = 1
_SILENCE_SECONDS: Final = 60.0


def file_at(endpoint: Endpoint, moment: float, server_id: int) -> Position:
    """The beginning of the last file that was begun before `moment` (seconds since the epoch).

    Raises SourceError, PurgedPosition where the oldest file is younger.
    """
    connection = server.connect(endpoint)
    try:
        files = [str(row[0]) for row in server.rows(connection, "SHOW BINARY LOGS")]
    finally:
        connection.close()
    for file in reversed(files):
        if begun(endpoint, file, server_id) <= moment:
            return Position(file, 4)
    raise PurgedPosition(
        f"the log of {endpoint} does not reach back so far",
        f"Choose a later moment; {files[0] if files else ''}:4 is where it begins",
    )


def begun(endpoint: Endpoint, file: str, server_id: int) -> int:
    """When a file of the log was begun, in seconds since the epoch.  Raises SourceError."""
    connection = server.connect(endpoint)
    try:
        for name in ("master", "source"):  # MariaDB knows the first, MySQL reads the second
            server.rows(connection, f"SET @{name}_binlog_checksum=@@global.binlog_checksum")
        dump(connection, struct.pack("<IHI", 4, _NON_BLOCKING, server_id) + file.encode())
        stream = PacketStream(connection, _SILENCE_SECONDS)
        while True:
            packet = stream.packet()
            if packet is None:
                stream.wait()
                continue
            b, p, end = packet
            if b[p] == 0xFF:
                raise server.refusal(b, p, end, endpoint)
            if b[p] != 0:
                raise SourceError(f"{endpoint} sent nothing of its log {file}", "See the server's error log")
            seconds, kind = events.HEADER(b, p + 1)[:2]
            if kind == events.FORMAT_DESCRIPTION:
                return int(seconds)
    finally:
        connection._force_close()  # type: ignore[attr-defined]
