"""Share of changes that are in conflict at an arbiter, lately, and what follows from it.

Trying a batch is the cheapest way where nearly all of its rows are as the log says.  Where many are not, what was tried
is rolled back, and by the time that the rows in conflict are told, others have changed: a long batch is hardly ever
taken.  Then each change is decided about untried, behind a lock: one that is in no conflict stands as it came.
"""

from __future__ import annotations

from typing import Final

from tidelock.engine.model.options import Options

HIGH: Final = 0.08
LOW: Final = 0.02
_PART_OF_BATCH: Final = 8
"""The share is taken over so large a part of the rows that a batch may have."""


class Contention:
    """`high`: changes are decided about untried."""

    def __init__(self, options: Options) -> None:
        self.high = False
        self._decides = options.direction == "up" and not options.atomic
        self._enough = max(1, options.batch_rows // _PART_OF_BATCH)
        self._changes = 0
        self._conflicts = 0

    def note(self, changes: int, conflicts: int) -> None:
        """Takes how many changes were tried or decided about, and how many of them were in conflict."""
        self._changes += changes
        self._conflicts += conflicts
        if self._decides and self._changes >= self._enough:
            self.high = self._conflicts > self._changes * (LOW if self.high else HIGH)
            self._changes = self._conflicts = 0
