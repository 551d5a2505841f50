"""Waiting until whoever begins to read the source sees everything up to a place of its log (counter-example 5).

A transaction is in the log before readers see it; with semi-synchronous replicas or a delayed group commit up to
seconds before.  MySQL is asked to wait for a set of GTIDs.  MariaDB tells which place of the log a consistent snapshot
stands at, again and again until that is far enough; it counts transactions only, so behind what else is in a log (a new
file, say) the place is told by its GTIDs.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pymysql

from adapters.mysql import connection as server
from adapters.mysql.errors import SourceError, UnsuitableLog
from engine.records import Position

WAIT_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.02


def wait_until_visible(connection: pymysql.Connection[Any], place: Position, seconds: float = WAIT_SECONDS) -> None:
    """Raises SourceError, also when it takes longer than `seconds`; and what PyMySQL raises."""
    if server.flavor(connection).is_mariadb:
        shown = _mariadb(connection, place, seconds)
    else:
        shown = _mysql(connection, place, seconds)
    if not shown:
        raise SourceError(
            f"what is in the log up to {place} cannot be read from the tables after {seconds:g} s",
            "Does the source wait for a replica that does not acknowledge, or for its disk?",
        )


def _mysql(connection: pymysql.Connection[Any], place: Position, seconds: float) -> bool:
    if server.variable(connection, "gtid_mode") != "ON":
        raise UnsuitableLog(
            "the source has no GTIDs, and nothing else of MySQL tells when what is in its log can be read",
            "Set gtid_mode=ON: online, in the steps of MySQL's manual (OFF_PERMISSIVE, ON_PERMISSIVE, ON)",
        )
    ((late,),) = server.rows(connection, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", place.gtids, seconds)
    return not late


def _mariadb(connection: pymysql.Connection[Any], place: Position, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not _is_shown(connection, place):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_shown(connection: pymysql.Connection[Any], place: Position) -> bool:
    server.rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    found = {str(k).lower(): value for k, value in server.rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")}
    server.rows(connection, "ROLLBACK")
    file, offset = str(found["binlog_snapshot_file"]), int(found["binlog_snapshot_position"])
    if Position(file, offset).order >= place.order:
        return True
    return bool(place.gtids) and server.mariadb_gtids(connection, file, offset) == place.gtids
