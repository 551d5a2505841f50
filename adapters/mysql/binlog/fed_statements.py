"""Statements of the log that a feed has run at the source: which they are, and by which sites they came.

A statement that begins with a mark of ours is looked for in the source's bookkeeping, where its text was stored before
it ran.  The place of the log does not matter: a text that stands there again did nothing (`IF NOT EXISTS`), or stands
behind a statement that took away what it had made, at which the feed has halted.
"""

from __future__ import annotations

from contextlib import closing

import msgspec
import pymysql

from tidelock.adapters.bookkeeping.statements import may_be_marked, path_of
from tidelock.adapters.bookkeeping.tables import STATEMENTS, quote
from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql.connection import connect, explained, reader_endpoint, rows
from tidelock.engine.model.schema_change import Ddl


def with_path(ddl: Ddl, source: Endpoint, schema: str) -> Ddl:
    """Returns a statement with the sites by which a feed has brought it, if one has.  `schema`: of the bookkeeping.
    Raises SourceError."""
    told = may_be_marked(ddl.statement)
    if told is None:
        return ddl
    address = reader_endpoint(source)
    query = f"SELECT path, statement FROM {quote('mysql', schema)}.{STATEMENTS} WHERE feed = %s AND number = %s"
    try:
        with closing(connect(address)) as connection:
            stored = rows(connection, query, *told)
    except pymysql.MySQLError as error:
        raise explained(error, address) from error
    return msgspec.structs.replace(ddl, path=path_of(ddl.statement, stored))
