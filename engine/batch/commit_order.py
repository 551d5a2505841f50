"""The order in which batches commit, by the feed's `consistency`.

`row`: each lane sends a batch as soon as the one before is committed; the locks order what conflicts.

`transaction`: a batch is one segment, a run of whole source transactions.  Batches run side by side, each held before
its COMMIT until all earlier ones are committed.  Servers cannot see that wait, so where the head of the order waits
longer than a bound, all later open batches are rolled back and sent again after it (counter-example 13).

It goes by turns, and sees no rows.  `now` is microseconds of the machine's clock.
"""

from __future__ import annotations

from typing import Final

from tidelock.engine.batch.in_flight_batch import Phase, Turn
from tidelock.engine.model.options import Options


class LaneOrder:
    """Row consistency: each lane commits by itself, and no batch is held but for a trial.

    `atomic`, `most_rows`: a lane's batch is one segment, whatever it has; or it has about so many rows.
    """

    atomic: Final = False

    def __init__(self, options: Options) -> None:
        self.most_rows = options.batch_rows

    def lane(self) -> int | None:
        """Returns the lane that takes the next window whole; None: its rows go to the lanes that their keys tell."""
        return None

    def sent(self, turn: Turn, now: int) -> None:
        """Notes the turn of a batch that goes to the target for the first time."""

    def left(self, turn: Turn, now: int) -> None:
        """Notes that all of the batch is committed."""

    def segment_committed(self) -> None:
        """Notes that one more segment is committed, whoever's it is."""

    def is_head(self, turn: Turn) -> bool:
        """True if it keeps others waiting."""
        return False

    def next_to_commit(self, turn: Turn | None, now: int) -> Turn | None:
        """Returns the turn that is to commit now.  `turn`: the one that has just been prepared, if one has."""
        return turn

    def to_roll_back(self, now: int) -> list[Turn]:
        """Returns turns that must give way, as the head of the order has waited for too long."""
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
        self._turns: list[Turn] = []  # sent and not committed, in commit order
        self._committed_segments = 0
        self._head_since = 0  # when the head of the order became it, or later ones last gave way to it

    @property
    def head(self) -> Turn | None:
        """The turn of the batch that commits next; None if it waits for its lane, though later may be at the target."""
        return self._turns[0] if self._turns and self._turns[0].order == self._committed_segments else None

    def lane(self) -> int | None:
        """Returns the lane that takes the whole transactions of the next window: the one after the last."""
        lane, self._next_lane = self._next_lane, (self._next_lane + 1) % self._lanes
        return lane

    def sent(self, turn: Turn, now: int) -> None:
        """Gives the turn its place, which is that of its segment, not of its sending."""
        self._turns.append(turn)
        self._turns.sort(key=lambda one: one.order)
        if turn is self.head:
            self._head_since = now

    def left(self, turn: Turn, now: int) -> None:
        """Takes the turn out: its batch is committed, and the next one becomes the head."""
        self._turns.remove(turn)
        self._head_since = now

    def segment_committed(self) -> None:
        """Counts a committed segment: the head is the one whose place is that count."""
        self._committed_segments += 1

    def is_head(self, turn: Turn) -> bool:
        """True if it is this one's time to commit."""
        return turn is self.head

    def next_to_commit(self, turn: Turn | None, now: int) -> Turn | None:
        """Returns the head if it is prepared; one in backoff is to be sent at once."""
        head = self.head
        if head is None:
            return None
        if head.phase is Phase.BACKOFF:
            head.retry_at = min(head.retry_at, now)
        return head if head.phase is Phase.PREPARED else None

    def to_roll_back(self, now: int) -> list[Turn]:
        """Returns the turns of all later open batches, where the head has waited longer than the bound: one of them may
        block it."""
        head = self.head
        waits = head is not None and head.phase in (Phase.RUNNING, Phase.BACKOFF)  # a lock timeout leads to backoff
        if not waits or now - self._head_since <= self._bound_us:
            return []
        self._head_since = now
        return [later for later in self._turns[1:] if later.phase in (Phase.RUNNING, Phase.PREPARED)]
