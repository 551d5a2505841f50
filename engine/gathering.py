"""Changes of tables kept back while the log is behind, until a table has enough for a statement: together they are one,
in place of one a window.

A target pays for a statement as much as for ten of its rows, and so do we, so with many tables their statements cost
more than their rows.  A table waits until it has `worth` changes, has waited long enough, or too many wait; and no more
when the log is not behind, before a statement, and before a copy (`apply`).  What leaves does so in about as many
changes as come, so that the target has work while the next is planned.

Who waits is as if the log had it later, so it must not matter to anybody when: a table waits only if it shares no lock
with another, that is, has no foreign key to or from it.  What conflicts with a change that waits is then a later one of
its table, which waits behind it.  The watermark stays before the window in which the first of them came.
"""

from __future__ import annotations

from collections import Counter

from engine.options import Options
from engine.records import TableName
from engine.schema import Binding
from engine.segments import Change

_ALONE = 4
"""A table waits for long if so many windows like this one would not make it worth a statement."""


class Waiting:
    """Of one table, in log order.  `window`, `since`: in which and when the first of them came."""

    __slots__ = ("changes", "since", "window")

    def __init__(self, window: int, since: int) -> None:
        self.window = window
        self.since = since
        self.changes: list[Change] = []


class Gathering:
    """`rows`: how many changes wait.  `row_bytes`: about how large one is."""

    def __init__(self, options: Options) -> None:
        self.rows = 0
        self.row_bytes = 0.0
        self._options = options
        self._worth = options.gather_rows
        self._pace = options.window_rows + options.window_rows // 2  # else what has come to be worth it would pile up
        self._tables: dict[TableName, Waiting] = {}  # in the order in which they began to wait
        self._worthy: dict[TableName, None] = {}  # those of them that have enough, as they came to

    @property
    def window(self) -> int | None:
        """The window in which the first change came that waits."""
        return self._first.window if self._tables else None

    def since(self, latest: int) -> bool:
        """Is there a table that waits since `latest` or longer?"""
        return bool(self._tables) and self._first.since <= latest

    def sift(self, changes: list[Change], window: int, now: int) -> list[Change]:
        """Of `changes`, those of `window`, and of what waits: what is to be planned now, each table's in log order."""
        counts = Counter([change.binding for change in changes])
        if not self.rows and len(counts) <= self._options.lanes:
            return changes
        ready = self._keep(changes, counts, window, now)
        while self._worthy and len(ready) < self._pace:
            ready += self._leave(next(iter(self._worthy)))
        ready += self.release(self._pace - len(ready), now - self._options.gather_us)
        while self.rows > self._options.gather_limit(self.row_bytes):
            ready += self._leave(next(iter(self._tables)))
        return ready

    def release(self, rows: int, latest: int) -> list[Change]:
        """Of what waits, the tables that have waited longest, since `latest` at least, until they have `rows` changes;
        each whole."""
        released: list[Change] = []
        while len(released) < rows and self.since(latest):
            released += self._leave(next(iter(self._tables)))
        return released

    @property
    def _first(self) -> Waiting:
        return next(iter(self._tables.values()))

    def _keep(self, changes: list[Change], counts: Counter[Binding], window: int, now: int) -> list[Change]:
        """Let wait what may; returns the rest.  `counts`: how many each table has."""
        kept = {binding: self._waiting(binding, window, now) for binding in counts if binding.lone}
        soon = {binding for binding in kept if _ALONE * counts[binding] >= self._worth}
        ready: list[Change] = []
        for change in changes:
            waiting = kept.get(change.binding)
            if waiting is None:
                ready.append(change)
            else:
                waiting.append(change if change.binding in soon else change.alone())
        self.rows += len(changes) - len(ready)
        for binding, waiting in kept.items():
            if len(waiting) >= self._worth:
                self._worthy[binding.target.name] = None
        return ready

    def _waiting(self, binding: Binding, window: int, now: int) -> list[Change]:
        """What waits of a table, which may come under two shapes."""
        name = binding.target.name
        waiting = self._tables.get(name)
        if waiting is None:
            waiting = self._tables[name] = Waiting(window, now)
        return waiting.changes

    def _leave(self, table: TableName) -> list[Change]:
        self._worthy.pop(table, None)
        changes = self._tables.pop(table).changes
        self.rows -= len(changes)
        return changes
