"""A look at a place in a server's log: its GTID set, when the file was begun, the last transaction before it.

The file is read once from its head, as a replica would, without decoding rows.  MariaDB tells the GTID set itself
(BINLOG_GTID_POS), but not where the file holds an event longer than the asker's `max_allowed_packet`; replicas get
events of any length.  MySQL does not tell it at all.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from struct import Struct
from typing import Final

import msgspec

from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.damage import MALFORMED, unreadable
from tidelock.adapters.mysql.binlog.log_file import Event, events_of
from tidelock.adapters.mysql.connection import Address
from tidelock.adapters.mysql.gtid import GtidSet, MariaDbGtids, MySqlGtids
from tidelock.adapters.ports.source_errors import LogGap
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.lineage import Group
from tidelock.engine.model.records import Position

_FILES: Final = 1 << 32  # places in events are the lower 32 bits of offsets
_GTID_LIST_ENTRY: Final = Struct("<IIQ").unpack_from
_GTID_LIST_COUNT: Final = 0x0FFFFFFF
_GTIDS: Final = frozenset((events.GTID, events.ANONYMOUS_GTID, events.GTID_TAGGED, events.MARIADB_GTID))
# Neither in a transaction nor its end.
_BETWEEN: Final = frozenset(
    (
        events.FORMAT_DESCRIPTION, events.PREVIOUS_GTIDS, events.GTID_LIST, events.STOP, events.BINLOG_CHECKPOINT,
        events.START_ENCRYPTION, events.TRANSACTION_CONTEXT, events.VIEW_CHANGE,
    )
)  # fmt: skip


class LogStanding(msgspec.Struct, frozen=True):
    """The contents of a file up to a place.

    `gtids`: in the one spelling of their set.  `begun`, `last`: as in `engine.model.lineage`.
    """

    begun: int
    gtids: str
    last: Group | None


def survey(endpoint: Address, place: Position) -> LogStanding:
    """Look at a place in the log.

    Raises SourceError; LogGap if the file ends before the place, or the place is inside a transaction.
    """
    found = _LogScan(place)
    with closing(events_of(endpoint, place.file)) as read:
        for event in read:
            if not event.log_end or event.kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
                continue
            if found.reached(event):
                return found.standing()
            if event.kind == events.ROTATE or (event.kind == events.FORMAT_DESCRIPTION and found.begun):
                break  # a server that ended leaves a file without a word of the next one
            try:
                found.take(event)
            except MALFORMED as error:
                where = f"{place.file}:{found.offset}"
                raise unreadable(event.kind, error, where, event.end < len(event.b)) from error
    if found.offset < place.offset:
        raise LogGap(
            f"{place.file} of {endpoint} ends at {found.offset}, before {place}",
            f"If the feed's `start` says that place, name one that the log has; else {RESYNC}",
        )
    return found.standing()


class _LogScan:
    def __init__(self, place: Position) -> None:
        self.offset = 4
        self._place = place
        self._begun = 0
        self._gtids: GtidSet | None = None
        self._gtid: tuple[str, int, int] = "", 0, 0
        self._known = self._open = False
        self._last: Event | None = None
        self._end = 0

    @property
    def begun(self) -> int:
        return self._begun

    def reached(self, event: Event) -> bool:
        return self.offset >= self._place.offset and event.kind not in _BETWEEN

    def take(self, event: Event) -> None:
        # Some events are left out for a reader like this, so sizes do not add up.
        self.offset += (event.log_end - self.offset) % _FILES
        kind = event.kind
        if kind == events.FORMAT_DESCRIPTION:
            self._begun = event.when
        elif kind == events.PREVIOUS_GTIDS:
            self._gtids = MySqlGtids.decode(event.b[event.body : event.end])
        elif kind == events.GTID_LIST:
            self._gtids = gtid_list(event)
        elif kind in _GTIDS:
            self._gtid, self._known, self._open = gtid_of(event), kind != events.ANONYMOUS_GTID, True
            if self._known and self._gtids is not None:
                self._gtids.add(*self._gtid[:2])
        elif kind not in _BETWEEN:
            self._last, self._end, self._open = event, self.offset, False

    def standing(self) -> LogStanding:
        return LogStanding(self._begun, "" if self._gtids is None else str(self._gtids), self._group())

    def _group(self) -> Group | None:
        source, number, moment = self._gtid
        if self._open:
            raise LogGap(
                f"{self._place} is inside the transaction {source}:{number}",
                f"If the feed's `start` says that place, name one between two transactions; else {RESYNC}",
            )
        if self._last is None:
            return None
        name = (source, number) if self._known else ("", 0)
        return Group(*name, moment, self._place.file, self._begun, self._end, *ending_of(self._last))


def gtid_list(event: Event) -> MariaDbGtids:
    """Read the set from a GTID_LIST event, with which each of MariaDB's files begins."""
    gtids, b, p = MariaDbGtids(), event.b, event.body
    for n in range(int.from_bytes(b[p : p + 4], "little") & _GTID_LIST_COUNT):
        domain, origin, number = _GTID_LIST_ENTRY(b, p + 4 + n * 16)
        gtids.add(f"{domain}-{origin}", number)
    return gtids


def gtid_of(event: Event) -> tuple[str, int, int]:
    """Read an event with a GTID: source, number, and when it was committed first (`engine.model.lineage.Group`)."""
    match event.kind:
        case events.MARIADB_GTID:
            source, number, _ = events.mariadb_gtid(event.b, event.body)
            return source, number, event.when * 1_000_000
        case events.GTID_TAGGED:
            source, number, _, first = events.tagged_gtid(event.b, event.body)
            return source, number, first
        case _:
            source, number, _, first = events.mysql_gtid(event.b, event.body)
            return source, number, first


def has_gtid(event: Event) -> bool:
    """Tell whether an event begins a transaction, with a GTID or as an anonymous one."""
    return event.kind in _GTIDS


def ending_of(event: Event) -> tuple[int, int, int]:
    """Size, time and mark, as `engine.model.lineage` compares the event that ends a transaction."""
    _, _, _, size, _, _ = events.HEADER(event.b, event.body - events.HEADER_SIZE)
    return size, event.when, zlib.crc32(event.b[event.body : event.end])
