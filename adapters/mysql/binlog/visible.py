"""Visibility: up to which place of the log a reader of tables that begins now sees everything (counter-example 5).

A transaction is in the log before readers see it; with semi-synchronous replicas or a delayed group commit up to
seconds before.  Whoever reads tables and then follows the log from its end would miss it: the read came too early, and
the log is followed from behind it.

MariaDB tells the place in the log of a consistent snapshot.  It counts transactions only, so behind what else is in a
log (a new file, say) the place is told by its GTIDs.  MySQL tells which transactions have a number and are not yet
committed, `gtid_owned`, and waits for a set of GTIDs.  Without GTIDs it tells nothing of all tables; of one table
`adapters.mysql.binlog.consistent_view` finds it out.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pymysql

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.connection import connect, explained, flavor, reader_endpoint, rows, variable
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.records import Position

WAIT_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.02


def visible_end(endpoint: Endpoint) -> Position:
    """Find the end of what is visible.

    Raises SourceError: also at a MySQL server without GTIDs, and where a transaction takes a minute to commit.
    """
    place = reader_endpoint(endpoint)
    connection = connect(place)
    try:
        return snapshot_place(connection) if flavor(connection).is_mariadb else _mysql(connection, endpoint)
    except pymysql.MySQLError as error:
        raise explained(error, place) from error
    finally:
        connection.close()


def wait_until_visible(connection: pymysql.Connection[Any], place: Position, seconds: float = WAIT_SECONDS) -> None:
    """Until whoever begins to read sees everything up to the place.  Raises SourceError, also when it takes longer than
    `seconds`; and what PyMySQL raises."""
    if flavor(connection).is_mariadb:
        shown = _shown_by_mariadb(connection, place, seconds)
    else:
        shown = _shown_by_mysql(connection, place, seconds)
    if not shown:
        raise SourceError(
            f"what is in the log up to {place} cannot be read from the tables after {seconds:g} s",
            "Does the source wait for a replica that does not acknowledge, or for its disk?",
        )


def _shown_by_mysql(connection: pymysql.Connection[Any], place: Position, seconds: float) -> bool:
    require_gtids(connection, "the source")
    ((late,),) = rows(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", place.gtids, seconds)
    return not late


def _shown_by_mariadb(connection: pymysql.Connection[Any], place: Position, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _is_shown(connection, place):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_shown(connection: pymysql.Connection[Any], place: Position) -> bool:
    shown = snapshot_place(connection)
    rows(connection, "ROLLBACK")
    return shown.order >= place.order or (bool(place.gtids) and shown.gtids == place.gtids)


def log_end(endpoint: Endpoint) -> tuple[Position, int]:
    """Read the log's end, and microseconds since the epoch by the server's clock just before.  Raises SourceError."""
    place = reader_endpoint(endpoint)
    connection = connect(place)
    try:
        ((seconds,),) = rows(connection, "SELECT UNIX_TIMESTAMP()")
        return log_ends.current_position(connection), int(seconds) * 1_000_000
    except pymysql.MySQLError as error:
        raise explained(error, place) from error
    finally:
        connection.close()


def snapshot_place(connection: pymysql.Connection[Any]) -> Position:
    """Begin a consistent snapshot of MariaDB's, in a transaction that is the caller's to end.  Returns its position."""
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = {str(name): value for name, value in rows(connection, "SHOW STATUS LIKE 'Binlog_snapshot_%'")}
    file, offset = str(found["Binlog_snapshot_file"]), int(found["Binlog_snapshot_position"])
    return Position(file, offset, gtids=log_ends.mariadb_gtids(connection, file, offset))


def is_told(connection: pymysql.Connection[Any]) -> bool:
    """Tell whether the server says when what is in its log can be read from all tables."""
    return flavor(connection).is_mariadb or variable(connection, "gtid_mode") == "ON"


def require_gtids(connection: pymysql.Connection[Any], endpoint: object) -> None:
    """Check that MySQL has GTIDs.  Raises SourceError."""
    if variable(connection, "gtid_mode") != "ON":
        raise SourceError(
            f"{endpoint} has no GTIDs, which tell when what is in its log can be read",
            "This needs gtid_mode=ON at MySQL, which a running server reaches in steps of `SET PERSIST gtid_mode`",
        )


def _mysql(connection: pymysql.Connection[Any], endpoint: Endpoint) -> Position:
    require_gtids(connection, endpoint)
    end = log_ends.current_position(connection)
    for gtid in _owned(str(rows(connection, "SELECT @@GLOBAL.gtid_owned")[0][0])):
        ((late,),) = rows(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", gtid, WAIT_SECONDS)
        if late:
            raise SourceError(
                f"{endpoint} is still committing {gtid} after {WAIT_SECONDS} s", "Does a replica not acknowledge it?"
            )
    return end


def _owned(text: str) -> list[str]:
    """GTIDs of `UUID:NUMBER#THREAD[:TAG:NUMBER#THREAD…],…`."""
    found = list[str]()
    for group in filter(None, (part.strip() for part in text.split(","))):
        uuid, *parts = group.split(":")
        name = uuid
        for part in parts:
            number = part.partition("#")[0]
            if number.isdigit():
                found.append(f"{name}:{number}")
            else:
                name = f"{uuid}:{part}"
    return found
