"""The order in which batches commit, by the feed's `consistency`.

`row`: each lane sends a batch as soon as the one before is committed; the locks order what conflicts.

`transaction`: a batch is one segment, a run of whole source transactions.  Batches run side by side, each held before
its COMMIT until all earlier ones are committed.  Servers cannot see that wait, so where the head of the order waits
longer than a bound, all later open batches are rolled back and sent again after it (counter-example 13).

`now` is microseconds of the machine's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.engine.batch.in_flight_batch import InFlightBatch, Phase
from tidelock.engine.model.options import Options
from tidelock.engine.parallel.dispatcher import Dispatcher
from tidelock.engine.parallel.segments import Change


class LaneOrder:
    """Row consistency: each lane commits by itself, and no batch is held but for a trial.

    `atomic`, `most_rows`: a lane's batch is one segment, whatever it has; or it has about so many rows.
    """

    atomic: Final = False

    def __init__(self, options: Options) -> None:
        self.most_rows = options.batch_rows

    def plan(self, dispatcher: Dispatcher, window: int, changes: Sequence[Change]) -> int:
        """Appends the changes of a window to lanes; returns the number of segments made."""
        return dispatcher.plan(window, changes)

    def sent(self, batch: InFlightBatch, now: int) -> None:
        """Notes a batch that goes to the target for the first time."""

    def left(self, batch: InFlightBatch, now: int) -> None:
        """Notes that all of the batch is committed."""

    def segment_committed(self) -> None:
        """Notes that one more segment is committed, whoever's it is."""

    def is_head(self, batch: InFlightBatch) -> bool:
        """True if this batch keeps others waiting."""
        return False

    def next_to_commit(self, batch: InFlightBatch | None, now: int) -> InFlightBatch | None:
        """Returns the prepared batch whose turn it is.  `batch`: the one that has just been prepared, if one has."""
        return batch

    def to_roll_back(self, now: int) -> list[InFlightBatch]:
        """Returns batches that must give way, as the head of the order has waited for too long."""
        return []


class CommitOrder:
    """Transaction consistency: batches commit in the order of the source's log.

    The interface is that of `LaneOrder`.
    """

    atomic: Final = True
    most_rows: Final = 1

    def __init__(self, options: Options) -> None:
        self._bound_us = options.commit_bound_us
        self._lanes = options.lanes
        self._next_lane = 0
        self._batches: list[InFlightBatch] = []  # sent and not committed, in commit order
        self._committed_segments = 0
        self._head_since = 0  # when the head of the order became it, or later ones last gave way to it

    @property
    def head(self) -> InFlightBatch | None:
        """The batch that commits next; None if it waits for its lane, though later ones may be at the target."""
        return self._batches[0] if self._batches and self._batches[0].order == self._committed_segments else None

    def plan(self, dispatcher: Dispatcher, window: int, changes: Sequence[Change]) -> int:
        """Appends the whole transactions of a window to one lane, each window to the next lane."""
        lane, self._next_lane = self._next_lane, (self._next_lane + 1) % self._lanes
        return dispatcher.plan_transactions(window, changes, lane)

    def sent(self, batch: InFlightBatch, now: int) -> None:
        """Gives the batch its place, which is that of its segment, not of its sending."""
        self._batches.append(batch)
        self._batches.sort(key=lambda one: one.order)
        if batch is self.head:
            self._head_since = now

    def left(self, batch: InFlightBatch, now: int) -> None:
        """Takes the batch out: it is committed, and the next one becomes the head."""
        self._batches.remove(batch)
        self._head_since = now

    def segment_committed(self) -> None:
        """Counts a committed segment: the head is the one whose place is that count."""
        self._committed_segments += 1

    def is_head(self, batch: InFlightBatch) -> bool:
        """True if it is this batch's turn to commit."""
        return batch is self.head

    def next_to_commit(self, batch: InFlightBatch | None, now: int) -> InFlightBatch | None:
        """Returns the head if it is prepared; one in backoff is to be sent at once."""
        head = self.head
        if head is None:
            return None
        if head.phase is Phase.BACKOFF:
            head.retry_at = min(head.retry_at, now)
        return head if head.phase is Phase.PREPARED else None

    def to_roll_back(self, now: int) -> list[InFlightBatch]:
        """Returns all later open batches, where the head has waited longer than the bound: one of them may block it."""
        head = self.head
        waits = head is not None and head.phase in (Phase.RUNNING, Phase.BACKOFF)  # a lock timeout leads to backoff
        if not waits or now - self._head_since <= self._bound_us:
            return []
        self._head_since = now
        return [later for later in self._batches[1:] if later.phase in (Phase.RUNNING, Phase.PREPARED)]
