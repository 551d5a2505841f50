"""One lane's batch at the target, from its first try to its commit."""

from __future__ import annotations

import enum

from tidelock.engine.batch.bad_row_search import Isolation
from tidelock.engine.model.errors import Hindrance
from tidelock.engine.parallel.segments import Change, Segment
from tidelock.engine.protocol.effects import ApplyBatch, EffectId


class Phase(enum.Enum):
    """RUNNING: at the target.  READY: held, all but COMMIT done.  COMMITTING: told to commit.  ROLLING: told to roll
    back.  RESTING: rolled back or failed, to be sent again at `retry_at` (or when it heads the commit order)."""

    RUNNING = "running"
    READY = "ready"
    COMMITTING = "committing"
    ROLLING = "rolling"
    RESTING = "resting"


NEXT: dict[Phase, tuple[Phase, ...]] = {
    Phase.RUNNING: (Phase.READY, Phase.ROLLING, Phase.RESTING, Phase.RUNNING),
    Phase.READY: (Phase.COMMITTING, Phase.ROLLING),
    Phase.COMMITTING: (Phase.RESTING, Phase.RUNNING),
    Phase.ROLLING: (Phase.RESTING, Phase.RUNNING),
    Phase.RESTING: (Phase.RUNNING,),
}


class Attempt:
    """`segments`: what the lane runs; `changes`: what the current transaction covers; `effect`: how it was last sent.

    An `effect` of None while ROLLING: the trial told what it was for, and the next is composed anew.
    `hindrance`: why the last tries failed, if they did.  `parked`: changes that the current transaction parks.
    `order`: place in the commit order.  `tries`: failures in a row.  `window`: the highest window it covers.
    """

    __slots__ = (
        "changes", "effect", "hindrance", "isolation", "lane", "order", "parked", "phase", "retry_at", "segments",
        "tries", "window",
    )  # fmt: skip

    def __init__(self, lane: int, segments: list[Segment]) -> None:
        self.lane = lane
        self.segments = segments
        self.order = segments[0].order
        self.window = max(s.window for s in segments)
        self.changes: list[Change] = [change for segment in segments for change in segment.changes]
        self.parked: list[Change] = []
        self.isolation: Isolation | None = None
        self.effect: ApplyBatch | None = None
        self.phase = Phase.RUNNING
        self.tries = 0
        self.hindrance: Hindrance | None = None
        self.retry_at = 0

    @property
    def id(self) -> EffectId | None:
        return self.effect.id if self.effect else None

    def enter(self, phase: Phase) -> None:
        """Raises AssertionError for a transition that the table does not have."""
        assert phase in NEXT[self.phase], f"{self.phase} → {phase}"
        self.phase = phase
