"""The events of a log file from its head on, for those who ask it one thing and decode no rows."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final, NamedTuple

from adapters.mysql import connection as server
from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.damage import checked
from adapters.mysql.errors import DamagedLog
from adapters.mysql.packets import PacketStream, dump

_NON_BLOCKING: Final = 1
_SILENCE_SECONDS: Final = 60.0
_OK, _ERROR = 0, 0xFF


class Event(NamedTuple):
    """Its body is from `body` to `end` of `b`, without the checksum; `when` in seconds since the epoch, `log_end` 0 for
    one that the server made up."""

    kind: int
    when: int
    log_end: int
    b: bytes
    body: int
    end: int


def events_of(endpoint: Endpoint, file: str, server_id: int) -> Generator[Event, None, None]:
    """Those of the files behind it follow; it ends where the log does.

    Close it where it is left before.  Raises SourceError, DamagedLog where an event is not what was written.
    """
    connection = server.connect(endpoint)
    try:
        for name in ("master", "source"):  # MariaDB knows the first, MySQL reads the second
            server.rows(connection, f"SET @{name}_binlog_checksum=@@global.binlog_checksum")
        tail = events.CHECKSUM_SIZE if server.dumps_checksums(connection) else 0
        dump(connection, struct.pack("<IHI", 4, _NON_BLOCKING, server_id) + file.encode())
        stream = PacketStream(connection, _SILENCE_SECONDS)
        last = 4
        while True:
            packet = stream.packet()
            if packet is None:
                stream.wait()
                continue
            b, p, end = packet
            if end > p and b[p] == _ERROR:
                raise server.refusal(b, p, end, endpoint)
            if end == p or b[p] != _OK:
                return
            try:
                tail = checked(b, p + 1, end, tail)
            except DamagedLog as error:
                error.position = f"{file}:{last}"
                raise
            when, kind, _, _, log_end, _ = events.HEADER(b, p + 1)
            last = log_end or last
            if kind == events.ROTATE:
                file, last = events.rotation(b, p + 1 + events.HEADER_SIZE, end - tail)
            yield Event(kind, when, log_end, b, p + 1 + events.HEADER_SIZE, end - tail)
    finally:
        connection._force_close()  # type: ignore[attr-defined]
