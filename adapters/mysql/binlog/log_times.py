"""The place of a moment in a source's log: the beginning of a file, each of which says when it was begun."""

from __future__ import annotations

from contextlib import closing

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.log_ends import log_files
from tidelock.adapters.mysql.binlog.log_file import events_of
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.ports.source_errors import PurgedPosition, SourceError
from tidelock.engine.model.records import Position


def file_at(endpoint: Address, moment: float, server_id: int) -> Position:
    """The beginning of the last file that was begun before `moment` (seconds since the epoch).

    Raises SourceError, PurgedPosition where the oldest file is younger.
    """
    files = log_files(endpoint)
    for file in reversed(files):
        if begun(endpoint, file, server_id) <= moment:
            return Position(file, 4)
    raise PurgedPosition(
        f"the log of {endpoint} does not reach back so far",
        f"Choose a later moment; {files[0] if files else ''}:4 is where it begins",
    )


def begun(endpoint: Address, file: str, server_id: int) -> int:
    """Returns when a file of the log was begun, in seconds since the epoch.  Raises SourceError."""
    with closing(events_of(endpoint, file, server_id)) as found:
        for event in found:
            if event.kind == events.FORMAT_DESCRIPTION:
                return event.when
    raise SourceError(f"{endpoint} sent nothing of its log {file}", "See the server's error log")
