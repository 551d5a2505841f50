"""The GTID set at a place of a MySQL log: what its file begins with, and the GTIDs from there to the place.

MariaDB answers that itself (BINLOG_GTID_POS); MySQL does not, so the file is read once, without decoding rows.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from adapters.mysql import events
from adapters.mysql.connection import Endpoint
from adapters.mysql.damage import MALFORMED, unreadable
from adapters.mysql.errors import LogGap
from adapters.mysql.gtid import MySqlGtids
from adapters.mysql.log_file import Event, events_of
from engine.records import Position

_BEFORE: Final = (events.ROTATE, events.FORMAT_DESCRIPTION, events.PREVIOUS_GTIDS)


def gtids_at(endpoint: Endpoint, place: Position, server_id: int) -> MySqlGtids:
    """Raises SourceError, LogGap if the file ends before the place."""
    gtids = MySqlGtids()
    end = 4
    with closing(events_of(endpoint, place.file, server_id)) as found:
        for event in found:
            if event.kind not in _BEFORE and event.log_end > place.offset:
                return gtids
            if event.kind == events.ROTATE and event.log_end:
                break
            end = event.log_end or end
            try:
                gtids = _with(gtids, event)
            except MALFORMED as error:
                raise unreadable(event.kind, error, f"{place.file}:{end}", event.end < len(event.b)) from error
    if end < place.offset:
        raise LogGap(f"{place.file} ends at {end}, before {place}", "Start the feed from a place that the log has")
    return gtids


def _with(gtids: MySqlGtids, event: Event) -> MySqlGtids:
    if event.kind == events.PREVIOUS_GTIDS:
        return MySqlGtids.decode(event.b[event.body : event.end])
    if event.kind == events.GTID:
        gtids.add(*events.mysql_gtid(event.b, event.body)[:2])
    elif event.kind == events.GTID_TAGGED:
        gtids.add(*events.tagged_gtid(event.b, event.body)[:2])
    return gtids
