"""The place in the stream and the open transaction: one state for the messages' handlers, whichever form they have.

The compiled form (`row_decoder`) works on the same object, so it has a class of its own for it, with the same
attributes.  This is the one where that was not built.
"""

from __future__ import annotations

from tidelock.adapters.compiled.forms import admit
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Row, RowChange


class PlainStreamState:
    """The place in the stream, the open transaction, and what waits to be handed out.

    - `file`: the server and its timeline, as positions name them.  `source`: the database, as transactions name it.
    - `boundary`: the end of the last whole transaction, or a place behind it where none is open.
    - `is_open`: a transaction is.  `number`: its commit LSN.  `commit_us`: its time, in µs since 1970.  `xid`: its own.
    - `last_number`, `last_end`, `last_us`, `last_xid`: the same of the last whole transaction, and its end; no number:
      none was seen.
    - `parted`: part of it was handed out.  `notices`: changes of tables' forms that stand before it.
    - `ordinal`: of its next row.  `first`: of the first row that is not handed out.  `octets`: of its rows.
    - `skip`: so many ordinals of the next transaction were taken by an earlier reader.
    - `rows`: of it.  `marks`: rows of a marker table, as (shape number, row).
    - `done`: whole transactions, of `done_rows` rows and `done_octets` bytes.
    - `quiet`: transactions since chunks went out.
    - `server_us`: the source's time as far as it is known, in µs since 1970.
    """

    __slots__ = (
        "boundary", "commit_us", "done", "done_octets", "done_rows", "file", "first", "is_open", "last_end",
        "last_number", "last_us", "last_xid", "marks", "notices", "number", "octets", "ordinal", "parted", "quiet",
        "rows", "server_us", "skip", "source", "xid",
    )  # fmt: skip

    def __init__(self, file: str, source: str, boundary: int, skip: int) -> None:
        self.file, self.source, self.boundary, self.skip = file, source, boundary, skip
        self.is_open = self.parted = False
        self.number = self.commit_us = self.server_us = self.xid = 0
        self.last_number = self.last_end = self.last_us = self.last_xid = 0
        self.ordinal = self.first = self.octets = self.notices = 0
        self.rows: list[RowChange] = []
        self.marks: list[tuple[int, Row]] = []
        self.done: list[SourceTransaction] = []
        self.done_rows = self.done_octets = self.quiet = 0


try:
    admit("row_decoder")
    from tidelock.adapters.postgres.logical.row_decoder import StreamState
except ImportError:  # not built, or not from this source
    StreamState = PlainStreamState  # type: ignore[misc, assignment]

__all__ = ["PlainStreamState", "StreamState"]
