"""Changes of tables that have few of them at a time, kept back while the log is behind: together they are one statement
in place of one each.

A target pays for a statement as much as for ten of its rows, so thousands of tables with a change now and then cost it
more than all rows of the busy ones.  A table waits until it has `worth` changes, or until all that waits is planned:
when the log is not behind any more, before a statement or a copy, and before long in any case (`apply`).  That goes in
pieces as large as a window, so that the target has work while the next is planned.

Who waits is as if the log had it later, so it must not matter to anybody when: a table waits only if it shares no lock
with another, that is, has no foreign key to or from it.  What conflicts with a change that waits is then a later one of
its table, which waits behind it.  The watermark stays before the window in which the first of them came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from engine.records import TableName
from engine.schema import Binding
from engine.segments import Change


class Gathering:
    """`rows`: how many changes wait.  `since`: when the first of them began to.  `leaving`: some that waited are
    released, and the rest is to follow.  `tables`: no more than so many tables need not wait."""

    def __init__(self, worth: int, tables: int) -> None:
        self.rows = 0
        self.since = 0
        self.leaving = False
        self._worth = worth
        self._tables = tables
        self._kept: dict[TableName, list[Change]] = {}

    def sift(self, changes: list[Change], now: int) -> list[Change]:
        """Of `changes`, a window's, and of what waits: what is to be planned now, each table's in log order."""
        counts = Counter([change.binding for change in changes])
        if not self.rows and len(counts) <= self._tables:
            return changes
        waiting = self._waiting(counts)
        ready: list[Change] = []
        for binding in counts:
            if binding not in waiting and binding.name in self._kept:
                ready += self._kept.pop(binding.name)
        self.rows -= len(ready)
        if not self.rows:
            self.since = now
        for change in changes:
            kept = waiting.get(change.binding)
            if kept is None:
                ready.append(change)
            else:
                kept.append(change.alone())
        self.rows += sum([counts[binding] for binding in waiting])
        return ready

    def release(self, rows: int) -> list[Change]:
        """Of what waits, the tables that have waited longest, each whole, until they have `rows` changes."""
        released: list[Change] = []
        while self._kept and len(released) < rows:
            released += self._kept.pop(next(iter(self._kept)))
        self.rows -= len(released)
        self.leaving = bool(self._kept)
        return released

    def _waiting(self, counts: Mapping[Binding, int]) -> dict[Binding, list[Change]]:
        """The tables of a window that wait, each with what waits of it, to be added to.  `counts`: its changes."""
        rows: dict[TableName, int] = {}  # a table may come under two shapes
        for binding, count in counts.items():
            name = binding.target.name
            rows[name] = rows.get(name, len(self._kept.get(name, ()))) + count
        few = [binding for binding in counts if binding.lone and rows[binding.target.name] < self._worth]
        if len(few) <= self._tables:
            return {}
        return {binding: self._kept.setdefault(binding.target.name, []) for binding in few}
