"""The place in the log and the open group: one state for framing, handlers and assembly.

The compiled form of usual events (`fast_path`) works on the same object, so it has a class of its own for it, with the
same attributes.  This is the one where that was not built.
"""

from __future__ import annotations

from typing import TypeAlias

from tidelock.adapters.compiled.forms import admit
from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Row, RowChange

Body: TypeAlias = tuple[bytes, int, int]
"""An event's body: buffer, place and end."""
Closed: TypeAlias = tuple[str, int, str, int, int, bool, Body]
"""A group that ended: file, end, source, number, moment in µs, whether it has a GTID, and the event that ended it."""


class PlainLogState:
    """The place in the log, the open group, and what waits to be handed out.

    - `file`, `offset`: the place behind the last event.  `when`: its time, in seconds since the epoch.
    - `tail`: bytes that a checksum takes at the end of each event.  `begun`: the open group began with BEGIN.
    - `boundary`: the end of the last whole group.  `closed`: that group, until a proof is made of it.
    - `settled`: the place in the log is known to be that of the GTID set.
    - `is_open`: a group is.  `source`, `number`, `commit_us`, `moment_us`: its name and times, in µs since the epoch.
    - `known_by_gtid`, `is_xa`: it has a GTID; it is one of two phases.  `parted`: part of it was handed out.
    - `ordinal`: of its next row.  `first`: of the first row that is not handed out.  `octets`: of its rows.
    - `rows`: of it.  `marks`: rows of a marker table, as (shape number, row).
    - `done`: whole transactions, of `done_rows` rows and `done_octets` bytes.  `quiet`: groups since chunks went out.
    - `server_us`: the source's time as far as it is known, in µs since the epoch.
    """

    __slots__ = (
        "begun", "boundary", "closed", "commit_us", "done", "done_octets", "done_rows", "file", "first", "is_open",
        "is_xa", "known_by_gtid", "marks", "moment_us", "number", "octets", "offset", "ordinal", "parted", "quiet",
        "rows", "server_us", "settled", "source", "tail", "when",
    )  # fmt: skip

    def __init__(self, file: str, offset: int, settled: bool) -> None:
        self.file, self.offset, self.boundary = file, offset, offset
        self.when = self.tail = 0
        self.begun = False
        self.settled = settled
        self.is_open = self.known_by_gtid = self.parted = self.is_xa = False
        self.source, self.number, self.commit_us, self.moment_us, self.server_us = "", 0, 0, 0, 0
        self.ordinal = self.first = self.octets = 0
        self.rows: list[RowChange] = []
        self.marks: list[tuple[int, Row]] = []
        self.done: list[SourceTransaction] = []
        self.done_rows = self.done_octets = self.quiet = 0
        self.closed: Closed | None = None


try:
    admit("fast_path")
    from tidelock.adapters.mysql.binlog.fast_path import LogState
except ImportError:  # not built, or not from this source
    LogState = PlainLogState  # type: ignore[misc, assignment]

__all__ = ["Body", "Closed", "LogState", "PlainLogState"]
