"""Tables that stay whole in a window: where there are more tables than lanes, one with few changes goes to one lane,
always the same: there it is one statement in place of one a lane, and one session opens it, not all.  That is the lane
which had the fewest changes of such tables in the window in which it first came (counted over all windows, new tables
would all go to whichever lane lagged)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelock.engine.model.schema import Binding

FEW_PARTS: Final = 2
"""A table has few changes in a window if they are fewer than such a part of a lane's share."""


class WholeTables:
    """`lanes`: tables that stay whole share the first so many."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._lane_of: dict[Binding, int] = {}

    def forget(self) -> None:
        self._lane_of.clear()

    def of(self, rows: Mapping[Binding, int]) -> dict[Binding, int]:
        """Those of a window, each with its lane.  `rows`: how many changes each of the window's tables has."""
        few = sum(rows.values()) // (self._lanes * FEW_PARTS)
        whole = [(table, count) for table, count in rows.items() if count <= few]
        loads = [0] * self._lanes
        for table, count in whole:
            if table in self._lane_of:
                loads[self._lane_of[table]] += count
        for table, count in whole:
            if table not in self._lane_of:
                lane = self._lane_of[table] = loads.index(min(loads))
                loads[lane] += count
        return {table: self._lane_of[table] for table, _ in whole}
