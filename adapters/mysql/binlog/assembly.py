"""Groups of row changes in, chunks of source transactions out: the reader's state, without any I/O.

- *Boundary*: the end of the last whole group.  A position is it plus the rows taken of the open group, so that
  reading again from there and dropping so many rows repeats nothing and loses nothing.
- *Ordinals* count every row image of a group, wanted or not.  A statement inside a group with rows (CREATE TABLE …
  SELECT) takes one ordinal too, so that it is not repeated either.
- Whole transactions wait in `_done`, rows of the open one in `_rows`.  What waits is handed out when it reaches
  `chunk_rows` rows or `chunk_bytes` of the log, the open group only when it alone is so large: memory is bounded
  however large a transaction is, and a smaller one is never split.
"""

from __future__ import annotations

import zlib
from typing import Final, TypeAlias

import msgspec

from tidelock.adapters.mysql.binlog.events import HEADER, HEADER_SIZE
from tidelock.adapters.mysql.binlog.history import other_transaction
from tidelock.adapters.mysql.binlog.row_compiler import INSERT, UPDATE
from tidelock.adapters.mysql.binlog.tables import Role, Table, Tables
from tidelock.adapters.mysql.gtid import GtidSet
from tidelock.adapters.ports.source_errors import LogGap, OtherHistory, UnsuitableLog
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.lineage import Group, Proof, carried, decode, encode
from tidelock.engine.model.records import Ddl, Position, Row, RowChange, SourceChunk, SourceTransaction

CHUNK_BYTES: Final = 4 << 20
# A group that ended: file, end, source, number, moment, whether it has a GTID, and `Assembly.ending`.
Closed: TypeAlias = tuple[str, int, str, int, int, bool, tuple[bytes, int, int]]
# So many transactions without wanted rows may pass before the position is told anyway.
QUIET_TRANSACTIONS: Final = 5_000


class Assembly:
    """`start.rows` ordinals of the first group are dropped.  Chunks come out in `ready`, in log order.

    `is_xa`: the open group is one of two phases, whose rows do not come here before they are committed.
    `settled`: the place in the log is known to be that of the GTID set.  After a start by GTID the stream begins with
    the head of a file, so until the first group or heartbeat no position is told: it would seem to go back.
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
        self.settled = settled
        self.server_us = 0
        self._tables = tables
        self._gtids = gtids
        self._chunk_rows = chunk_rows
        self._chunk_bytes = chunk_bytes
        self._file, self.boundary = start.file, start.offset
        self._told = (start.file, start.offset)
        self._done: list[SourceTransaction] = []
        self._done_rows = self._done_bytes = self._quiet = 0
        self._skip = start.rows
        self.is_open = False
        self._source, self._number, self._commit_us = "", 0, 0
        self._known_by_gtid = self._parted = self.is_xa = False
        self._ordinal = self._first = self._bytes = 0
        self._rows: list[RowChange] = []
        self._marks: list[tuple[int, Row]] = []
        self.ending = b"", 0, 0  # the event that may end the open group: buffer, its body's place and end
        self.part = b"", 0, 0  # likewise the last event with rows, told where a part of the group may be handed out
        self.moment_us = 0
        self.closed: Closed | None = None
        self._proof = carried(decode(start.proof) or Proof(server, 0), server)
        self._proof_text = encode(self._proof)
        self._expected, self._part = self._proof.opened, self._proof.part
        self._server = server
        self._begun = self._proof.begun

    # -- which log it is -----------------------------------------------------------------------------------------

    def file_begun(self, when: int) -> None:
        """The file that is read was begun then, in seconds since the epoch."""
        self._close_proof()
        self._begun = when

    def _told_proof(self, rows: int) -> str:
        self._close_proof()
        opened = self._expected
        if rows and self.is_open:
            opened = self._source, self._number, self.moment_us
        part = self._part if self._part is not None and self._part[0] > self.boundary else None
        inside = (opened, part) if rows else (None, None)
        proof = Proof(self._server, self._begun, self._proof.last, *inside)
        if proof != self._proof:
            self._proof, self._proof_text = proof, encode(proof)
        return self._proof_text

    def _close_proof(self) -> None:
        """What was noted of the last group, made a proof: once a chunk, not once a group."""
        if self.closed is not None:
            file, end, source, number, moment_us, by_gtid, (b, p, body_end) = self.closed
            when, _, _, size, _, _ = HEADER(b, p - HEADER_SIZE)
            mark = zlib.crc32(b[p:body_end])
            gtid = (source, number) if by_gtid else ("", 0)
            last = Group(*gtid, moment_us, file, self._begun, end, size, when, mark)
            self._proof = msgspec.structs.replace(self._proof, last=last)
            self._proof_text = encode(self._proof)
            self.closed = None

    def _close_part(self) -> None:
        """Up to where the open group is handed out.  Another commit within the second of MariaDB's GTID could have its
        number; rows that come from elsewhere in the log prove nothing."""
        b, p, body_end = self.part
        self._part = None
        if p and self._tables.by_mariadb:
            when, _, _, size, end, _ = HEADER(b, p - HEADER_SIZE)
            if end > self.boundary:  # of this group, and not so far in the file that it cannot be asked for
                self._part = end, size, when, zlib.crc32(b[p:body_end])

    # -- the open group ------------------------------------------------------------------------------------------

    def begin(self, source: str, number: int, commit_us: int, by_gtid: bool, moment_us: int = 0) -> None:
        """`moment_us`: when it was committed first (`engine.model.lineage`).

        Raises LogGap if the group before it has no end, OtherHistory if a part of another one was read here before.
        """
        if self.is_open:
            raise LogGap("a transaction begins inside another", f"The log is damaged: {RESYNC}")
        if self._skip and self._expected is not None and self._expected != (source, number, moment_us):
            raise OtherHistory(*other_transaction(self._expected, (source, number, moment_us)))
        self.moment_us = moment_us
        self.is_open = self.settled = True
        self._source, self._number, self._commit_us = source, number, commit_us
        self._known_by_gtid = by_gtid
        self._parted = self.is_xa = False
        self._ordinal = self._bytes = 0
        self._first = self._skip
        self.part = b"", 0, 0

    def rows(self, operation: int, table: Table, b: bytes, p: int, end: int) -> None:
        """The rows of one event, which begin with the column count at `p`."""
        ordinal = self._ordinal
        role = table.role
        if role is Role.UNWANTED or (role is Role.MARKER and operation != INSERT):
            self._ordinal = table.skip(b, p, end, 2 if operation == UPDATE else 1, ordinal)
            return
        prelude = table.two if operation == UPDATE else table.one
        if b.startswith(prelude, p):
            p += len(prelude)
        else:
            p = table.check_images(b, p, 2 if operation == UPDATE else 1)
        rows = self._rows
        kept = len(rows)
        try:
            self._ordinal = table.readers[operation](b, p, end, ordinal, rows.append)
        except UnicodeDecodeError:
            del rows[kept:]
            self._ordinal = table.lenient_readers[operation](b, p, end, ordinal, rows.append)
        self._grown(ordinal, kept, role, end - p)

    def partial_rows(self, table: Table, b: bytes, p: int, end: int) -> None:
        """The rows of an event with parts of JSON documents, which begin with the column count at `p`."""
        ordinal = self._ordinal
        if table.role is not Role.WANTED:
            self._ordinal = table.skip_partial(b, p, end, ordinal)
            return
        p = table.check_images(b, p, 2)
        rows = self._rows
        kept = len(rows)
        try:
            self._ordinal = table.partial_rows(b, p, end, ordinal, rows.append, lenient=False)
        except UnicodeDecodeError:
            del rows[kept:]
            self._ordinal = table.partial_rows(b, p, end, ordinal, rows.append, lenient=True)
        self._grown(ordinal, kept, table.role, end - p)

    def _grown(self, ordinal: int, kept: int, role: Role, size: int) -> None:
        """Rows of an event of `size` bytes were added, the first with this ordinal, behind those `kept`."""
        if ordinal < self._skip or role is Role.MARKER:
            self._sift(kept, role)
        rows = self._rows
        if self._ordinal > self._skip:
            self._bytes += size
        if self._done_rows + len(rows) >= self._chunk_rows or self._done_bytes + self._bytes >= self._chunk_bytes:
            self._relieve()

    def _sift(self, kept: int, role: Role) -> None:
        """Drops rows that an earlier reader handed out, and takes a marker table's rows as marks.

        Marks stay, however early they were: the first part that is handed out must tell whence the transaction came,
        also where that part begins in its middle.
        """
        found = self._rows[kept:]
        del self._rows[kept:]
        if role is Role.MARKER:
            self._marks.extend((row.table, row.after) for row in found if row.after is not None)
        else:
            self._rows.extend(row for row in found if row.ordinal >= self._skip)

    def _relieve(self) -> None:
        if self._done:
            self.flush()
        if len(self._rows) >= self._chunk_rows or self._bytes >= self._chunk_bytes:
            self._hand_out_part()

    def go_on(self) -> None:
        """Tells how far the open group is read, if part of it was handed out: whoever holds that waits for the rest,
        however much of it is of other tables."""
        begun = self.is_open and not self.is_xa and (self._parted or self._skip > 0)
        if begun and self._ordinal > self._first and self._ordinal >= self._skip:
            self._hand_out_part()

    def _hand_out_part(self) -> None:
        self.flush()
        self._close_part()
        part = self._taken(self.boundary, complete=False)
        self._parted = True
        self._emit([part], self._ordinal)

    def _taken(self, end: int, complete: bool) -> SourceTransaction:
        """What was gathered of the open group, which is then empty."""
        first = self._first
        if self._ordinal > first:
            self._first = self._ordinal
        transaction = SourceTransaction(
            self._source,
            self._number,
            self._file,
            end,
            self._rows,
            first,
            self._first - first,
            complete,
            self._commit_us,
            None,
            tuple(self._marks) if self._marks else (),
        )
        self._rows = []
        if self._marks:
            self._marks = []
        self._bytes = 0
        return transaction

    def roll_back(self, waiting: bool) -> None:
        """The log undoes the open group, or part of it.  Raises UnsuitableLog if rows of it are wanted; `waiting`: such
        rows wait for its commit."""
        if waiting or self._rows or self._marks or self._parted:
            raise UnsuitableLog(
                "a transaction in the log is rolled back after it changed replicated rows",
                "MariaDB logs a transaction so that makes or drops a temporary table, older servers one that also "
                f"changes tables of MyISAM, Aria or MEMORY: keep those out of transactions; {RESYNC}",
            )

    def statement(self, schema: str, statement: str, end: int, when_us: int, alone: bool) -> None:
        """A DDL statement; `alone`: it is the whole group, else rows and a commit follow."""
        self.flush()
        taken = self._ordinal
        if taken >= self._skip and (self._rows or self._marks):
            self._hand_out_part()
        self.server_us = self._commit_us = self._commit_us or when_us
        if not alone:
            self._ordinal += 1
        if taken >= self._skip:
            transaction = self._taken(end if alone else self.boundary, complete=alone)
            transaction.ddl = Ddl(schema, statement, self._source, self._number)
            self._done.append(transaction)
        if alone:
            self._close(end)
            self.flush()
        elif self._done:
            done, self._done = self._done, []
            self._parted = True
            self._emit(done, self._ordinal)

    def commit(self, end: int, when_us: int) -> None:
        """The open group is whole; `end`: offset after it.

        It is handed out if it holds wanted rows, or if a part of it was, be it by an earlier reader.
        """
        self.server_us = self._commit_us = self._commit_us or when_us
        if self._rows or self._marks or self._parted or self._first:
            self._done_rows += len(self._rows)
            self._done_bytes += self._bytes
            self._done.append(self._taken(end, complete=True))
        self._close(end)
        if self._done_rows >= self._chunk_rows or self._done_bytes >= self._chunk_bytes:
            self.flush()

    def skip_group(self, end: int) -> None:
        """The open group touches no replicated data."""
        self._close(end)

    def _close(self, end: int) -> None:
        """Raises LogGap if the group is shorter than the start position said."""
        if self._ordinal < self._skip:
            raise LogGap(
                f"{self._source}:{self._number} has {self._ordinal} rows, but {self._skip} of it were read before",
                f"This is another log than the one that was read: {RESYNC}",
            )
        self.is_open = self.is_xa = False
        self._skip = 0
        self._expected = None
        self.boundary = end
        if self.ending[0]:
            self.closed = (
                self._file, end, self._source, self._number, self.moment_us, self._known_by_gtid, self.ending
            )  # fmt: skip
        if self._known_by_gtid:
            self._gtids.add(self._source, self._number)
        self._quiet += 1
        if self._quiet >= QUIET_TRANSACTIONS:
            self.flush()

    @property
    def place(self) -> Position:
        """Where the open group begins."""
        return Position(self._file, self.boundary)

    # -- positions and chunks ------------------------------------------------------------------------------------

    def between_groups(self, file: str, offset: int) -> None:
        """Outside a group the boundary follows the log.  The open group, cut off by the end of a file, is undone."""
        if self.is_open:
            self._abandon()
        if file != self._file:
            if self._done:
                self.flush()  # its last position is in the old file
            self._close_proof()
            self._begun = 0
        self._file, self.boundary = file, offset

    def _abandon(self) -> None:
        """A crashed server left an unfinished group behind: its own replicas roll it back too."""
        if self._parted or self._skip:
            raise LogGap(
                f"the log ends inside {self._source}:{self._number}, part of which was handed out",
                f"The source crashed while it wrote its log: {RESYNC}",
            )
        self.is_open = False
        self._rows, self._marks = [], []

    def flush(self) -> None:
        """Hands out whole transactions, or at least the position if it moved."""
        self._quiet = 0
        if self._done or (self.settled and self._told != (self._file, self.boundary)):
            done, self._done = self._done, []
            self._emit(done, self._first if self.is_open and self._parted else self._skip)

    def tell(self) -> None:
        """Hands out whole transactions, or the position and the server's time even if nothing moved."""
        self._told = ("", 0)
        self.flush()

    def _emit(self, transactions: list[SourceTransaction], rows: int) -> None:
        self._done_rows = self._done_bytes = 0
        self._told = (self._file, self.boundary)
        last = Position(self._file, self.boundary, rows, str(self._gtids), self._told_proof(rows))
        self.ready.append(SourceChunk(transactions, last, self._tables.announce(), self.server_us))
