"""The coalescer: keeps changes of a table back, while the log is behind, until they are enough for one statement.

A target pays for a statement as much as for ten of its rows, and so do we, so with many tables their statements cost
more than their rows.  A table waits until it has `coalesce_rows` changes or has waited for `linger_us`.  It waits no
more when too many wait, when the log is not behind, before a statement, and before a copy (`apply.window_planner`).
Changes leave about as fast as they come, so that the target has work while the next are planned.

A change that waits is applied as if the log had it later, so its table must share no lock with another: it has no
foreign key to or from it.  Only a later change of the same table conflicts with it then, and that waits behind it.  The
watermark stays before the window in which the first of them came, so nothing that waits is below a checkpoint.

Rows wait on piles, one a table (`records.Pile`): changes are made of them when they are to be planned, so that those of
a table, which are then looked at several times, are not spread over all the memory that was filled meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.engine.log.bound_batch import BoundBatch
from tidelock.engine.model.options import Options
from tidelock.engine.model.packed_rows import Pile
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change


class TableBacklog:
    """Changes of one table that wait, in log order.

    `window`, `since`: in which window and when (microseconds) the first of them came.
    `rows`, `size`: how many, and about how many bytes, as of when they were measured.
    """

    __slots__ = ("piles", "rows", "since", "size", "window")

    def __init__(self, window: int, since: int) -> None:
        self.window = window
        self.since = since
        self.rows = 0
        self.size = 0
        self.piles: list[Pile] = []

    def pile(self, batch: BoundBatch) -> Pile:
        """Returns the pile that rows of `batch` go onto."""
        if not self.piles or not batch.accepts(self.piles[-1]):
            self.piles.append(batch.pile())
        return self.piles[-1]

    def measure(self) -> tuple[int, int]:
        """Returns how many rows, and about how many bytes, have come since this was asked last."""
        rows, size = self.rows, self.size
        self.rows = sum([pile.rows for pile in self.piles])
        self.size = sum([pile.size for pile in self.piles])
        return self.rows - rows, self.size - size


class Coalescer:
    """Keeps changes back until their tables have enough of them.

    `rows`: how many changes wait.  `size`: about how many bytes their rows take.
    """

    def __init__(self, options: Options) -> None:
        self.rows = 0
        self.size = 0
        self._options = options
        self._min_rows = options.coalesce_rows
        self._pace = options.window_rows + options.window_rows // 2  # else what has come to be worth it would pile up
        self._tables: dict[TableName, TableBacklog] = {}  # in the order in which they began to wait
        self._full: dict[TableName, None] = {}  # those of them that have enough, as they came to

    @property
    def window(self) -> int | None:
        """Number of the window in which the first change came that waits."""
        return self._first.window if self._tables else None

    @property
    def crowded(self) -> bool:
        """Tells whether more wait than may."""
        return self.rows > self._options.coalesce_limit or self.size > self._options.max_in_flight_bytes // 2

    def has_waited_since(self, latest: int) -> bool:
        """Tells whether there is a table that waits since `latest` (microseconds) or longer."""
        return bool(self._tables) and self._first.since <= latest

    def applies_to(self, tables: Iterable[Binding]) -> bool:
        """May a window with changes of these tables have some that wait?  There must be more than lanes, unless some
        wait already."""
        return bool(self.rows) or len(dict.fromkeys(tables)) > self._options.lanes

    def take_window(self, batches: Sequence[BoundBatch], window: int, now: int) -> list[Change]:
        """Take the batches of `window`.  Returns, of them and of what waits, the changes to be planned now, each
        table's in log order."""
        ready = self._keep(batches, window, now)
        while self._full and len(ready) < self._pace:
            ready += self._leave(next(iter(self._full)))
        ready += self.release(self._pace - len(ready), now - self._options.linger_us)
        return ready

    def release(self, rows: int, latest: int) -> list[Change]:
        """Release the tables that have waited longest, since `latest` at least, until they have `rows` changes; each
        table whole."""
        released: list[Change] = []
        while len(released) < rows and self.has_waited_since(latest):
            released += self._leave(next(iter(self._tables)))
        return released

    @property
    def _first(self) -> TableBacklog:
        return next(iter(self._tables.values()))

    def _keep(self, batches: Sequence[BoundBatch], window: int, now: int) -> list[Change]:
        """Let wait what may.  Returns the changes of the rest."""
        kept: dict[Binding, TableBacklog] = {}
        piles: dict[Binding, Pile] = {}
        packed = False
        ready: list[Change] = []
        for batch in batches:
            if batch.packed is not packed:
                packed = batch.packed
                piles.clear()
            for binding in batch.bindings.values():
                if binding.fk_free and binding not in piles:
                    waiting = kept[binding] = self._waiting(binding, window, now)
                    piles[binding] = waiting.pile(batch)
            ready += batch.pour(piles)
        for binding, waiting in kept.items():
            rows, size = waiting.measure()
            self.rows += rows
            self.size += size
            if waiting.rows >= self._min_rows:
                self._full[binding.target.name] = None
        return ready

    def _waiting(self, binding: Binding, window: int, now: int) -> TableBacklog:
        """Returns the backlog of a table, which may come under two shapes."""
        name = binding.target.name
        waiting = self._tables.get(name)
        if waiting is None:
            waiting = self._tables[name] = TableBacklog(window, now)
        return waiting

    def _leave(self, table: TableName) -> list[Change]:
        self._full.pop(table, None)
        waiting = self._tables.pop(table)
        self.rows -= waiting.rows
        self.size -= waiting.size
        return [change for pile in waiting.piles for change in pile.changes(Change)]
