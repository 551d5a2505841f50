"""Waiting until whoever begins to read the source sees everything up to a place of its log (counter-example 5).

A transaction is in the log before readers see it (`adapters.mysql.binlog.visible`).  MySQL is asked to wait for a set
of GTIDs.  MariaDB tells which place of the log a consistent snapshot stands at, again and again until that is far
enough; it counts transactions only, so behind what else is in a log (a new file, say) the place is told by its GTIDs.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pymysql

from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog.visible import require_gtids, snapshot_place
from tidelock.adapters.mysql.errors import SourceError
from tidelock.engine.model.records import Position

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
    require_gtids(connection, "the source")
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
    shown = snapshot_place(connection)
    server.rows(connection, "ROLLBACK")
    return shown.order >= place.order or (bool(place.gtids) and shown.gtids == place.gtids)
