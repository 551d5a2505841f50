"""Table affinity: in a window, a table with few changes goes to one lane, always the same.

Where there are more tables than lanes, such a table is one statement there in place of one a lane, and one session
opens it, not all.  Its lane is the one which had the fewest changes of such tables in the window in which the table
first came (counted over all windows, new tables would all go to whichever lane lagged).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelock.engine.model.schema import Binding

FEW_PARTS: Final = 2
"""A table has few changes in a window if they are fewer than such a part of a lane's share."""


class TableAffinity:
    """`lanes`: such tables share the first so many lanes."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._lane_of: dict[Binding, int] = {}

    def forget(self) -> None:
        """Forgets which lane each table has: their bindings do not come any more."""
        self._lane_of.clear()

    def lanes(self, rows: Mapping[Binding, int]) -> dict[Binding, int]:
        """The tables of a window that have few changes, each with its lane.  `rows`: changes of each of its tables."""
        few = sum(rows.values()) // (self._lanes * FEW_PARTS)
        affine = [(table, count) for table, count in rows.items() if count <= few]
        loads = [0] * self._lanes
        for table, count in affine:
            if table in self._lane_of:
                loads[self._lane_of[table]] += count
        for table, count in affine:
            if table not in self._lane_of:
                lane = self._lane_of[table] = loads.index(min(loads))
                loads[lane] += count
        return {table: self._lane_of[table] for table, _ in affine}
