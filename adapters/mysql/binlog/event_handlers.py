"""The meaning of each event type of a binary log, told to an `Assembly`.

    file ──▶ group: GTID ─▶ (BEGIN) ─▶ TABLE_MAP, rows, … ─▶ XID or COMMIT ──▶ next group
                     └───▶ one DDL statement ──▶

Handlers get an event's body, from `p` to `end` of a buffer, whose header is just before; `decoder` has seen to it that
the event is whole, undamaged and in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, NoReturn, TypeAlias

from tidelock.adapters.mysql.binlog import events, prepares
from tidelock.adapters.mysql.binlog.assembly import Assembly
from tidelock.adapters.mysql.binlog.damage import MALFORMED, unreadable
from tidelock.adapters.mysql.binlog.events import HEADER, HEADER_SIZE, WITHOUT_EFFECT
from tidelock.adapters.mysql.binlog.log_state import Body, LogState
from tidelock.adapters.mysql.binlog.payloads import inflated
from tidelock.adapters.mysql.binlog.prepares import Event, Prepares, Xid
from tidelock.adapters.mysql.binlog.query_events import QueryKind, classify, emptied_table
from tidelock.adapters.mysql.binlog.row_compiler import DELETE, INSERT, UPDATE
from tidelock.adapters.mysql.binlog.table_map import lenenc
from tidelock.adapters.mysql.binlog.tables import LoggedTable, Role, Tables
from tidelock.adapters.ports.source_errors import LogGap, SourceError, UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, TableName

_TABLE_ID: Final = Struct("<IH").unpack_from
_DUMMY_TABLE_ID: Final = 0xFFFFFF
_ROW_FORMAT: Final = f"SET GLOBAL binlog_format=ROW at the source, reconnect its writers; then {RESYNC}"

Handler: TypeAlias = Callable[[bytes, int, int], None]


class Due(NamedTuple):
    """Rows of a prepared transaction, which the log's reader has to bring.  `place`: where they are; None if that is to
    be found."""

    xid: Xid
    place: Position | None


class EventHandlers:
    """Handlers by event type, in `table`.  Each raises a SourceError or any of `damage.MALFORMED`.

    `outer`: the compressed event that the events at hand came in.  `maps`: the tables by the id that the log has for
    them now.  The rest is as `LogDecoder` has it.
    """

    def __init__(
        self,
        tables: Tables,
        assembly: Assembly,
        *,
        by_gtid: bool,
        unreached: set[int],
        prepared: Callable[[Event], None] | None,
    ) -> None:
        self.outer: Body | None = None
        self.prepares = Prepares(prepared)
        self.due: list[Due] = []
        self.heartbeats = 0
        self.maps: dict[int, LoggedTable] = {}
        self._tables = tables
        self._assembly = assembly
        self._state = assembly.state
        self._by_gtid = by_gtid
        self._unreached = unreached
        self._positioned = False
        self.table = self._handler_table()

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

    # -- the file ------------------------------------------------------------------------------------------------

    def _nothing(self, b: bytes, p: int, end: int) -> None:
        """An event without effect on rows."""

    def _rotate(self, b: bytes, p: int, end: int) -> None:
        """Go on in another file; told at the end of a file, and again (artificial) where one or the stream begins."""
        state = self._state
        file, offset = events.rotation(b, p, end)
        if self._positioned and file != state.file and _number(file) != _number(state.file) + 1:
            raise gap(state, f"{file} follows {state.file}")
        if self._positioned and file == state.file and offset not in (4, state.offset):
            raise gap(state, f"the stream goes on at {file}:{offset}")
        self._positioned = True
        state.file, state.offset = file, offset
        self.maps.clear()
        self._tables.forget_names()  # a server that is started again counts its tables anew
        state.begun = False
        self._assembly.between_groups(file, offset)

    def _format(self, b: bytes, p: int, end: int) -> None:
        self._tables.by_mariadb = events.is_by_mariadb(b, p)
        self._assembly.file_begun(HEADER(b, p - HEADER_SIZE)[0])

    def _heartbeat(self, b: bytes, p: int, end: int) -> None:
        """Take the server's place in the log; after a start by GTID, MySQL tells so what it left out."""
        state = self._state
        log_end = HEADER(b, p - HEADER_SIZE)[4]
        ahead = b[p:end].decode() == state.file and log_end > state.offset & 0xFFFFFFFF
        if ahead and not (self._by_gtid and not state.is_open):
            raise gap(state, f"the source is at {state.file}:{log_end} and sent nothing up to there")
        if ahead:
            state.offset = log_end
        self.heartbeats += 1
        state.settled = True

    def _incident(self, b: bytes, p: int, end: int) -> None:
        raise LogGap(
            "the source says that its log lost events (an INCIDENT event)",
            f"Changes are missing from the log, and the feed cannot know which: {RESYNC}",
        )

    # -- groups --------------------------------------------------------------------------------------------------

    def _gtid(self, b: bytes, p: int, end: int) -> None:
        self._state.begun = False
        source, number, commit_us, first_us = events.mysql_gtid(b, p)
        self._assembly.begin(source, number, commit_us, True, first_us)

    def _gtid_tagged(self, b: bytes, p: int, end: int) -> None:
        self._state.begun = False
        source, number, commit_us, first_us = events.tagged_gtid(b, p)
        self._assembly.begin(source, number, commit_us, True, first_us)

    def _anonymous(self, b: bytes, p: int, end: int) -> None:
        self._state.begun = False
        size = HEADER(b, p - HEADER_SIZE)[3]
        _, _, commit_us, first_us = events.mysql_gtid(b, p)
        self._assembly.begin(self._state.file, self._state.offset - size, commit_us, False, first_us)

    def _mariadb_gtid(self, b: bytes, p: int, end: int) -> None:
        source, number, flags = events.mariadb_gtid(b, p)
        if self._unreached:
            self._unreached.discard(int(source.partition("-")[0]))
        self._state.begun = not flags & events.MARIADB_STANDALONE
        self._assembly.begin(source, number, 0, True, self._state.when * 1_000_000)
        if flags & events.MARIADB_PREPARED_XA:
            self._two_phase()
        elif flags & events.MARIADB_STANDALONE and events.begins_alter(b, p, end, flags):
            self._tables.altered_in_parts()

    def _xid(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self.outer or (b, p, end)
        self._end_group()

    def _end_group(self) -> None:
        if self._state.is_xa:
            self._commit_prepared(self.prepares.group(), None)
        else:
            self._assembly.commit(self._state.offset, self._state.when * 1_000_000)

    # -- two phases ----------------------------------------------------------------------------------------------

    def _two_phase(self) -> None:
        """Note that the open group is an XA transaction, whose end may not decide it."""
        self._state.is_xa = True
        self.prepares.begin(self._assembly.place, self._state.when)

    def _xa_prepare(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self.outer or (b, p, end)
        one_phase, xid = prepares.of_event(b, p, end)
        self.prepares.ended = xid
        if one_phase:
            self._commit_prepared(self.prepares.group(), xid)
        else:
            self.prepares.prepare(xid)
            self._assembly.skip_group(self._state.offset)

    def _xa_decided(self, statement: str) -> None:
        verb, xid = prepares.of_statement(statement)
        group = self.prepares.decide(xid)
        if verb == "ROLLBACK":
            self._assembly.skip_group(self._state.offset)
        elif group is None:
            self.due.append(Due(xid, None))
        else:
            self._commit_prepared(group, xid)

    def _commit_prepared(self, group: prepares.Prepared, xid: Xid | None) -> None:
        """Commit in the open group what `group` holds."""
        self._state.is_xa = False
        if group.events is None and group.touches:
            self.due.append(Due(xid or Xid(0, b"", b""), group.place))
            return
        for event in group.events or ():
            self.replay(*event)
        self.settle()

    def replay(self, kind: int, body: bytes) -> None:
        """Take an event of the prepared group that the open one commits.  Raises SourceError."""
        ending = self._assembly.ending
        try:
            self.table[kind](body, 0, len(body))
        except SourceError as error:
            error.position = error.position or place_of(self._state, 0)
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, place_of(self._state, 0), bool(self._state.tail)) from error
        finally:
            self._assembly.ending = ending

    def settle(self) -> None:
        """End the open group: nothing is due any more."""
        self.due.clear()
        self._end_group()
        self._assembly.between_groups(self._state.file, self._state.offset)

    def _query(self, b: bytes, p: int, end: int) -> None:
        if b.endswith(b"\0BEGIN", p, end):
            self._state.begun = True
            return
        self._assembly.ending = self.outer or (b, p, end)
        if b.endswith(b"\0COMMIT", p, end):
            self._end_group()
        else:
            self._statement(events.query(b, p, end))

    def _query_compressed(self, b: bytes, p: int, end: int) -> None:
        self._assembly.ending = self.outer or (b, p, end)
        self._statement(events.query(b, p, end, inflated(b, events.query_text_at(b, p), end)))

    def _statement(self, query: events.Query) -> None:
        assembly, state = self._assembly, self._state
        kind = classify(query.statement)
        if not state.is_open:
            assembly.begin(state.file, state.offset, 0, False, 0)
        match kind:
            case QueryKind.BEGIN:
                state.begun = True
            case QueryKind.COMMIT:
                self._end_group()
            case QueryKind.XA_START:
                state.begun = True
                self._two_phase()
            case QueryKind.XA_END | QueryKind.SAVEPOINT:
                pass
            case QueryKind.ROLLBACK_TO:
                assembly.roll_back(self._changed)
            case QueryKind.ROLLBACK:
                assembly.roll_back(self._changed)
                self._end_group()
            case QueryKind.XA_DECIDED:
                self._xa_decided(query.statement)
            case QueryKind.DDL:
                assembly.statement(query, state.offset, state.when * 1_000_000, not state.begun)
            case QueryKind.ROWS:
                self._statement_format(query.statement)
            case QueryKind.EMPTIED | QueryKind.HARMLESS | QueryKind.EMPTY:
                if kind is QueryKind.EMPTIED and self._tables.wanted(TableName(*emptied_table(query.statement))):
                    self._statement_format(query.statement)
                if not state.begun:
                    assembly.skip_group(state.offset)

    @property
    def _changed(self) -> bool:
        """True if the open group, of an XA transaction, has changed wanted rows."""
        return self._state.is_xa and self.prepares.touches

    def _statement_format(self, statement: str) -> NoReturn:
        verb = statement.split(None, 1)[0].upper()
        raise UnsuitableLog(f"the log holds an {verb} as a statement: binlog_format must be ROW", _ROW_FORMAT)

    def _load_data(self, b: bytes, p: int, end: int) -> None:
        self._statement_format("LOAD DATA")

    # -- rows ----------------------------------------------------------------------------------------------------

    def _table_map(self, b: bytes, p: int, end: int) -> None:
        low, high = _TABLE_ID(b, p)
        number = low | high << 32
        self.maps[number] = self._tables.get(b[p + 8 : end], number)
        if self._state.is_xa:
            self.prepares.keep(events.TABLE_MAP, b, p, end, wanted=False)

    def _waits(self, kind: int, table: LoggedTable, b: bytes, p: int, end: int) -> bool:
        """Keep the rows of an XA transaction, which wait for its commit.  Returns whether they do."""
        if self._state.is_xa:
            self.prepares.keep(kind, b, p, end, wanted=table.role is not Role.UNWANTED)
        return self._state.is_xa

    def _table(self, b: bytes, p: int) -> LoggedTable | None:
        """Find a rows event's table; None for the dummy id, which only ends a statement."""
        low, high = _TABLE_ID(b, p)
        number = low | high << 32
        table = self.maps.get(number)
        if table is None and number != _DUMMY_TABLE_ID:
            raise gap(self._state, f"rows of table id {number} without a table map")
        return table

    def _rows_handler(self, kind: int, operation: int, version: int) -> Handler:
        """Make a handler.  Version 2 has extra data, its length included in front, after the table id and the flags."""
        assembly, state, rows, maps = self._assembly, self._state, self._assembly.rows, self.maps

        def handle(b: bytes, p: int, end: int) -> None:
            low, high = _TABLE_ID(b, p)
            table = maps.get(low | high << 32) or self._table(b, p)
            if table is not None and not (state.is_xa and self._waits(kind, table, b, p, end)):
                assembly.part = b, p, end
                rows(operation, table, b, p + 8 if version == 1 else p + 8 + (b[p + 8] | b[p + 9] << 8), end)

        return handle

    def _compressed_rows_handler(self, kind: int, operation: int, version: int) -> Handler:
        """Make a handler for MariaDB's events, which compress what follows the column bitmaps."""
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


def place_of(state: LogState, size: int) -> str:
    """Name the place where the last event begins, which has `size` bytes: `file:offset`."""
    return f"{state.file}:{max(state.offset - size, 0)}"


def gap(state: LogState, what: str) -> LogGap:
    """The error for a log that does not go on where it ended."""
    error = LogGap(
        what, f"`tidelock run FEED` tries once more; if it stops here again, the log has lost changes: {RESYNC}"
    )
    error.position = f"{state.file}:{state.offset}"
    return error


def _number(file: str) -> int:
    return int(file.rpartition(".")[2])
