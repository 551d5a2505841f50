"""Chunks of source transactions, as a reader of `pgoutput` gathers them.

Whole transactions wait in `state.done`, rows of the open one in `state.rows`.  What waits is handed out when it reaches
`chunk_rows` rows or `chunk_bytes` of messages, the open one only when it alone is so large: memory is bounded however
large a transaction is, and a smaller one is never split.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.postgres.logical.last_read import transaction_read
from tidelock.adapters.postgres.logical.relations import Relations
from tidelock.adapters.postgres.logical.stream_state import PlainStreamState
from tidelock.adapters.source.open_transaction import take_out
from tidelock.engine.model import lineage
from tidelock.engine.model.lineage import Proof
from tidelock.engine.model.log_batch import SourceChunk, SourceTransaction
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl

CHUNK_BYTES: Final = 4 << 20


class ChunkAssembly:
    """Gathers transactions in `state`.  Chunks come out in `ready`, in log order."""

    def __init__(
        self, state: PlainStreamState, start: Position, relations: Relations, chunk_rows: int, chunk_bytes: int
    ) -> None:
        self.ready: list[SourceChunk] = []
        self.state = state
        self.relations = relations
        self.chunk_rows = chunk_rows
        self.chunk_bytes = chunk_bytes
        self._told = start.offset
        before = lineage.decode(start.proof)
        self._last = before.last if before is not None else None
        self._opened = before.opened if before is not None else None

    @property
    def open(self) -> bool:
        """Tells whether a transaction is open."""
        return self.state.is_open

    @property
    def place(self) -> Position:
        """Returns the position where the open transaction begins, or the last one ended."""
        return Position(self.state.file, self.state.boundary)

    @property
    def last_end(self) -> int:
        """Returns where the last whole transaction ended; 0: none was seen."""
        return self.state.last_end

    @property
    def holds(self) -> bool:
        """Tells whether whole transactions wait to be handed out."""
        return bool(self.state.done)

    def flush(self) -> None:
        """Hands out whole transactions, or at least the position if it moved."""
        state = self.state
        state.quiet = 0
        if state.done or self._told != state.boundary:
            done, state.done = state.done, []
            self.emit(done, state.first if state.is_open else state.skip)

    def go_on(self) -> None:
        """Tells how far the open transaction is read, if part of it was handed out.

        Whoever holds that part waits for the rest, however much of it is of other tables.
        """
        state = self.state
        if state.is_open and (state.parted or state.skip > 0) and state.ordinal > max(state.first, state.skip):
            self.hand_out_part()

    def relieve(self) -> None:
        """Hands out what waits, and of the open transaction a part if it alone is large."""
        state = self.state
        if state.done:
            self.flush()
        if len(state.rows) >= self.chunk_rows or state.octets >= self.chunk_bytes:
            self.hand_out_part()

    def _is_full(self) -> bool:
        state = self.state
        return (
            state.done_rows + len(state.rows) >= self.chunk_rows
            or state.done_octets + state.octets >= self.chunk_bytes
        )

    def hand_out_part(self) -> None:
        """Hands out a part of the open transaction, behind all whole ones."""
        state = self.state
        self.flush()
        part = self._taken(state.boundary, complete=False)
        state.parted = True
        self.emit([part], state.ordinal)

    def statement(self, ddl: Ddl, rows: int) -> None:
        """Hands out a statement of the open transaction, behind which `rows` ordinals of it are taken."""
        state = self.state
        self.flush()
        transaction = self._taken(state.boundary, complete=False)
        transaction.ddl = ddl
        self.emit([transaction], rows)

    def _taken(self, end: int, complete: bool) -> SourceTransaction:
        return take_out(self.state, self.state.file, end, complete=complete)

    def emit(self, transactions: list[SourceTransaction], rows: int) -> None:
        """Makes a chunk, behind which `rows` ordinals of the transaction at the boundary are taken."""
        state = self.state
        state.done_rows = state.done_octets = 0
        self._told = state.boundary
        last = Position(state.file, state.boundary, rows, "", self._proof())
        self.ready.append(SourceChunk(transactions, last, self.relations.announce(), state.server_us))

    def _proof(self) -> str:
        """Returns the proof of which log the place of a chunk is one of: the last whole transaction, and the open one
        if part of it is before that place."""
        state = self.state
        if state.last_number:
            self._last = transaction_read(state)
        opened = None
        if state.is_open:
            opened = (state.source, state.number, state.commit_us)
        elif state.skip:
            opened = self._opened
        return lineage.encode(Proof(state.source, 0, self._last, opened))
