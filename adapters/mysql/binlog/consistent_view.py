"""One consistent view of a table, whose place in the log is known exactly (`engine.model.snapshot`).

MariaDB tells the place of a consistent snapshot by itself, which needs no lock.  MySQL does not.  There the table is
locked for reading for a moment: the lock is given when nobody has uncommitted changes of it, so whatever the log holds
of it up to its end is in a snapshot that begins under the lock, and nothing behind.  Other tables go on meanwhile.
Whoever writes to the table waits behind the lock, so it is asked for briefly.

The same lock tells, at a MySQL server without GTIDs, that all changes of a table that are in the log can be read.

Only engines with transactions have such views; the reader of another table gets none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pymysql
from pymysql.cursors import SSCursor

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.mysql.binlog import log_ends, visible
from tidelock.adapters.mysql.connection import Address, connect, flavor, rows
from tidelock.adapters.mysql.gtid import MariaDbGtids, MySqlGtids
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.records import Position, TableName
from tidelock.engine.model.snapshot import Snapshot

LOCK_SECONDS: Final = 1
_WITH_VIEWS: Final = ("innodb", "rocksdb")
_DENIED: Final = (1044, 1045, 1142, 1227)
_TIMEOUT: Final = 1205


class SessionView:
    """A view on a session of its own (`adapters.ports.source.TableView`)."""

    def __init__(self, connection: pymysql.Connection[Any], snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._connection = connection

    def batches(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, so many at once.  Raises what PyMySQL raises."""
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(sql)
            while batch := cursor.fetchmany(size):
                yield list(batch)


def wait_for_writers(place: Address, table: TableName) -> None:
    """Return when every change of the table that is in the log now can be read: nobody has uncommitted ones.  Raises as
    `view_of`."""
    with _locked(place, table):
        pass


def require_lockable(place: Address, table: TableName) -> None:
    """Pass where the user may lock the table; that others write to it now does not matter.  Raises as `view_of`."""
    try:
        wait_for_writers(place, table)
    except SourceError as error:
        if not isinstance(error.__cause__, pymysql.MySQLError) or error.__cause__.args[0] != _TIMEOUT:
            raise


def _has_views(connection: pymysql.Connection[Any], table: TableName) -> bool:
    found = rows(
        connection,
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        table.schema,
        table.table,
    )
    return bool(found) and str(found[0][0]).lower() in _WITH_VIEWS


@contextlib.contextmanager
def view_of(place: Address, table: TableName) -> Iterator[SessionView | None]:
    """Open a view of a table; None where its engine has none.  Raises SourceError, also where the user may not lock the
    table or others keep it locked; and what PyMySQL raises."""
    with contextlib.closing(connect(place)) as reader:
        if not _has_views(reader, table):
            yield None
            return
        rows(reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        # The server's own mode may be to pad CHAR.
        rows(reader, "SET SESSION net_write_timeout = 3600, sql_mode = 'NO_BACKSLASH_ESCAPES'")
        if flavor(reader).is_mariadb:
            snapshot = _of_mariadb(visible.snapshot_place(reader))
        else:
            with _locked(place, table) as locker:
                rows(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
                snapshot = _of_mysql(log_ends.current_position(locker))
        yield SessionView(reader, snapshot)


@contextlib.contextmanager
def _locked(place: Address, table: TableName) -> Iterator[pymysql.Connection[Any]]:
    name = f"{quote('mysql', table.schema)}.{quote('mysql', table.table)}"
    with contextlib.closing(connect(place)) as locker:
        rows(locker, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
        try:
            rows(locker, f"LOCK TABLES {name} READ")
        except pymysql.MySQLError as error:
            raise _refused(error, table, place) or error from error
        yield locker
        rows(locker, "UNLOCK TABLES")


def _refused(error: pymysql.MySQLError, table: TableName, place: Address) -> SourceError | None:
    code = error.args[0] if error.args else 0
    if code in _DENIED:
        return SourceError(
            f"{table} cannot be read for a copy, as {place.user} may not lock it for a moment, which tells that nobody "
            "has uncommitted changes of it",
            f"At the source: GRANT LOCK TABLES ON {quote('mysql', table.schema)}.* TO the feed's user",
        )
    if code == _TIMEOUT:
        return SourceError(
            f"{table} cannot be read for a copy yet: a transaction has had uncommitted changes of it for longer than "
            f"{LOCK_SECONDS} s",
            "It is tried again; end the transaction (information_schema.INNODB_TRX, or XA RECOVER) if it stays",
        )
    return None


def _of_mariadb(position: Position) -> Snapshot:
    return Snapshot(position, ends=MariaDbGtids(position.gtids).ends)


def _of_mysql(position: Position) -> Snapshot:
    return Snapshot(position, taken=MySqlGtids(position.gtids).runs)
