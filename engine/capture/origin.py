"""Loop control: which transactions of a source log came from a tidelock feed, and whence.

A replicated transaction carries its receipt: an insert into `tidelock_progress` whose `origin` and `path` name the
nodes it came through.  Only receipt *inserts* mark; a transaction whose path already holds the node it is about to be
sent to would return to where it was, so it is dropped (design 6, "The marker names origin and path").
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.model.records import Row

# The last two columns of `tidelock_progress` (adapters.bookkeeping.tables): origin and path, the path joined by spaces.
_ORIGIN, _PATH = -2, -1


def admits(marks: Sequence[tuple[int, Row]], node: str) -> bool:
    """May a transaction with these receipt rows go on to `node`?  Local ones (no mark) always may."""
    return not node or not any(node in (row[_ORIGIN], *str(row[_PATH]).split(" ")) for _, row in marks)
