"""The open transaction of a source's log as its reader gathers it: taken out of the state, whole or in part."""

from __future__ import annotations

from typing import Protocol

from tidelock.engine.model.log_batch import SourceTransaction
from tidelock.engine.model.records import Row, RowChange


class Gathered(Protocol):
    """State of a reader.

    `source`, `number`: identity of the open transaction, `commit_us`: its time.  `rows`, `marks`: gathered of it, of
    `octets` bytes.  `first`: ordinal of the first of them, `ordinal`: of the next.
    """

    source: str
    number: int
    commit_us: int
    rows: list[RowChange]
    marks: list[tuple[int, Row]]
    octets: int
    first: int
    ordinal: int


def take_out(state: Gathered, file: str, end: int, *, complete: bool) -> SourceTransaction:
    """Takes out what was gathered of the open transaction, up to `end` in `file`; nothing of it is gathered then."""
    first = state.first
    state.first = max(first, state.ordinal)
    taken = SourceTransaction(
        state.source,
        state.number,
        file,
        end,
        state.rows,
        first,
        state.first - first,
        complete,
        state.commit_us,
        None,
        tuple(state.marks),
    )
    state.rows = []
    state.marks = []
    state.octets = 0
    return taken
