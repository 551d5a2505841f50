"""Sums of columns that an arbiter merges by value: nothing that a writer added is lost, nothing counts twice.

Rows of `stock` neither come nor go in these worlds.  So in the end each count is what it was at first and all that any
writer added, each peak is the greatest that any wrote, and each low the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.engine.model.records import Row
from tidelock.simulations.catalogue import STOCK
from tidelock.simulations.ledger import Mistake
from tidelock.simulations.log_entry import Entry

_COUNT, _PEAK, _LOW = (next(at for at, c in enumerate(STOCK.columns) if c.name == n) for n in ("count", "peak", "low"))


class Sums:
    """`added`: how often something was added to a row by a writer."""

    def __init__(self) -> None:
        self.added = 0
        self._wanted: dict[object, tuple[int, int, int]] = {}

    def wrote(self, entries: Iterable[Entry]) -> None:
        """A local writer's transaction is in its site's log."""
        for entry in entries:
            if entry.shape is None or entry.shape.name != STOCK.name or entry.after is None:
                continue
            count, peak, low = _numbers(entry.after)
            if entry.before is not None:
                self.added += 1
                so_far, highest, lowest = self._wanted[entry.after[0]]
                count += so_far - _numbers(entry.before)[0]
                peak, low = max(highest, peak), min(lowest, low)
            self._wanted[entry.after[0]] = count, peak, low

    def compare(self, rows: Iterable[Row]) -> None:
        """Raises Mistake where the rows do not hold what was added."""
        for row in rows:
            if (found := _numbers(row)) != (wanted := self._wanted[row[0]]):
                raise Mistake(f"count, peak and low of row {row[0]} are {found}, and writers made them {wanted}")


def _numbers(row: Row) -> tuple[int, int, int]:
    return int(row[_COUNT]), int(row[_PEAK]), int(row[_LOW])
