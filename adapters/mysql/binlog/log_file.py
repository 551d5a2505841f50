"""The events of a log file from its head on, for those who ask it one thing and decode no rows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pymysql

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.damage import checked
from tidelock.adapters.mysql.binlog.packets import Packet, PacketStream, Silence, command, dump
from tidelock.adapters.mysql.connection import Address, connect, dumps_checksums, explained, refusal, rows
from tidelock.adapters.mysql.errors import DamagedLog
from tidelock.adapters.mysql.gtid import MySqlGtids
from tidelock.adapters.ports.source_errors import Unreachable

NOBODY: Final = 0
"""A server id for who reads what is there now: it ends no other reader, and no other ends it."""
_NON_BLOCKING: Final = 1
_DUMP_GTID: Final = 0x1E
_THROUGH_GTID: Final = 4
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


def events_of(
    endpoint: Address, file: str, server_id: int = NOBODY, offset: int = 4
) -> Generator[Event, None, None]:
    """Read the events of a file, then those of the files behind it, up to the end of the log.

    Close it where it is left before.  Raises SourceError, DamagedLog where an event is not what was written.
    """
    order = struct.pack("<IHI", offset, _NON_BLOCKING, server_id) + file.encode()
    return _read(endpoint, file, lambda connection: dump(connection, order))


def events_without(endpoint: Address, gtids: MySqlGtids) -> Generator[Event, None, None]:
    """MySQL's events of all transactions that are not in the set, else as `events_of`."""
    data = gtids.encode()
    order = struct.pack("<HIIQI", _THROUGH_GTID | _NON_BLOCKING, NOBODY, 0, 4, len(data)) + data
    return _read(endpoint, "", lambda connection: command(connection, _DUMP_GTID, order))


@contextmanager
def log_session(endpoint: Address) -> Iterator[pymysql.Connection[Any]]:
    """A connection that may ask for the log; closed behind it, whatever the server still sends.  Raises SourceError."""
    connection = connect(endpoint)
    try:
        rows(connection, "SET @mariadb_slave_capability=4")
        for name in ("master", "source"):  # MariaDB knows the first, MySQL reads the second
            rows(connection, f"SET @{name}_binlog_checksum=@@global.binlog_checksum")
        yield connection
    except Silence as error:
        raise Unreachable(
            f"{endpoint} sent nothing of its log for {_SILENCE_SECONDS:.0f} s", "Check the network and the source"
        ) from error
    except (pymysql.MySQLError, OSError, EOFError) as error:
        raise explained(error, endpoint) from error
    finally:
        connection._force_close()  # type: ignore[attr-defined]


def packets(connection: pymysql.Connection[Any], endpoint: Address) -> Iterator[Packet]:
    """Read what the server sends when asked for its log, up to the log's end.  Raises SourceError, Silence."""
    stream = PacketStream(connection, _SILENCE_SECONDS)
    while True:
        packet = stream.packet()
        if packet is None:
            stream.wait()
            continue
        b, p, end = packet
        if end > p and b[p] == _ERROR:
            raise refusal(b, p, end, endpoint)
        if end == p or b[p] != _OK:
            return
        yield packet


def _read(
    endpoint: Address, file: str, ask: Callable[[pymysql.Connection[Any]], None]
) -> Generator[Event, None, None]:
    with log_session(endpoint) as connection:
        tail = events.CHECKSUM_SIZE if dumps_checksums(connection) else 0
        ask(connection)
        last = 4
        for b, p, end in packets(connection, endpoint):
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
