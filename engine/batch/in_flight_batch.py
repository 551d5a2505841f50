"""One lane's batch at the target, from its first try to its commit."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.model.errors import Hindrance
from tidelock.engine.parallel.segments import Change, Segment
from tidelock.engine.protocol.effects import ApplyBatch, EffectId


class Phase(enum.Enum):
    """The phases of a batch.

    RUNNING: at the target.  PREPARED: held there, all but COMMIT done.  COMMITTING: told to commit.  ROLLING_BACK: told
    to roll back.  BACKOFF: rolled back or failed, to be sent again at `retry_at` (or when it heads the commit order).
    """

    RUNNING = "running"
    PREPARED = "prepared"
    COMMITTING = "committing"
    ROLLING_BACK = "rolling back"
    BACKOFF = "backoff"


NEXT: dict[Phase, tuple[Phase, ...]] = {
    Phase.RUNNING: (Phase.PREPARED, Phase.ROLLING_BACK, Phase.BACKOFF, Phase.RUNNING),
    Phase.PREPARED: (Phase.COMMITTING, Phase.ROLLING_BACK),
    Phase.COMMITTING: (Phase.BACKOFF, Phase.RUNNING),
    Phase.ROLLING_BACK: (Phase.BACKOFF, Phase.RUNNING),
    Phase.BACKOFF: (Phase.RUNNING,),
}


class InFlightBatch:
    """A batch of one lane.

    `segments`: what the lane runs.  `changes`: those of all segments.  `search`: for a bad row, once the target has
    refused the batch; then a transaction covers a part of the changes (`covered`).
    `effect`: how it was last sent; None while ROLLING_BACK: the trial told what it was for, and the next is composed
    anew.  `parked`: changes that the current transaction parks.
    `hindrance`: why the last tries failed, if they did.  `tries`: failures in a row.  `retry_at`: microseconds.
    `order`: place in the commit order.  `window`: the highest window it covers.
    """

    __slots__ = (
        "changes", "effect", "hindrance", "lane", "order", "parked", "phase", "retry_at", "search", "segments", "tries",
        "window",
    )  # fmt: skip

    def __init__(self, lane: int, segments: list[Segment]) -> None:
        self.lane = lane
        self.segments = segments
        self.order = segments[0].order
        self.window = max(s.window for s in segments)
        self.changes: list[Change] = [change for segment in segments for change in segment.changes]
        self.parked: list[Change] = []
        self.search: BadRowSearch | None = None
        self.effect: ApplyBatch | None = None
        self.phase = Phase.RUNNING
        self.tries = 0
        self.hindrance: Hindrance | None = None
        self.retry_at = 0

    @property
    def id(self) -> EffectId | None:
        """The id of the transaction that was sent last."""
        return self.effect.id if self.effect else None

    @property
    def covered(self) -> Sequence[Change]:
        """The changes that the next commit covers."""
        return self.changes if self.search is None else self.search.piece

    def enter(self, phase: Phase) -> None:
        """Goes on to `phase`.  Raises AssertionError for a transition that the table does not have."""
        assert phase in NEXT[self.phase], f"{self.phase} → {phase}"
        self.phase = phase
