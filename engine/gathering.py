"""Changes of tables kept back while the log is behind, until a table has enough for a statement: together they are one,
in place of one a window.

A target pays for a statement as much as for ten of its rows, and so do we, so with many tables their statements cost
more than their rows.  A table waits until it has `worth` changes or has waited long enough; and no more when too many
wait, when the log is not behind, before a statement, and before a copy (`apply`).  What leaves does so in about as many
changes as come, so that the target has work while the next is planned.

Who waits is as if the log had it later, so it must not matter to anybody when: a table waits only if it shares no lock
with another, that is, has no foreign key to or from it.  What conflicts with a change that waits is then a later one of
its table, which waits behind it.  The watermark stays before the window in which the first of them came.

A row may be a view of the message in which it came, which stays in memory as long as one of them does.  So a change
that may wait for long is copied out of it.
"""

from __future__ import annotations

from collections import Counter

from engine.options import Options
from engine.records import TableName
from engine.schema import Binding
from engine.segments import Change

_SOON = 4
"""A table that is worth a statement after so many windows like this one waits for no longer than those."""
_SAMPLED = 4


class Waiting:
    """Of one table, in log order.  `window`, `since`: in which and when the first of them came.  `size`: about how many
    bytes their rows take.  `own`: so many, from the first, hold no message."""

    __slots__ = ("changes", "own", "since", "size", "window")

    def __init__(self, window: int, since: int) -> None:
        self.window = window
        self.since = since
        self.changes: list[Change] = []
        self.own = 0
        self.size = 0

    def let_go(self) -> None:
        """Of the messages in which they came."""
        self.changes[self.own :] = [change.alone() for change in self.changes[self.own :]]
        self.own = len(self.changes)


class Gathering:
    """`rows`: how many changes wait.  `size`: about how many bytes their rows take."""

    def __init__(self, options: Options) -> None:
        self.rows = 0
        self.size = 0
        self._options = options
        self._worth = options.gather_rows
        self._pace = options.window_rows + options.window_rows // 2  # else what has come to be worth it would pile up
        self._tables: dict[TableName, Waiting] = {}  # in the order in which they began to wait
        self._worthy: dict[TableName, None] = {}  # those of them that have enough, as they came to
        self._holding: dict[TableName, int] = {}  # those that hold messages, since which window; ascending

    @property
    def window(self) -> int | None:
        """The window in which the first change came that waits."""
        return self._first.window if self._tables else None

    @property
    def crowded(self) -> bool:
        """Do more wait than may?"""
        return self.rows > self._options.gather_limit or self.size > self._options.room_bytes // 2

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
        self._let_go(window - _SOON)
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
        ready: list[Change] = []
        for change in changes:
            waiting = kept.get(change.binding)
            if waiting is None:
                ready.append(change)
            else:
                waiting.changes.append(change)
        self.rows += len(changes) - len(ready)
        for binding, waiting in kept.items():
            self._kept(binding.target.name, waiting, counts[binding], window)
        return ready

    def _kept(self, table: TableName, waiting: Waiting, count: int, window: int) -> None:
        """`count` more of a table wait."""
        size = _size(waiting.changes[-count:])
        waiting.size += size
        self.size += size
        if len(waiting.changes) >= self._worth:
            self._worthy[table] = None
        if count * _SOON >= self._worth or table in self._worthy:
            self._holding.setdefault(table, window)
        else:
            self._holding.pop(table, None)
            waiting.let_go()

    def _let_go(self, window: int) -> None:
        """What is here since `window` or longer holds messages no more."""
        for table in [table for table, since in self._holding.items() if since <= window]:
            del self._holding[table]
            self._tables[table].let_go()

    def _waiting(self, binding: Binding, window: int, now: int) -> Waiting:
        """What waits of a table, which may come under two shapes."""
        name = binding.target.name
        waiting = self._tables.get(name)
        if waiting is None:
            waiting = self._tables[name] = Waiting(window, now)
        return waiting

    def _leave(self, table: TableName) -> list[Change]:
        self._worthy.pop(table, None)
        self._holding.pop(table, None)
        waiting = self._tables.pop(table)
        self.rows -= len(waiting.changes)
        self.size -= waiting.size
        return waiting.changes


def _size(changes: list[Change]) -> int:
    """Of all their rows, as some of them have it."""
    some = changes[:: -(-len(changes) // _SAMPLED)]
    return sum([change.size for change in some]) * len(changes) // len(some)
