"""Where in a source's log some moment lies: at the beginning of a file, each of which says when it was begun."""

from __future__ import annotations

from contextlib import closing

from adapters.mysql import connection as server
from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.errors import PurgedPosition, SourceError
from adapters.mysql.log_file import events_of
from engine.records import Position


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
    with closing(events_of(endpoint, file, server_id)) as found:
        for event in found:
            if event.kind == events.FORMAT_DESCRIPTION:
                return event.when
    raise SourceError(f"{endpoint} sent nothing of its log {file}", "See the server's error log")
