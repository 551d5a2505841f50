"""Messages of `pgoutput` in, chunks of source transactions out: the reader's state, without any I/O.

- *Boundary*: the end LSN of the last whole transaction.  A position is it plus the ordinals taken of the transaction
  behind it, so that reading again from there and dropping so many repeats nothing and loses nothing.
- *Ordinals* depend on the log alone, not on a connection, a setting or the tables that are wanted: each row message
  takes one, also one that changes nothing, and each TRUNCATE.  Relations, types, origins and logical messages take
  none, as a server sends them when it sees fit.  The first row has ordinal `NOTICES`: those before it are for changes
  of tables' forms (`form_notices`).
- Transactions are gathered into chunks (`chunk_assembly`).
- What an earlier reader has taken of a transaction is not looked at: a table is known by its first row behind that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelock.adapters.bookkeeping import verdicts
from tidelock.adapters.compiled.forms import admit
from tidelock.adapters.ports.source_errors import LogGap, SourceError, UnsuitableLog
from tidelock.adapters.postgres import form_messages, log_marks
from tidelock.adapters.postgres.logical import messages
from tidelock.adapters.postgres.logical.chunk_assembly import CHUNK_BYTES, ChunkAssembly
from tidelock.adapters.postgres.logical.damage import MALFORMED, DamagedMessage, unreadable
from tidelock.adapters.postgres.logical.form_notices import NOTICES, FormNotices
from tidelock.adapters.postgres.logical.relation_changes import quote_identifier
from tidelock.adapters.postgres.logical.relations import KnownTable, Relations, Role
from tidelock.adapters.postgres.logical.stream_state import PlainStreamState, StreamState
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.log_batch import RECEIPT, VERDICT
from tidelock.engine.model.records import Position, RowChange, TableName, spelled_lsn
from tidelock.engine.model.schema_change import Ddl, DdlKind

# So many transactions without wanted rows may pass before the position is told anyway.
QUIET_TRANSACTIONS: Final = 5_000

Take: TypeAlias = Callable[[Any, int], None]


class Assembly(ChunkAssembly):
    """Takes messages, and gathers their transactions in chunks.

    `identity`: `<system identifier>/<database>`, which transactions name as their source.  `start.rows` ordinals of the
    first transaction are dropped; `start.proof` is what positions are proven by until a transaction was read.
    `origins`: transactions that came to the source by replication are taken as its own;
    else one ends the reading.  `compiled`: the compiled form may be used.
    `images`: whole rows may be row images, where the compiled form makes them.
    `usual`: the compiled form, where it is used.  `take`: takes a message (a buffer of bytes) that stands at an LSN.
    It raises SourceError, and what the catalogue of `relations` raises.
    """

    def __init__(
        self,
        identity: str,
        start: Position,
        relations: Relations,
        wanted: Callable[[TableName], bool],
        is_marker: Callable[[TableName], bool],
        chunk_rows: int = 500,
        chunk_bytes: int = CHUNK_BYTES,
        *,
        origins: bool = False,
        compiled: bool = True,
        images: bool = False,
        commands: str = "",
    ) -> None:
        use = compiled and UsualMessages is not None
        made: type[PlainStreamState] = StreamState if use else PlainStreamState
        state = made(start.file, identity, start.offset, start.rows)
        super().__init__(state, start, relations, chunk_rows, chunk_bytes)
        self.notices = FormNotices(self)
        self.images = images
        self._wanted = wanted
        self._is_marker = is_marker
        self._origins = origins
        self._commands = commands
        self._handlers: dict[int, Callable[[bytes, int], None]] = {
            messages.INSERT: self._row,
            messages.UPDATE: self._row,
            messages.DELETE: self._row,
            messages.BEGIN: self._begin,
            messages.COMMIT: self._commit,
            messages.RELATION: self._relation,
            messages.TYPE: self._type,
            messages.TRUNCATE: self._truncate,
            messages.MESSAGE: self._message,
            messages.ORIGIN: self._origin,
        }
        self.usual = UsualMessages(self) if use and UsualMessages is not None else None
        self.take: Take = self.take_plain if self.usual is None else self.usual.take

    @property
    def behind_notices(self) -> bool:
        """Tells whether notices stand behind the last transaction, which only another one ends."""
        return not self.state.is_open and 0 < self.state.skip < NOTICES and self._opened is None

    # -- messages ------------------------------------------------------------------------------------------------

    def take_plain(self, payload: bytes | bytearray | memoryview, lsn: int) -> None:
        """Takes a message in the Python form.  Raises as `take` does."""
        b = bytes(payload)
        kind = b[0] if b else 0
        handler = self._handlers.get(kind)
        try:
            if handler is None:
                raise self._unknown(kind)
            handler(b, lsn)
        except SourceError as error:
            error.position = error.position or f"{self.state.file}:{spelled_lsn(lsn)}"
            raise
        except MALFORMED as error:
            raise unreadable(kind, error, self.state.file, lsn) from error

    def _unknown(self, kind: int) -> DamagedMessage:
        letter = chr(kind) if 32 < kind < 127 else f"{kind:#04x}"
        return DamagedMessage(f"the logical replication stream has a message {letter}, which protocol 1 has not")

    def _begin(self, b: bytes, lsn: int) -> None:
        state = self.state
        begun = messages.begin(b)
        if state.is_open:
            raise DamagedMessage("a transaction begins inside another")
        if begun.commit_lsn < state.boundary:
            raise LogGap(
                f"a transaction comes that was committed at {spelled_lsn(begun.commit_lsn)}, before this place",
                f"The stream goes back, which no slot does by itself: {RESYNC}",
            )
        state.is_open = True
        state.number, state.commit_us, state.xid = begun.commit_lsn, begun.commit_us, begun.xid
        state.parted = False
        state.ordinal, state.octets = NOTICES, 0
        state.notices = state.skip if state.skip < NOTICES else 0
        state.first = state.skip
        self._opened = None

    def _commit(self, b: bytes, lsn: int) -> None:
        """Ends the transaction, which is handed out if it holds wanted rows, or if a part of it was, be it by an
        earlier reader; then a chunk ends with it: whoever applies it as it comes takes nothing else with it."""
        state = self.state
        self._require_open("a commit")
        ended = messages.commit(b)
        if ended.commit_lsn != state.number or ended.end_lsn <= ended.commit_lsn:
            raise DamagedMessage("a commit is not the one that its transaction said")
        if state.ordinal < state.skip:
            raise LogGap(
                f"the transaction committed at {spelled_lsn(state.number)} has {state.ordinal - NOTICES} rows, but "
                f"{state.skip - NOTICES} of it were read before",
                f"The source's log is not the one that was read before: {RESYNC}",
            )
        state.server_us = state.commit_us
        ends_chunk = state.parted or state.first > 0
        if state.rows or state.marks or state.parted or state.first:
            state.done_rows += len(state.rows)
            state.done_octets += state.octets
            state.done.append(self._taken(ended.end_lsn, complete=True))
        state.is_open = False
        state.boundary = state.last_end = ended.end_lsn
        state.last_number, state.last_us, state.last_xid = state.number, state.commit_us, state.xid
        state.skip = state.first = 0
        state.quiet += 1
        if ends_chunk or self._is_full() or state.quiet >= QUIET_TRANSACTIONS:
            self.flush()

    def _row(self, b: bytes, lsn: int) -> None:
        state = self.state
        self._require_open("a row")
        oid, ordinal = messages.row_oid(b), state.ordinal
        if ordinal < state.skip and not self._is_marker(self.relations.name_of(oid)):
            state.ordinal += 1
            return
        is_first = oid not in self.relations.tables
        table = self._table(oid)
        if is_first and self.usual is not None and self.usual.take_row(b):
            return
        state.ordinal += 1
        if table.reader is None:
            return
        message = messages.row(b)
        if table.role is Role.MARKER:
            if message.kind == messages.INSERT:
                self._mark(table, table.reader.change(message, ordinal))
            return
        change = table.reader.change(message, ordinal)
        state.octets += len(b)
        if change is not None:
            state.rows.append(change)
        if self._is_full():
            self.relieve()

    def _mark(self, table: KnownTable, change: RowChange | None) -> None:
        """Takes a mark, however early it is: the first part that is handed out must tell whence the transaction came,
        also where that part begins in its middle."""
        if change is not None and change.after is not None:
            self.state.marks.append((RECEIPT, change.after))

    def _relation(self, b: bytes, lsn: int) -> None:
        self.relations.tell(messages.relation(b))

    def _table(self, oid: int, *, emptied: bool = False) -> KnownTable:
        """Returns the table of which something comes in the open transaction.  `emptied`: a TRUNCATE."""
        known = self.relations.tables.get(oid)
        if known is not None:
            return known
        self.notices.met(self.relations.resolve(oid, self.role, emptied=emptied))
        return self.relations.tables[oid]

    def _type(self, b: bytes, lsn: int) -> None:
        self.relations.name_type(messages.type_(b))

    def _truncate(self, b: bytes, lsn: int) -> None:
        self._require_open("a TRUNCATE")
        told = messages.truncate(b)
        state = self.state
        taken = state.ordinal
        if taken < state.skip:
            state.ordinal += 1
            return
        tables = [self._table(oid, emptied=True) for oid in told.oids]
        state.ordinal += 1
        wanted = [table for table in tables if table.role is Role.WANTED]
        if wanted:
            if state.rows or state.marks:
                state.ordinal = taken
                self.hand_out_part()
                state.ordinal = taken + 1
            names = tuple(table.name for table in wanted)
            words = ", ".join(f"{quote_identifier(name.schema)}.{quote_identifier(name.table)}" for name in names)
            ddl = Ddl("", f"TRUNCATE {words}", state.source, lsn, DdlKind.TRUNCATE, names)
            self.statement(ddl, state.ordinal)
            self.notices.emptied(table.oid for table in wanted)
            state.parted = True

    def _message(self, b: bytes, lsn: int) -> None:
        """Takes a message of our own, however early it is, as a mark is.  It has no ordinal; others mean nothing here.
        """
        told = messages.logical_message(b)
        if told.transactional:
            self._require_open("a transactional message")
            if told.prefix == verdicts.PREFIX:
                self._verdict(told.content)
            if told.prefix == form_messages.PREFIX:
                self.notices.told(told.content)
            if self._commands and told.prefix == self._commands:
                self.notices.commanded(told.content, lsn)
            mark = log_marks.read(told.content) if told.prefix == log_marks.PREFIX else None
            if mark is not None:
                self.state.marks.append(mark)

    def _verdict(self, content: bytes) -> None:
        """Takes a verdict, which is a row's change and takes an ordinal."""
        state = self.state
        ordinal = state.ordinal
        state.ordinal += 1
        if ordinal >= state.skip:
            state.marks.append((VERDICT, (ordinal, *log_marks.read_verdict(content))))

    def _origin(self, b: bytes, lsn: int) -> None:
        self._require_open("an origin")
        told = messages.origin(b)
        if not self._origins:
            raise UnsuitableLog(
                f"a transaction came to the source by replication, from its origin {told.name}",
                "Leave the tables of that subscription out of the feed's `tables`, then out of its publication (ALTER "
                f"PUBLICATION … DROP TABLE …), or read them where they are written; then {RESYNC}",
            )

    def _require_open(self, what: str) -> None:
        if not self.state.is_open:
            raise DamagedMessage(f"{what} comes where no transaction is open")

    def role(self, name: TableName) -> Role:
        """Returns what the table is to the feed."""
        if self._is_marker(name):
            return Role.MARKER
        return Role.WANTED if self._wanted(name) else Role.UNWANTED

    def keepalive(self, wal_end: int, clock_us: int) -> None:
        """Take a keepalive: the server has sent all before `wal_end`, and its clock says `clock_us` (µs since 1970).

        The position moves where nothing is open, and nothing of the next transaction was taken; the time is told
        always.
        """
        state = self.state
        state.server_us = max(state.server_us, clock_us)
        if state.is_open:
            return
        if (not state.skip or self.behind_notices) and wal_end > state.boundary:
            state.boundary, state.skip = wal_end, 0
        self.notices.settle()
        if state.done:
            self.flush()
        else:
            self.emit([], state.skip)


try:
    admit("row_decoder")
    from tidelock.adapters.postgres.logical.row_decoder import UsualMessages
except ImportError:
    UsualMessages = None  # type: ignore[misc, assignment]
