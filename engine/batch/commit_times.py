"""Times at which the transactions were committed whose changes are on their way, where conflicts are decided by them.

A change that is decided about is one of those that were taken last, so older transactions are forgotten.  Of a change
that was parked before, and of one whose transaction is forgotten, no time is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.engine.model.options import Options
from tidelock.engine.model.records import Transaction
from tidelock.engine.parallel.segments import Change
from tidelock.engine.two_way.commit_order import commit_time


class CommitTimes:
    """Commit times of the last transactions that were planned."""

    def __init__(self, options: Options) -> None:
        self._wanted = options.clock is not None and any(words.by_time for words in options.policies.values())
        self._limit = 2 * (options.max_in_flight_rows + options.window_rows)
        self._times: dict[tuple[str, int], int] = {}

    def note(self, window: Iterable[Sequence[Transaction]]) -> None:
        """Takes the transactions of each batch, in order."""
        if not self._wanted:
            return
        times = self._times
        for batch in window:
            for one in batch:
                times.pop((one.source, one.number), None)
                times[one.source, one.number] = commit_time(one.source, one.commit_us)
        for old in list(times)[: max(0, len(times) - self._limit)]:
            del times[old]

    def of(self, change: Change) -> int:
        """Returns when its transaction was committed, microseconds since the epoch; 0: it is not known."""
        return self._times.get((change.source, change.number), 0)
