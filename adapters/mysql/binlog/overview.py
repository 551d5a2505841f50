"""Overview of a MySQL or MariaDB source, before its log is read: that it can be, which tables, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.connection import reader_endpoint
from tidelock.adapters.mysql.log_settings import NEEDED, NO_BLOB, leaves_out
from tidelock.adapters.ports.source import Overview
from tidelock.adapters.ports.source_errors import UnsuitableLog
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.errors import RESYNC, UNLOGGED
from tidelock.engine.model.records import TableName

_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
_MENDS = {
    "log_bin": "Set log_bin in the server's configuration and restart it. "
    f"{UNLOGGED}: where the feed has run before, {RESYNC}",
    "binlog_format": "Run SET GLOBAL binlog_format=ROW; then reconnect the writers",
    "binlog_row_image": "Run SET GLOBAL binlog_row_image=FULL; then reconnect the writers",
}


def look(endpoint: Endpoint, patterns: Sequence[str], *, earliest: bool) -> Overview:
    """Ask the server, in a handful of round trips.  Raises SourceError."""
    connection = server.connect(reader_endpoint(endpoint))
    try:
        images = _suitable(connection, endpoint)
        now = log_ends.current_position(connection)  # first: a table that is made after it is in the log behind it
        names = _tables(connection, patterns)
        if images == NO_BLOB:
            _no_blobs(connection, endpoint, names)
        unmatched = tuple(p for p in patterns if not any(Pattern.of(p).matches(name) for name in names))
        return Overview(names, now, log_ends.earliest_position(connection) if earliest else now, unmatched)
    except pymysql.MySQLError as error:
        raise server.explained(error, reader_endpoint(endpoint)) from error
    finally:
        connection.close()


def _suitable(connection: pymysql.Connection[Any], endpoint: Endpoint) -> str:
    """Returns which columns row images hold: FULL or NO_BLOB.  Raises UnsuitableLog."""
    names = ", ".join(f"'{name}'" for name in NEEDED)
    found = {
        str(k).lower(): str(v).upper()
        for k, v in server.rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    }
    images = found.get("binlog_row_image", "")
    for name, wanted in NEEDED.items():
        if found.get(name) != wanted and not (name == "binlog_row_image" and images == NO_BLOB):
            raise UnsuitableLog(
                f"{endpoint} has {name}={found.get(name, 'unset')}, replication needs {wanted}", _MENDS[name]
            )
    return images


def _no_blobs(connection: pymysql.Connection[Any], endpoint: Endpoint, tables: Sequence[TableName]) -> None:
    """Images without blobs are full where there are none.  Else a row cannot be completed: a before-image lacks them,
    and where MariaDB logs REPLACE as an update it leaves out those that were emptied as well as those that stayed."""
    marks = ", ".join(["%s"] * len(schemas := sorted({name.schema for name in tables})))
    columns = server.rows(
        connection,
        f"SELECT TABLE_SCHEMA, TABLE_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN ({marks})",
        *schemas,
    )
    lacking = {TableName(str(schema), str(table)) for schema, table, kind in columns if leaves_out(str(kind))}
    holes = sorted(lacking & set(tables))
    if holes:
        raise UnsuitableLog(
            f"{endpoint} has binlog_row_image={NO_BLOB}, which leaves columns out of the rows of {holes[0]}"
            + (f" and {len(holes) - 1} more tables" if len(holes) > 1 else ""),
            _MENDS["binlog_row_image"],
        )


def _tables(connection: pymysql.Connection[Any], patterns: Sequence[str]) -> tuple[TableName, ...]:
    read = [Pattern.of(p) for p in patterns]
    schemas = sorted({p.schema for p in read if "*" not in p.schema})
    where = "TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
    args: tuple[str, ...] = ()
    if len(schemas) == len({p.schema for p in read}):
        where += f" AND TABLE_SCHEMA IN ({', '.join(['%s'] * len(schemas))})"
        args = tuple(schemas)
    rows = server.rows(
        connection, f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE {where}", *args
    )
    names = sorted(TableName(str(s), str(t)) for s, t in rows if s not in _SYSTEM)
    return tuple(n for n in names if any(p.matches(n) for p in read))
