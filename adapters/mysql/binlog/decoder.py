"""Binlog events, one after the other, into an `Assembly`: framing, continuity and the meaning of each event type.

    file ──▶ group: GTID ─▶ (BEGIN) ─▶ TABLE_MAP, rows, … ─▶ XID or COMMIT ──▶ next group
                     └───▶ one DDL statement ──▶

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
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tidelock.adapters.compiled.forms import admit
from tidelock.adapters.mysql.binlog import events, prepares
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.damage import MALFORMED, checked, unreadable
from tidelock.adapters.mysql.binlog.events import (
    ARTIFICIAL,
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    IGNORABLE,
    OF_THE_FILE,
    WITHOUT_EFFECT,
)
from tidelock.adapters.mysql.binlog.packets import LONGEST
from tidelock.adapters.mysql.binlog.payloads import inflated, transaction_events
from tidelock.adapters.mysql.binlog.prepares import Event, Prepares, Xid
from tidelock.adapters.mysql.binlog.query_events import Statement, classify, emptied_table
from tidelock.adapters.mysql.binlog.row_compiler import DELETE, INSERT, UPDATE
from tidelock.adapters.mysql.binlog.table_map import lenenc
from tidelock.adapters.mysql.binlog.tables import Role, Table, Tables
from tidelock.adapters.mysql.errors import DamagedLog, UnknownEvent
from tidelock.adapters.ports.source_errors import LogGap, SourceError, UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, TableName

try:
    admit("fast_path")
    from tidelock.adapters.mysql.binlog.fast_path import UsualEvents
except ImportError:  # not built, or not from this source
    UsualEvents = None  # type: ignore[assignment, misc]

_TABLE_ID: Final = Struct("<IH").unpack_from
_DUMMY_TABLE_ID: Final = 0xFFFFFF
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
_ROW_FORMAT: Final = f"SET GLOBAL binlog_format=ROW at the source, reconnect its writers; then {RESYNC}"

Handler: TypeAlias = Callable[[bytes, int, int], None]


class Due(NamedTuple):
    """Rows of a prepared transaction, which the log's reader has to bring: `place` is where they are, None if that is
    to be found."""

    xid: Xid
    place: Position | None


class Decoder:
    """`checksums`: whether the events before the first FORMAT_DESCRIPTION have them.  `by_gtid`: the stream was asked
    for by GTID set; `unreached`: the MariaDB domains in that set.  `heartbeats` counts those of an idle source.

    `due`: what the open group waits for, at most one; its events go to `replay`, before anything else is taken, and
    then `settle`.  `prepared`: takes the events of groups that are prepared, in place of the memory for those.
    """

    def __init__(
        self,
        tables: Tables,
        assembly: Assembly,
        start: Position,
        *,
        checksums: bool,
        by_gtid: bool = False,
        unreached: set[int] | None = None,
        prepared: Callable[[Event], None] | None = None,
    ) -> None:
        self._tables = tables
        self._assembly = assembly
        self._file, self._offset = start.file, start.offset
        self._positioned = False
        self._tail = CHECKSUM_SIZE if checksums else 0
        self._by_gtid = by_gtid
        self._unreached = unreached or set()
        self._when = 0
        self._begun = False
        self._outer: tuple[bytes, int, int] | None = None  # the compressed one that the events at hand came in
        self.prepares = Prepares(prepared)
        self.due: list[Due] = []
        self.heartbeats = 0
        self._maps: dict[int, Table] = {}
        self._handlers = self._handler_table()
        self._hot = {kind: handler for kind, handler in self._handlers.items() if kind in _HOT}
        self._usual = UsualEvents(self, assembly) if UsualEvents is not None else None

    def _handler_table(self) -> dict[int, Handler]:
        e = events
        return dict.fromkeys(WITHOUT_EFFECT, self._nothing) | {
            e.ROTATE: self._rotate,
            e.FORMAT_DESCRIPTION: self._format,
            e.HEARTBEAT: self._heartbeat,
            e.GTID: self._gtid,
            e.ANONYMOUS_GTID: self._anonymous,
            e.GTID_TAGGED: self._gtid_tagged,
            e.MARIADB_GTID: self._mariadb_gtid,
            e.QUERY: self._query,
            e.QUERY_COMPRESSED: self._query_compressed,
            e.XID: self._xid,
            e.XA_PREPARE: self._xa_prepare,
            e.TABLE_MAP: self._table_map,
            e.WRITE_ROWS: self._rows_handler(e.WRITE_ROWS, INSERT, 2),
            e.UPDATE_ROWS: self._rows_handler(e.UPDATE_ROWS, UPDATE, 2),
            e.DELETE_ROWS: self._rows_handler(e.DELETE_ROWS, DELETE, 2),
            e.WRITE_ROWS_V1: self._rows_handler(e.WRITE_ROWS_V1, INSERT, 1),
            e.UPDATE_ROWS_V1: self._rows_handler(e.UPDATE_ROWS_V1, UPDATE, 1),
            e.DELETE_ROWS_V1: self._rows_handler(e.DELETE_ROWS_V1, DELETE, 1),
            e.WRITE_ROWS_COMPRESSED_V1: self._compressed_rows_handler(e.WRITE_ROWS_COMPRESSED_V1, INSERT, 1),
            e.UPDATE_ROWS_COMPRESSED_V1: self._compressed_rows_handler(e.UPDATE_ROWS_COMPRESSED_V1, UPDATE, 1),
            e.DELETE_ROWS_COMPRESSED_V1: self._compressed_rows_handler(e.DELETE_ROWS_COMPRESSED_V1, DELETE, 1),
            e.WRITE_ROWS_COMPRESSED: self._compressed_rows_handler(e.WRITE_ROWS_COMPRESSED, INSERT, 2),
            e.UPDATE_ROWS_COMPRESSED: self._compressed_rows_handler(e.UPDATE_ROWS_COMPRESSED, UPDATE, 2),
            e.DELETE_ROWS_COMPRESSED: self._compressed_rows_handler(e.DELETE_ROWS_COMPRESSED, DELETE, 2),
            e.PARTIAL_UPDATE_ROWS: self._partial_json,
            e.INCIDENT: self._incident,
            e.BEGIN_LOAD_QUERY: self._load_data,
            e.EXECUTE_LOAD_QUERY: self._load_data,
        }

    def run(self, b: bytes, at: int) -> int:
        """The hot loop: takes packets from `at` on while they are whole events; returns where it stopped.

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
        size, view = len(b), memoryview(b)
        ready, due, handlers, tail = self._assembly.ready, self.due, self._hot, self._tail
        least = HEADER_SIZE + tail
        kind = event_size = 0
        try:
            while at <= last:
                length, status, self._when, kind, event_size, log_end = _PACKET(b, at)
                length &= LONGEST
                end = at + 4 + length
                handler = handlers.get(kind)
                if handler is None or status or length == LONGEST or end > size or log_end != self._offset + event_size:
                    return at
                if event_size < least or event_size != length - 1:
                    return at
                if tail and zlib.crc32(view[at + 5 : end - tail]) != _CHECKSUM(b, end - tail)[0]:
                    return at
                self._offset = log_end
                handler(b, at + _PACKET_HEADER_SIZE, end - tail)
                at = end
                if ready or due:
                    return at
        except SourceError as error:
            error.position = error.position or self._place(event_size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, self._place(event_size), bool(self._tail)) from error
        return at

    def event(self, b: bytes, p: int, end: int) -> None:
        """Any event, with its header at `p`.  Raises a SourceError that knows its position."""
        self._check(b, p, end)
        when, kind, _, size, log_end, flags = HEADER(b, p)
        assembly = self._assembly
        if log_end and not flags & ARTIFICIAL and kind != events.HEARTBEAT:
            follows = self._offset + size
            if follows & 0xFFFFFFFF != log_end:
                follows = self._jump(size, log_end, kind)
            self._offset = follows
        if when:
            self._when = when
        handler = self._handlers.get(kind)
        try:
            if handler is None:
                self._unknown(kind, flags)
            else:
                handler(b, p + HEADER_SIZE, end - self._tail)
        except SourceError as error:
            error.position = error.position or self._place(size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, self._place(size), bool(self._tail)) from error
        if not assembly.is_open and assembly.boundary != self._offset:
            assembly.between_groups(self._file, self._offset)

    def payload(self, b: bytes, p: int, end: int) -> Iterator[None]:
        """A TRANSACTION_PAYLOAD event with its header at `p`; stops after each event inside, to let chunks leave."""
        self._check(b, p, end)
        when, kind, _, size, log_end, _ = HEADER(b, p)
        follows = self._offset + size
        self._offset = follows if follows & 0xFFFFFFFF == log_end else self._jump(size, log_end, kind)
        self._when = when
        self._outer = b, p + HEADER_SIZE, end - self._tail
        try:
            for inner, start, inner_end in transaction_events(b, p + HEADER_SIZE, end - self._tail):
                inner_when, inner_kind, _, _, _, flags = HEADER(inner, start)
                if inner_kind in OF_THE_FILE:
                    raise ValueError(f"an event of type {inner_kind} in a compressed transaction")
                self._when = inner_when or when
                handler = self._handlers.get(inner_kind)
                if handler is None:
                    self._unknown(inner_kind, flags)
                else:
                    handler(inner, start + HEADER_SIZE, inner_end)
                yield
        except SourceError as error:
            error.position = error.position or self._place(size)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, self._place(size), bool(self._tail)) from error
        self._outer = None
        if not self._assembly.is_open:
            self._assembly.between_groups(self._file, self._offset)

    def _check(self, b: bytes, p: int, end: int) -> None:
        """Raises DamagedLog; the header may be what is damaged, so the place is mostly where the last event ended."""
        try:
            self._tail = checked(b, p, end, self._tail)
        except DamagedLog as error:
            start = self._offset
            if self._by_gtid and end - p >= HEADER_SIZE:
                _, _, _, size, log_end, _ = HEADER(b, p)
                start = max(start, log_end - size if size == end - p else 0)
            error.position = f"{self._file}:{start}"
            raise

    def _place(self, size: int) -> str:
        return f"{self._file}:{max(self._offset - size, 0)}"

    def _unknown(self, kind: int, flags: int) -> None:
        if not flags & IGNORABLE:
            raise UnknownEvent(
                f"an event of type {kind} is not understood",
                f"It may hold changes, so the feed stops: report the server's version; {RESYNC}",
            )

    def _jump(self, size: int, log_end: int, kind: int) -> int:
        """The offset after an event that does not begin where the last one ended."""
        start = log_end - size
        if self._unreached and not self._assembly.is_open and start > self._offset:
            self._assembly.between_groups(self._file, start)
            return log_end
        raise self._gap(f"an event of type {kind} begins at {self._file}:{start}, not at {self._offset}")

    def _gap(self, what: str) -> LogGap:
        error = LogGap(
            what, f"`tidelock run FEED` tries once more; if it stops here again, the log has lost changes: {RESYNC}"
        )
        error.position = f"{self._file}:{self._offset}"
        return error

    # -- the file ------------------------------------------------------------------------------------------------

    def _nothing(self, b: bytes, p: int, end: int) -> None:
        """An event without effect on rows."""

    def _rotate(self, b: bytes, p: int, end: int) -> None:
        """At the end of a file, and again (artificial) at the start of the next and of the stream."""
        file, offset = events.rotation(b, p, end)
        if self._positioned and file != self._file and _number(file) != _number(self._file) + 1:
            raise self._gap(f"{file} follows {self._file}")
        if self._positioned and file == self._file and offset not in (4, self._offset):
            raise self._gap(f"the stream goes on at {file}:{offset}")
        self._positioned = True
        self._file, self._offset = file, offset
        self._maps.clear()
        self._begun = False
        self._assembly.between_groups(file, offset)

    def _format(self, b: bytes, p: int, end: int) -> None:
        self._tables.by_mariadb = events.is_by_mariadb(b, p)
        self._assembly.file_begun(HEADER(b, p - HEADER_SIZE)[0])

    def _heartbeat(self, b: bytes, p: int, end: int) -> None:
        """The server's place in the log; after a start by GTID, MySQL tells so what it left out."""
        log_end = HEADER(b, p - HEADER_SIZE)[4]
        ahead = b[p:end].decode() == self._file and log_end > self._offset & 0xFFFFFFFF
        if ahead and not (self._by_gtid and not self._assembly.is_open):
            raise self._gap(f"the source is at {self._file}:{log_end} and sent nothing up to there")
        if ahead:
            self._offset = log_end
        else:
            self.heartbeats += 1
        self._assembly.settled = True

    def _incident(self, b: bytes, p: int, end: int) -> None:
        raise LogGap(
            "the source says that its log lost events (an INCIDENT event)",
            f"Changes are missing from the log, and the feed cannot know which: {RESYNC}",
        )

    # -- groups --------------------------------------------------------------------------------------------------

    def _gtid(self, b: bytes, p: int, end: int) -> None:
        self._begun = False
        source, number, commit_us, first_us = events.mysql_gtid(b, p)
        self._assembly.begin(source, number, commit_us, True, first_us)

    def _gtid_tagged(self, b: bytes, p: int, end: int) -> None:
        self._begun = False
        source, number, commit_us, first_us = events.tagged_gtid(b, p)
        self._assembly.begin(source, number, commit_us, True, first_us)

    def _anonymous(self, b: bytes, p: int, end: int) -> None:
        self._begun = False
        size = HEADER(b, p - HEADER_SIZE)[3]
        _, _, commit_us, first_us = events.mysql_gtid(b, p)
        self._assembly.begin(self._file, self._offset - size, commit_us, False, first_us)

    def _mariadb_gtid(self, b: bytes, p: int, end: int) -> None:
        source, number, flags = events.mariadb_gtid(b, p)
        if self._unreached:
            self._unreached.discard(int(source.partition("-")[0]))
        self._begun = not flags & events.MARIADB_STANDALONE
        self._assembly.begin(source, number, 0, True, self._when * 1_000_000)
        if flags & events.MARIADB_PREPARED_XA:
            self._two_phase()

    def _xid(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self._outer or (b, p, end)
        self._end_group()

    def _end_group(self) -> None:
        if self._assembly.is_xa:
            self._commit_prepared(self.prepares.group(), None)
        else:
            self._assembly.commit(self._offset, self._when * 1_000_000)

    # -- two phases ----------------------------------------------------------------------------------------------

    def _two_phase(self) -> None:
        """The open group is an XA transaction, whose end may not decide it."""
        self._assembly.is_xa = True
        self.prepares.begin(self._assembly.place, self._when)

    def _xa_prepare(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self._outer or (b, p, end)
        one_phase, xid = prepares.of_event(b, p, end)
        self.prepares.ended = xid
        if one_phase:
            self._commit_prepared(self.prepares.group(), xid)
        else:
            self.prepares.prepare(xid)
            self._assembly.skip_group(self._offset)

    def _xa_decided(self, statement: str) -> None:
        verb, xid = prepares.of_statement(statement)
        group = self.prepares.decide(xid)
        if verb == "ROLLBACK":
            self._assembly.skip_group(self._offset)
        elif group is None:
            self.due.append(Due(xid, None))
        else:
            self._commit_prepared(group, xid)

    def _commit_prepared(self, group: prepares.Prepared, xid: Xid | None) -> None:
        """The open group commits what `group` holds."""
        self._assembly.is_xa = False
        if group.events is None and group.touches:
            self.due.append(Due(xid or Xid(0, b"", b""), group.place))
            return
        for event in group.events or ():
            self.replay(*event)
        self.settle()

    def replay(self, kind: int, body: bytes) -> None:
        """An event of the prepared group that the open one commits.  Raises SourceError."""
        ending = self._assembly.ending
        try:
            self._handlers[kind](body, 0, len(body))
        except SourceError as error:
            error.position = error.position or self._place(0)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, self._place(0), bool(self._tail)) from error
        finally:
            self._assembly.ending = ending

    def settle(self) -> None:
        """Nothing is due any more: the open group ends."""
        self.due.clear()
        self._end_group()
        self._assembly.between_groups(self._file, self._offset)

    def _query(self, b: bytes, p: int, end: int) -> None:
        if b.endswith(b"\0BEGIN", p, end):
            self._begun = True
            return
        self._assembly.ending = self._outer or (b, p, end)
        if b.endswith(b"\0COMMIT", p, end):
            self._end_group()
        else:
            self._statement(events.query(b, p, end))

    def _query_compressed(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self._outer or (b, p, end)
        self._statement(events.query(b, p, end, inflated(b, events.query_text_at(b, p), end)))

    def _statement(self, query: events.Query) -> None:
        assembly = self._assembly
        kind = classify(query.statement)
        if not assembly.is_open:
            assembly.begin(self._file, self._offset, 0, False, 0)
        match kind:
            case Statement.BEGIN:
                self._begun = True
            case Statement.COMMIT:
                self._end_group()
            case Statement.XA_START:
                self._begun = True
                self._two_phase()
            case Statement.XA_END | Statement.SAVEPOINT:
                pass
            case Statement.ROLLBACK_TO:
                assembly.roll_back(self._changed)
            case Statement.ROLLBACK:
                assembly.roll_back(self._changed)
                self._end_group()
            case Statement.XA_DECIDED:
                self._xa_decided(query.statement)
            case Statement.DDL:
                assembly.statement(*query, self._offset, self._when * 1_000_000, not self._begun)
            case Statement.ROWS:
                self._statement_format(query.statement)
            case Statement.EMPTIED | Statement.HARMLESS | Statement.EMPTY:
                if kind is Statement.EMPTIED and self._tables.wanted(TableName(*emptied_table(query.statement))):
                    self._statement_format(query.statement)
                if not self._begun:
                    assembly.skip_group(self._offset)

    @property
    def _changed(self) -> bool:
        """Has the open group, of an XA transaction, changed wanted rows?"""
        return self._assembly.is_xa and self.prepares.touches

    def _statement_format(self, statement: str) -> NoReturn:
        verb = statement.split(None, 1)[0].upper()
        raise UnsuitableLog(f"the log holds an {verb} as a statement: binlog_format must be ROW", _ROW_FORMAT)

    def _load_data(self, b: bytes, p: int, end: int) -> None:
        self._statement_format("LOAD DATA")

    # -- rows ----------------------------------------------------------------------------------------------------

    def _table_map(self, b: bytes, p: int, end: int) -> None:
        low, high = _TABLE_ID(b, p)
        self._maps[low | high << 32] = self._tables.get(b[p + 8 : end])
        if self._assembly.is_xa:
            self.prepares.keep(events.TABLE_MAP, b, p, end, wanted=False)

    def _waits(self, kind: int, table: Table, b: bytes, p: int, end: int) -> bool:
        """Rows of an XA transaction wait for its commit."""
        if self._assembly.is_xa:
            self.prepares.keep(kind, b, p, end, wanted=table.role is not Role.UNWANTED)
        return self._assembly.is_xa

    def _table(self, b: bytes, p: int) -> Table | None:
        """None for the dummy id, which only ends a statement."""
        low, high = _TABLE_ID(b, p)
        number = low | high << 32
        table = self._maps.get(number)
        if table is None and number != _DUMMY_TABLE_ID:
            raise self._gap(f"rows of table id {number} without a table map")
        return table

    def _rows_handler(self, kind: int, operation: int, version: int) -> Handler:
        """Version 2 has extra data, its length included in front, after the table id and the flags."""
        assembly, rows, maps = self._assembly, self._assembly.rows, self._maps

        def handle(b: bytes, p: int, end: int) -> None:
            low, high = _TABLE_ID(b, p)
            table = maps.get(low | high << 32) or self._table(b, p)
            if table is not None and not (assembly.is_xa and self._waits(kind, table, b, p, end)):
                assembly.part = b, p, end
                rows(operation, table, b, p + 8 if version == 1 else p + 8 + (b[p + 8] | b[p + 9] << 8), end)

        return handle

    def _compressed_rows_handler(self, kind: int, operation: int, version: int) -> Handler:
        """MariaDB compresses what follows the column bitmaps."""
        images = 2 if operation == UPDATE else 1

        def handle(b: bytes, p: int, end: int) -> None:
            table = self._table(b, p)
            if table is None or self._waits(kind, table, b, p, end):
                return
            start = p + 8 + (b[p + 8] | b[p + 9] << 8 if version == 2 else 0)
            count, rows = lenenc(b, start)
            rows += (count + 7) // 8 * images
            plain = b[start:rows] + inflated(b, rows, end)
            self._assembly.part = b, p, end
            self._assembly.rows(operation, table, plain, 0, len(plain))

        return handle

    def _partial_json(self, b: bytes, p: int, end: int) -> None:
        table = self._table(b, p)
        if table is not None and not self._waits(events.PARTIAL_UPDATE_ROWS, table, b, p, end):
            self._assembly.partial_rows(table, b, p + 8 + (b[p + 8] | b[p + 9] << 8), end)


def _number(file: str) -> int:
    return int(file.rpartition(".")[2])
