"""A search for the place in the log from which everything was committed since a moment.

Files say when they were begun, and are asked from the oldest on.  The search begins in the file before the first one
that was begun at the moment or later.  There each transaction is looked at until one was committed at the moment or
later, and the place is in front of that one.  A server's clock may step back: then this is the earlier place, and
transactions with earlier times may come behind it.  None with a later time is before it, from that file on.

MySQL tells when a transaction was committed, to the microsecond.  MariaDB tells when its last statement began, in whole
seconds: that is COMMIT, or the statement itself where there is none.  A second counts as its end, so the place is
rather earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.damage import MALFORMED, unreadable
from tidelock.adapters.mysql.binlog.log_ends import log_files
from tidelock.adapters.mysql.binlog.log_file import NOBODY, Event, events_of
from tidelock.adapters.mysql.binlog.log_times import begun
from tidelock.adapters.mysql.binlog.positions import gtid_list, gtid_of, has_gtid
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.mysql.gtid import GtidSet, MySqlGtids
from tidelock.adapters.ports.history_words import time
from tidelock.adapters.ports.source_errors import PurgedPosition
from tidelock.engine.model.records import Position

_SECOND: Final = 1_000_000
_FILES: Final = 1 << 32  # events tell the lower 32 bits of offsets


def committed_since(endpoint: Address, moment_us: int) -> Position:
    """Returns the place (`adapters.ports.source.Source`).  Raises SourceError, PurgedPosition."""
    files = log_files(endpoint)
    first = file_before(files, lambda file: begun(endpoint, file, NOBODY), moment_us // _SECOND)
    if first is None:
        oldest = time(begun(endpoint, files[0], NOBODY) * _SECOND) if files else "no time"
        raise PurgedPosition(
            f"the log of {endpoint} does not reach back to {time(moment_us)}: its oldest file was begun at {oldest}",
            "Set `start` to a later time, to `earliest`, or to `copy`, which has the rows too",
        )
    with closing(events_of(endpoint, first)) as read:
        return place_in(read, first, moment_us)


def file_before(files: Sequence[str], begun_at: Callable[[str], int], second: int) -> str | None:
    """Returns the file to search in: the one before the first that was begun in this second or later, which is the last
    one where none was.  None: the oldest was.
    """
    if not files or begun_at(files[0]) >= second:
        return None
    return next((former for former, file in pairwise(files) if begun_at(file) >= second), files[-1])


def place_in(read: Iterable[Event], file: str, moment_us: int) -> Position:
    """Returns the place before the first transaction committed since, else where the events end.

    `read`: the events of `file` from its head on, and those of the files behind it.
    """
    offset = 4
    gtids: GtidSet | None = None
    named = True
    for event in read:
        if event.kind == events.ROTATE:
            file, offset = events.rotation(event.b, event.body, event.end)
            continue
        if not event.log_end or event.kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
            continue
        if event.kind == events.PREVIOUS_GTIDS:
            gtids = MySqlGtids.decode(event.b[event.body : event.end])
        elif event.kind == events.GTID_LIST:
            gtids = gtid_list(event)
        elif has_gtid(event):
            named = event.kind != events.ANONYMOUS_GTID
            try:
                (source, number, _), committed = gtid_of(event), committed_by(event)
            except MALFORMED as error:
                raise unreadable(event.kind, error, f"{file}:{offset}", event.end < len(event.b)) from error
            if committed >= moment_us:
                break
            if named and gtids is not None:
                gtids.add(source, number)
        offset += (event.log_end - offset) % _FILES
    return Position(file, offset, gtids=str(gtids) if named and gtids is not None else "")


def committed_by(event: Event) -> int:
    """Returns when a transaction was committed at the latest, as its first event says, in microseconds."""
    told = 0
    match event.kind:
        case events.GTID_TAGGED:
            told = events.tagged_gtid(event.b, event.body)[2]
        case events.GTID | events.ANONYMOUS_GTID:
            told = events.mysql_gtid(event.b, event.body)[2]
    return told or event.when * _SECOND + _SECOND - 1
