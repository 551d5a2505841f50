"""Chains of changes of one row: each begins with the row that the one before it has left.

A fold keeps the first before-image of a row and its last after-image, so what is between them must be a chain.  It is
none where somebody else wrote to the row at the source, and that write is not in this log: rows that another feed
brings there are left out.  Then a change in the middle would be overwritten, and nobody told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.engine.model.records import Row, Value
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change


def breaks(changes: Sequence[Change]) -> Iterator[Change]:
    """Yields the changes, of tables with a key and whole images, that do not begin with what an earlier one has left.
    """
    left: dict[Binding, dict[Value, Row | None]] = {}
    for change in changes:
        binding, before, after = change.binding, change.before, change.after
        if not binding.key or binding.partial:
            continue
        rows, identity, broken = left.setdefault(binding, {}), binding.identity, False
        if before is not None:
            key = identity(before)
            broken = rows.get(key, before) != before
            rows[key] = None
        if after is not None:
            key = identity(after)
            broken = broken or rows.get(key) is not None
            rows[key] = after
        if broken:
            yield change
