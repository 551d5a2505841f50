"""Counts of a run beside its machine: how long batches take, how large they are, how late rows come, rows by table.

All is counted by the batch, the piece or the step, never by the row.  One `Meters` counts for one group of tables, over
all machines that a process has for it, so that no counter falls when the feed is taken over anew.
"""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidelock.adapters.runtime.spans import Spans
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.events import ApplyEvent, BatchCommitted, BatchFailed, BatchRolledBack

ROWS: Final = (1.0, 10.0, 100.0, 500.0, 1000.0, 2000.0, 4000.0, 10_000.0)
APPLY_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LATENCY_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Histogram:
    """A histogram as Prometheus has it.  `counts`: observations in each bucket alone, the last is above all `bounds`.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Counts one value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def cumulative(self) -> list[tuple[float, int]]:
        """Each bound, with the number of observations at or below it."""
        below, found = 0, []
        for bound, count in zip(self.bounds, self.counts, strict=False):
            below += count
            found.append((bound, below))
        return found

    @property
    def count(self) -> int:
        """All observations."""
        return sum(self.counts)


class _Sent:
    """A batch that the target has not answered for: when it was sent, its rows, and those by table."""

    def __init__(self, rows: int, tables: Counter[str]) -> None:
        self.since, self.rows, self.tables = time.monotonic(), rows, tables


class Meters:
    """The counts of one group.

    `batch_rows`, `batch_seconds`: of each transaction that was committed.  `latency_seconds`: from the commit at the
    source until all up to there is committed at the target, each time that rows have moved this.  `table_rows`: rows
    written or deleted, by table of the target; changes of one row that share a batch count once.  `last_event`: the
    source's time up to which all is committed, in seconds since 1970; 0: not known.  `checkpoint_seconds`: how long
    committed rows wait already for their checkpoint.  `spans`: is told of what is sent, too.
    """

    def __init__(self, group: int = 0) -> None:
        self.group = group
        self.spans: Spans | None = None
        self.batch_rows = Histogram(ROWS)
        self.batch_seconds = Histogram(APPLY_SECONDS)
        self.latency_seconds = Histogram(LATENCY_SECONDS)
        self.table_rows = Counter[str]()
        self.last_event = 0.0
        self.checkpoint_seconds = 0.0
        self._sent: dict[EffectId, _Sent] = {}
        self._window = -1
        self._rows_came = False
        self._saved: Position | None = None
        self._covered_at = 0.0

    def begin(self) -> None:
        """Notes that a machine begins: nothing is on its way."""
        self._sent.clear()
        if self.spans is not None:
            self.spans.begin()
        self._window, self._rows_came, self._saved = -1, False, None
        self.checkpoint_seconds = 0.0

    def sent(self, id_: EffectId, rows: int, tables: Counter[str]) -> None:
        """Notes that a batch was sent, of so many changes; `tables`: rows that it writes, by table."""
        self._sent[id_] = _Sent(rows, tables)

    def sent_piece(self, id_: EffectId, rows: int, tables: Counter[str]) -> None:
        """Notes that a piece of a held batch was sent."""
        if (batch := self._sent.get(id_)) is not None:
            batch.rows += rows
            batch.tables.update(tables)

    def answered(self, event: ApplyEvent) -> None:
        """Takes an answer of the target; what is not about a batch that was sent is passed over."""
        if isinstance(event, BatchCommitted):
            self._committed(event.id)
        elif isinstance(event, BatchFailed | BatchRolledBack):
            self._sent.pop(event.id, None)

    def _committed(self, id_: EffectId) -> None:
        if (batch := self._sent.pop(id_, None)) is None:
            return
        self._rows_came = True
        self.batch_rows.observe(batch.rows)
        self.batch_seconds.observe(time.monotonic() - batch.since)
        self.table_rows.update(batch.tables)

    def reached(self, window: int, end_us: int) -> None:
        """Takes the last stretch of the log that is committed with all before it, and the source's time at its end, in
        microseconds; 0: not known.  A heartbeat of an idle source tells its time, and is no row that was late.
        """
        if window == self._window:
            return
        self._window, self.last_event = window, end_us / 1e6
        if self._rows_came and end_us:
            self._rows_came = False
            self.latency_seconds.observe(max(0.0, time.time() - self.last_event))

    def saved(self, saved: Position, committed: Position) -> None:
        """Takes the checkpoint, and the place up to which all is committed."""
        now = time.monotonic()
        if saved != self._saved or saved == committed:
            self._saved, self._covered_at = saved, now
        self.checkpoint_seconds = now - self._covered_at
