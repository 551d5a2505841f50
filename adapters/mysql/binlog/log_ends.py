"""The positions where a server's log begins and ends now."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final, cast

import pymysql

from tidelock.adapters.mysql.connection import Address, SourceConnection, connect, flavor, rows, variable
from tidelock.adapters.mysql.gtid import MariaDbGtids
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.model.errors import RESYNC, UNLOGGED
from tidelock.engine.model.records import Position

_START_IT: Final = (
    f"Start it with log_bin, server_id and binlog_format=ROW. {UNLOGGED}: where the feed has run before, {RESYNC}"
)


def current_position(connection: pymysql.Connection[Any]) -> Position:
    """The end of the log, with the GTID set at that very place.  Raises UnsuitableLog where there is no log."""
    status = _status(connection)
    file, offset = str(status[0]), int(status[1])
    if flavor(connection).is_mariadb:
        return Position(file, offset, gtids=mariadb_gtids(connection, file, offset))
    executed = str(status[4]).replace("\n", "") if variable(connection, "gtid_mode") == "ON" else ""
    return Position(file, offset, gtids=executed)


def current_place(connection: pymysql.Connection[Any]) -> Position:
    """The end of the log by file and offset alone.  Raises UnsuitableLog where there is no log."""
    status = _status(connection)
    return Position(str(status[0]), int(status[1]))


def _status(connection: pymysql.Connection[Any]) -> tuple[Any, ...]:
    kind = flavor(connection)
    modern = not kind.is_mariadb and kind.version >= (8, 2, 0)
    found = rows(connection, "SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
    if not found:
        raise UnsuitableLog("the server writes no binary log", _START_IT)
    return tuple(found[0])


def mariadb_gtids(connection: pymysql.Connection[Any], file: str, offset: int) -> str:
    """The GTID position of a place in the log, its domains in order, which the server does not keep: one set has one
    spelling.

    The server answers NULL where it does not find the place, and where it met an event longer than this session's
    `max_allowed_packet` on the way: then the file is read.  `connection`: by `connect`.  Raises PurgedPosition where
    there is no such file, LogGap where it has no such place.
    """
    found = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, offset)[0][0]
    if found is None:
        from tidelock.adapters.mysql.binlog.positions import survey  # which connects by this module

        return survey(cast(SourceConnection, connection).endpoint, Position(file, offset)).gtids
    return str(MariaDbGtids(str(found)))


def earliest_position(connection: pymysql.Connection[Any]) -> Position:
    """The start of the oldest log file still there."""
    found = rows(connection, "SHOW BINARY LOGS")
    if not found:
        raise UnsuitableLog("the server writes no binary log", _START_IT)
    file = str(found[0][0])
    if flavor(connection).is_mariadb:
        return Position(file, 4, gtids=mariadb_gtids(connection, file, 4))
    return Position(file, 4, gtids=variable(connection, "gtid_purged").replace("\n", ""))


def log_files(endpoint: Address) -> list[str]:
    """Returns the names of the log files that are there, the oldest first.  Raises SourceError."""
    with closing(connect(endpoint)) as connection:
        return [str(row[0]) for row in rows(connection, "SHOW BINARY LOGS")]
