"""Binlog events, one after the other: framing and continuity.  What an event means, `event_handlers` knows.

Each event begins where the one before it in its file ended, and files follow each other by number, else LogGap.  After
a start by GTID the server leaves out what the set holds already: MySQL tells the new place in a heartbeat, MariaDB just
goes on there, which is taken only while a domain of the set has not been seen again.  Nothing unknown is passed over,
except what the log itself calls ignorable.  No event is looked at before its checksum was compared (`damage`), and
whatever cannot be read is DamagedLog.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from tidelock.adapters.compiled.forms import admit
from tidelock.adapters.mysql.binlog import events
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.damage import MALFORMED, checked, unreadable
from tidelock.adapters.mysql.binlog.event_handlers import EventHandlers, gap, place_of
from tidelock.adapters.mysql.binlog.events import (
    ARTIFICIAL,
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    IGNORABLE,
    OF_THE_FILE,
)
from tidelock.adapters.mysql.binlog.packets import LONGEST
from tidelock.adapters.mysql.binlog.payloads import transaction_events
from tidelock.adapters.mysql.binlog.prepares import Event
from tidelock.adapters.mysql.binlog.tables import Tables
from tidelock.adapters.mysql.errors import DamagedLog, UnknownEvent
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.engine.model.errors import RESYNC

try:
    admit("fast_path")
    from tidelock.adapters.mysql.binlog.fast_path import UsualEvents
except ImportError:  # not built, or not from this source
    UsualEvents = None  # type: ignore[assignment, misc]

_PACKET: Final = Struct("<IBIB4xII2x").unpack_from  # length and number, status, then parts of the event's header
_PACKET_HEADER_SIZE: Final = 4 + 1 + HEADER_SIZE
# Events that are in a group, so that the boundary moves only where the assembly itself closes one.
_HOT: Final = frozenset(
    (
        events.GTID, events.GTID_TAGGED, events.MARIADB_GTID, events.QUERY, events.ANNOTATE_ROWS, events.ROWS_QUERY,
        events.TABLE_MAP, events.XID, events.WRITE_ROWS, events.UPDATE_ROWS, events.DELETE_ROWS,
        events.WRITE_ROWS_V1, events.UPDATE_ROWS_V1, events.DELETE_ROWS_V1,
    )
)  # fmt: skip
_CHECKSUM: Final = Struct("<I").unpack_from


class LogDecoder:
    """Takes the events of a log, as packets or one by one.

    `due`: what the open group waits for, at most one; its events go to `replay`, before anything else is taken, and
    then `settle`.
    """

    def __init__(
        self,
        tables: Tables,
        assembly: Assembly,
        *,
        checksums: bool,
        by_gtid: bool = False,
        unreached: set[int] | None = None,
        prepared: Callable[[Event], None] | None = None,
    ) -> None:
        """`checksums`: whether the events before the first FORMAT_DESCRIPTION have them.  `by_gtid`: the stream was
        asked for by GTID set; `unreached`: the MariaDB domains in that set.  `prepared`: takes the events of groups
        that are prepared, in place of the memory for those."""
        self._assembly = assembly
        self._state = assembly.state
        self._state.tail = CHECKSUM_SIZE if checksums else 0
        self._by_gtid = by_gtid
        self._unreached = unreached or set()
        self._handlers = EventHandlers(
            tables, assembly, by_gtid=by_gtid, unreached=self._unreached, prepared=prepared
        )
        self.due = self._handlers.due
        self.prepares = self._handlers.prepares
        self.replay = self._handlers.replay
        self.settle = self._handlers.settle
        self._hot = {kind: handler for kind, handler in self._handlers.table.items() if kind in _HOT}
        self._usual = (
            UsualEvents(assembly, tables, self._handlers.maps, self._unreached) if UsualEvents is not None else None
        )

    def run(self, b: bytes, at: int) -> int:
        """Take packets from `at` on while they are whole events; returns where it stopped.  This is the hot loop.

        That is at a packet which `event` or `payload` must see, or is not all there, or after one that made a chunk
        ready.  What it leaves to them is rare.  Where `fast_path` was built that takes most, and one event at a
        time is left to the handlers.
        """
        last = len(b) - _PACKET_HEADER_SIZE
        if self._usual is None:
            return self._run(b, at, last)
        ready, due, take = self._assembly.ready, self.due, self._usual.take
        while True:
            at = take(b, at)
            if ready or at > last:
                return at
            then = self._run(b, at, at)
            if then == at or ready or due:
                return then
            at = then

    def _run(self, b: bytes, at: int, last: int) -> int:
        """Takes packets that begin at `last` at most; each costs no call but the event's own handler."""
        state = self._state
        size, view = len(b), memoryview(b)
        ready, due, handlers, tail = self._assembly.ready, self.due, self._hot, state.tail
        least = HEADER_SIZE + tail
        kind = event_size = 0
        try:
            while at <= last:
                length, status, state.when, kind, event_size, log_end = _PACKET(b, at)
                length &= LONGEST
                end = at + 4 + length
                handler = handlers.get(kind)
                if handler is None or status or length == LONGEST or end > size or log_end != state.offset + event_size:
                    return at
                if event_size < least or event_size != length - 1:
                    return at
                if tail and zlib.crc32(view[at + 5 : end - tail]) != _CHECKSUM(b, end - tail)[0]:
                    return at
                state.offset = log_end
                handler(b, at + _PACKET_HEADER_SIZE, end - tail)
                at = end
                if ready or due:
                    return at
        except SourceError as error:
            error.position = error.position or place_of(state, event_size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, place_of(state, event_size), bool(state.tail)) from error
        return at

    def event(self, b: bytes, p: int, end: int) -> None:
        """Take any event, with its header at `p`.  Raises a SourceError that knows its position."""
        state = self._state
        self._check(b, p, end)
        when, kind, _, size, log_end, flags = HEADER(b, p)
        if log_end and not flags & ARTIFICIAL and kind != events.HEARTBEAT:
            follows = state.offset + size
            if follows & 0xFFFFFFFF != log_end:
                follows = self._jump(size, log_end, kind)
            state.offset = follows
        if when:
            state.when = when
        handler = self._handlers.table.get(kind)
        try:
            if handler is None:
                self._unknown(kind, flags)
            else:
                handler(b, p + HEADER_SIZE, end - state.tail)
        except SourceError as error:
            error.position = error.position or place_of(state, size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, place_of(state, size), bool(state.tail)) from error
        if not state.is_open and state.boundary != state.offset:
            self._assembly.between_groups(state.file, state.offset)

    def payload(self, b: bytes, p: int, end: int) -> Iterator[None]:
        """Take a TRANSACTION_PAYLOAD event with its header at `p`; stop after each event inside: chunks may leave."""
        state, handlers = self._state, self._handlers
        self._check(b, p, end)
        when, kind, _, size, log_end, _ = HEADER(b, p)
        follows = state.offset + size
        state.offset = follows if follows & 0xFFFFFFFF == log_end else self._jump(size, log_end, kind)
        state.when = when
        handlers.outer = b, p + HEADER_SIZE, end - state.tail
        try:
            for inner, start, inner_end in transaction_events(b, p + HEADER_SIZE, end - state.tail):
                inner_when, inner_kind, _, _, _, flags = HEADER(inner, start)
                if inner_kind in OF_THE_FILE:
                    raise ValueError(f"an event of type {inner_kind} in a compressed transaction")
                state.when = inner_when or when
                handler = handlers.table.get(inner_kind)
                if handler is None:
                    self._unknown(inner_kind, flags)
                else:
                    handler(inner, start + HEADER_SIZE, inner_end)
                yield
        except SourceError as error:
            error.position = error.position or place_of(state, size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, place_of(state, size), bool(state.tail)) from error
        handlers.outer = None
        if not state.is_open:
            self._assembly.between_groups(state.file, state.offset)

    def take_heartbeats(self) -> int:
        """Count the heartbeats of an idle source since this was asked last."""
        count, self._handlers.heartbeats = self._handlers.heartbeats, 0
        return count

    def _check(self, b: bytes, p: int, end: int) -> None:
        """Check an event as a whole.

        Raises DamagedLog.  The header may be what is damaged, so the place is mostly where the last event ended.
        """
        state = self._state
        try:
            state.tail = checked(b, p, end, state.tail)
        except DamagedLog as error:
            start = state.offset
            if self._by_gtid and end - p >= HEADER_SIZE:
                _, _, _, size, log_end, _ = HEADER(b, p)
                start = max(start, log_end - size if size == end - p else 0)
            error.position = f"{state.file}:{start}"
            raise

    def _unknown(self, kind: int, flags: int) -> None:
        if not flags & IGNORABLE:
            raise UnknownEvent(
                f"an event of type {kind} is not understood",
                f"It may hold changes, so the feed stops: report the server's version; {RESYNC}",
            )

    def _jump(self, size: int, log_end: int, kind: int) -> int:
        """The offset after an event that does not begin where the last one ended."""
        state = self._state
        start = log_end - size
        if self._unreached and not state.is_open and start > state.offset:
            self._assembly.between_groups(state.file, start)
            return log_end
        raise gap(state, f"an event of type {kind} begins at {state.file}:{start}, not at {state.offset}")
