"""Groups of row changes in, chunks of source transactions out: the reader's state, without any I/O.

- *Boundary*: the end of the last whole group.  A position is it plus the rows taken of the open group, so that
  reading again from there and dropping so many rows repeats nothing and loses nothing.
- *Ordinals* count every row image of a group, wanted or not.  A statement inside a group with rows (CREATE TABLE …
  SELECT) takes one ordinal too, so that it is not repeated either.
- Whole transactions wait in `state.done`, rows of the open one in `state.rows`.  What waits is handed out when it
  reaches `chunk_rows` rows or `chunk_bytes` of the log, the open group only when it alone is so large: memory is
  bounded however large a transaction is, and a smaller one is never split.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from tidelock.adapters.mysql.binlog.events import HEADER, HEADER_SIZE, Query
from tidelock.adapters.mysql.binlog.history import other_transaction
from tidelock.adapters.mysql.binlog.log_state import LogState
from tidelock.adapters.mysql.binlog.row_compiler import INSERT, UPDATE
from tidelock.adapters.mysql.binlog.tables import LoggedTable, Role, Tables
from tidelock.adapters.mysql.gtid import GtidSet
from tidelock.adapters.ports.source_errors import LogGap, OtherHistory, UnsuitableLog
from tidelock.adapters.source.open_transaction import take_out
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.lineage import Group, Proof, carried, decode, encode
from tidelock.engine.model.log_batch import CHECKPOINT, RECEIPT, VERDICT, SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl

CHUNK_BYTES: Final = 4 << 20
# So many transactions without wanted rows may pass before the position is told anyway.
QUIET_TRANSACTIONS: Final = 5_000
_INSERTED: Final = (Role.MARKER, Role.VERDICT)
"""Tables of which inserted rows alone mean something."""


class Assembly:
    """Gathers groups in `state`.  Chunks come out in `ready`, in log order.

    `start.rows` ordinals of the first group are dropped.  Rows of a group of two phases (`state.is_xa`) do not come
    here before they are committed.  After a start by GTID the stream begins with the head of a file, so until the first
    group or heartbeat (`state.settled`) no position is told: it would seem to go back.
    """

    def __init__(
        self,
        tables: Tables,
        start: Position,
        gtids: GtidSet,
        chunk_rows: int,
        chunk_bytes: int = CHUNK_BYTES,
        *,
        settled: bool = True,
        server: str = "",
    ) -> None:
        """`server`: the source's identity, for the proofs of positions."""
        self.ready: list[SourceChunk] = []
        self.state = LogState(start.file, start.offset, settled)
        self._tables = tables
        self._gtids = gtids
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._quiet_groups = QUIET_TRANSACTIONS
        self._file = start.file
        self._told = (start.file, start.offset)
        self._skip = start.rows
        self.ending = b"", 0, 0  # the event that may end the open group: buffer, its body's place and end
        self.part = b"", 0, 0  # likewise the last event with rows, told where a part of the group may be handed out
        self._proof = carried(decode(start.proof) or Proof(server, 0), server)
        self._proof_text = encode(self._proof)
        self._expected, self._part = self._proof.opened, self._proof.part
        self._server = server
        self._begun = self._proof.begun

    # -- which log it is -----------------------------------------------------------------------------------------

    def file_begun(self, when: int) -> None:
        """Note when the file that is read was begun, in seconds since the epoch."""
        self._close_proof()
        self._begun = when

    def _told_proof(self, rows: int) -> str:
        state = self.state
        self._close_proof()
        opened = self._expected
        if rows and state.is_open:
            opened = state.source, state.number, state.moment_us
        part = self._part if self._part is not None and self._part[0] > state.boundary else None
        inside = (opened, part) if rows else (None, None)
        proof = Proof(self._server, self._begun, self._proof.last, *inside)
        if proof != self._proof:
            self._proof, self._proof_text = proof, encode(proof)
        return self._proof_text

    def _close_proof(self) -> None:
        """Make a proof of what was noted of the last group: once a chunk, not once a group."""
        state = self.state
        if state.closed is not None:
            file, end, source, number, moment_us, by_gtid, (b, p, body_end) = state.closed
            when, _, _, size, _, _ = HEADER(b, p - HEADER_SIZE)
            mark = zlib.crc32(b[p:body_end])
            gtid = (source, number) if by_gtid else ("", 0)
            last = Group(*gtid, moment_us, file, self._begun, end, size, when, mark)
            self._proof = msgspec.structs.replace(self._proof, last=last)
            self._proof_text = encode(self._proof)
            state.closed = None

    def _close_part(self) -> None:
        """Note the event up to which the open group is handed out.

        Another commit within the second of MariaDB's GTID could have its number.  Rows that come from elsewhere in the
        log prove nothing.
        """
        b, p, body_end = self.part
        self._part = None
        if p and self._tables.by_mariadb:
            when, _, _, size, end, _ = HEADER(b, p - HEADER_SIZE)
            if end > self.state.boundary:  # of this group, and not so far in the file that it cannot be asked for
                self._part = end, size, when, zlib.crc32(b[p:body_end])

    # -- the open group ------------------------------------------------------------------------------------------

    def begin(self, source: str, number: int, commit_us: int, by_gtid: bool, moment_us: int = 0) -> None:
        """Begin a group.  `moment_us`: when it was committed first, in µs since the epoch (`engine.model.lineage`).

        Raises LogGap if the group before it has no end, OtherHistory if a part of another one was read here before.
        """
        state = self.state
        if state.is_open:
            raise LogGap("a transaction begins inside another", f"The log is damaged: {RESYNC}")
        if self._skip and self._expected is not None and self._expected != (source, number, moment_us):
            raise OtherHistory(*other_transaction(self._expected, (source, number, moment_us)))
        state.moment_us = moment_us
        state.is_open = state.settled = True
        state.source, state.number, state.commit_us = source, number, commit_us
        state.known_by_gtid = by_gtid
        state.parted = state.is_xa = False
        state.ordinal = state.octets = 0
        state.first = self._skip
        self.part = b"", 0, 0

    def rows(self, operation: int, table: LoggedTable, b: bytes, p: int, end: int) -> None:
        """Take the rows of one event, which begin with the column count at `p`."""
        state = self.state
        ordinal = state.ordinal
        role = table.role
        if role is not Role.WANTED and (role is Role.UNWANTED or (role in _INSERTED and operation != INSERT)):
            state.ordinal = table.skip(b, p, end, 2 if operation == UPDATE else 1, ordinal)
            return
        prelude = table.two if operation == UPDATE else table.one
        if b.startswith(prelude, p):
            p += len(prelude)
        else:
            p = table.check_images(b, p, 2 if operation == UPDATE else 1)
        rows = state.rows
        kept = len(rows)
        try:
            state.ordinal = table.readers[operation](b, p, end, ordinal, rows.append)
        except UnicodeDecodeError:
            del rows[kept:]
            state.ordinal = table.lenient_readers[operation](b, p, end, ordinal, rows.append)
        self._grown(ordinal, kept, role, end - p)

    def partial_rows(self, table: LoggedTable, b: bytes, p: int, end: int) -> None:
        """Take the rows of an event with parts of JSON documents, which begin with the column count at `p`."""
        state = self.state
        ordinal = state.ordinal
        if table.role is not Role.WANTED:
            state.ordinal = table.skip_partial(b, p, end, ordinal)
            return
        p = table.check_images(b, p, 2)
        rows = state.rows
        kept = len(rows)
        try:
            state.ordinal = table.partial_rows(b, p, end, ordinal, rows.append, lenient=False)
        except UnicodeDecodeError:
            del rows[kept:]
            state.ordinal = table.partial_rows(b, p, end, ordinal, rows.append, lenient=True)
        self._grown(ordinal, kept, table.role, end - p)

    def _grown(self, ordinal: int, kept: int, role: Role, size: int) -> None:
        """Count rows of an event of `size` bytes that were added, the first with this ordinal, behind those `kept`."""
        state = self.state
        if ordinal < self._skip or role is not Role.WANTED:
            self._sift(kept, role)
        rows = state.rows
        if state.ordinal > self._skip:
            state.octets += size
        if state.done_rows + len(rows) >= self._chunk_rows or state.done_octets + state.octets >= self._chunk_bytes:
            self._relieve()

    def _sift(self, kept: int, role: Role) -> None:
        """Drops rows that an earlier reader handed out, and takes rows of feeds' own tables as marks.

        Marks stay, however early they were: the first part that is handed out must tell whence the transaction came,
        also where that part begins in its middle.
        """
        state = self.state
        found = state.rows[kept:]
        del state.rows[kept:]
        if role is Role.VERDICT:
            told = ((row.ordinal, row.after) for row in found if row.ordinal >= self._skip)
            state.marks.extend((VERDICT, (ordinal, *after)) for ordinal, after in told if after is not None)
        elif role is not Role.WANTED:
            kind = RECEIPT if role is Role.MARKER else CHECKPOINT
            state.marks.extend((kind, row.after) for row in found if row.after is not None)
        else:
            state.rows.extend(row for row in found if row.ordinal >= self._skip)

    def _relieve(self) -> None:
        state = self.state
        if state.done:
            self.flush()
        if len(state.rows) >= self._chunk_rows or state.octets >= self._chunk_bytes:
            self._hand_out_part()

    def go_on(self) -> None:
        """Tells how far the open group is read, if part of it was handed out.

        Whoever holds that part waits for the rest, however much of it is of other tables.
        """
        state = self.state
        begun = state.is_open and not state.is_xa and (state.parted or self._skip > 0)
        if begun and state.ordinal > state.first and state.ordinal >= self._skip:
            self._hand_out_part()

    def _hand_out_part(self) -> None:
        state = self.state
        self.flush()
        self._close_part()
        part = self._taken(state.boundary, complete=False)
        state.parted = True
        self._emit([part], state.ordinal)

    def _taken(self, end: int, complete: bool) -> SourceTransaction:
        return take_out(self.state, self._file, end, complete=complete)

    def roll_back(self, waiting: bool) -> None:
        """Undo the open group, or part of it.

        Raises UnsuitableLog if rows of it are wanted; `waiting`: such rows wait for its commit.
        """
        state = self.state
        if waiting or state.rows or state.marks or state.parted:
            raise UnsuitableLog(
                "a transaction in the log is rolled back after it changed replicated rows",
                "MariaDB logs a transaction so that makes or drops a temporary table, older servers one that also "
                f"changes tables of MyISAM, Aria or MEMORY: keep those out of transactions; {RESYNC}",
            )

    def statement(self, query: Query, end: int, when_us: int, alone: bool) -> None:
        """Take a DDL statement; `alone`: it is the whole group, else rows and a commit follow."""
        state = self.state
        self.flush()
        taken = state.ordinal
        if taken >= self._skip and (state.rows or state.marks):
            self._hand_out_part()
        state.server_us = state.commit_us = state.commit_us or when_us
        if not alone:
            state.ordinal += 1
        if taken >= self._skip:
            transaction = self._taken(end if alone else state.boundary, complete=alone)
            transaction.ddl = Ddl(
                query.schema, query.statement, state.source, state.number, sql_mode=query.sql_mode,
                moment_us=when_us, zone=query.zone,
            )  # fmt: skip
            state.done.append(transaction)
        if alone:
            self._close(end)
            self.flush()
        elif state.done:
            done, state.done = state.done, []
            state.parted = True
            self._emit(done, state.ordinal)

    def commit(self, end: int, when_us: int) -> None:
        """End the open group, which is whole; `end`: offset after it.

        It is handed out if it holds wanted rows, or if a part of it was, be it by an earlier reader; then a chunk ends
        with it: whoever applies it as it comes takes nothing else with it.
        """
        state = self.state
        state.server_us = state.commit_us = state.commit_us or when_us
        ends_chunk = state.parted or state.first > 0
        if state.rows or state.marks or state.parted or state.first:
            state.done_rows += len(state.rows)
            state.done_octets += state.octets
            state.done.append(self._taken(end, complete=True))
        self._close(end)
        if ends_chunk or state.done_rows >= self._chunk_rows or state.done_octets >= self._chunk_bytes:
            self.flush()

    def skip_group(self, end: int) -> None:
        """End the open group, which touches no replicated data."""
        self._close(end)

    def _close(self, end: int) -> None:
        """End the open group.  Raises LogGap if it is shorter than the start position said."""
        state = self.state
        if state.ordinal < self._skip:
            raise LogGap(
                f"{state.source}:{state.number} has {state.ordinal} rows, but {self._skip} of it were read before",
                f"This is another log than the one that was read: {RESYNC}",
            )
        state.is_open = state.is_xa = False
        self._skip = 0
        self._expected = None
        state.boundary = end
        if self.ending[0]:
            state.closed = (
                self._file, end, state.source, state.number, state.moment_us, state.known_by_gtid, self.ending
            )  # fmt: skip
        if state.known_by_gtid:
            self._gtids.add(state.source, state.number)
        state.quiet += 1
        if state.quiet >= self._quiet_groups:
            self.flush()

    @property
    def place(self) -> Position:
        """The position where the open group begins."""
        return Position(self._file, self.state.boundary)

    # -- positions and chunks ------------------------------------------------------------------------------------

    def between_groups(self, file: str, offset: int) -> None:
        """Move the boundary along the log outside a group.  The open group, cut off by the end of a file, is undone."""
        state = self.state
        if state.is_open:
            self._abandon()
        if file != self._file:
            if state.done:
                self.flush()  # its last position is in the old file
            self._close_proof()
            self._begun = 0
        self._file, state.boundary = file, offset

    def _abandon(self) -> None:
        """Undo an unfinished group that a crashed server left behind: its own replicas roll it back too."""
        state = self.state
        if state.parted or self._skip:
            raise LogGap(
                f"the log ends inside {state.source}:{state.number}, part of which was handed out",
                f"The source crashed while it wrote its log: {RESYNC}",
            )
        state.is_open = False
        state.rows, state.marks = [], []

    def flush(self) -> None:
        """Hands out whole transactions, or at least the position if it moved."""
        state = self.state
        state.quiet = 0
        if state.done or (state.settled and self._told != (self._file, state.boundary)):
            done, state.done = state.done, []
            self._emit(done, state.first if state.is_open and state.parted else self._skip)

    def tell(self) -> None:
        """Hands out whole transactions, or the position and the server's time even if nothing moved."""
        self._told = ("", 0)
        self.flush()

    def _emit(self, transactions: list[SourceTransaction], rows: int) -> None:
        state = self.state
        state.done_rows = state.done_octets = 0
        self._told = (self._file, state.boundary)
        last = Position(self._file, state.boundary, rows, str(self._gtids), self._told_proof(rows))
        self.ready.append(SourceChunk(transactions, last, self._tables.announce(), state.server_us))
