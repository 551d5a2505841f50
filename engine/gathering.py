"""Changes of tables that have few of them at a time, kept back while the log is behind: together they are one statement
in place of one each.

A target pays for a statement as much as for ten of its rows, so thousands of tables with a change now and then cost it
more than all rows of the busy ones.  A table waits until it has `worth` changes, or until all that waits is planned:
when the log is not behind any more, before a statement or a copy, and before long in any case (`apply`).

Who waits is as if the log had it later, so it must not matter to anybody when: a table waits only if it shares no lock
with another, that is, has no foreign key to or from it.  What conflicts with a change that waits is then a later one of
its table, which waits behind it.  The watermark stays before the window in which the first of them came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Final

from engine.records import TableName
from engine.schema import Binding
from engine.segments import Change

_BINDING: Final = attrgetter("binding")


class Gathering:
    """`rows`: how many changes wait.  `since`: when the first of them began to.  `tables`: no more than so many tables
    need not wait."""

    def __init__(self, worth: int, tables: int) -> None:
        self.rows = 0
        self.since = 0
        self._worth = worth
        self._tables = tables
        self._kept: dict[TableName, list[Change]] = {}

    def sift(self, changes: list[Change], now: int) -> list[Change]:
        """Of `changes`, a window's, and of what waits: what is to be planned now, each table's in log order."""
        bindings = dict.fromkeys([change.binding for change in changes])
        if not self.rows and len(bindings) <= self._tables:
            return changes
        runs = [(binding, list(run)) for binding, run in groupby(changes, _BINDING)]
        waiting = self._waiting(bindings, runs)
        ready: list[Change] = []
        for binding in bindings:
            if binding not in waiting and binding.name in self._kept:
                ready += self._kept.pop(binding.name)
        self.rows -= len(ready)
        if not self.rows:
            self.since = now
        for binding, run in runs:
            kept = waiting.get(binding)
            if kept is None:
                ready += run
            else:
                kept += [change.alone() for change in run]
                self.rows += len(run)
        return ready

    def release(self) -> list[Change]:
        """All that waits."""
        kept, self._kept, self.rows = self._kept, {}, 0
        return [change for changes in kept.values() for change in changes]

    def _waiting(
        self, bindings: Iterable[Binding], runs: Iterable[tuple[Binding, list[Change]]]
    ) -> dict[Binding, list[Change]]:
        """The tables of a window that wait, each with what waits of it, to be added to.  `runs`: neighbours of one
        table."""
        rows: Counter[TableName] = Counter()  # a table may come under two shapes
        for binding, run in runs:
            rows[binding.name] += len(run)
        few = [
            binding
            for binding in bindings
            if not (binding.target.foreign_keys or binding.target.references)
            and rows[binding.name] + len(self._kept.get(binding.name, ())) < self._worth
        ]
        if len(few) <= self._tables:
            return {}
        return {binding: self._kept.setdefault(binding.name, []) for binding in few}
