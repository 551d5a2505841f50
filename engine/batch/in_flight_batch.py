"""One lane's batch at the target, from its first try to its commit."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from tidelock.engine.batch.bad_row_search import BadRowSearch
from tidelock.engine.model.errors import Hindrance
from tidelock.engine.parallel.segments import LOCAL, Change, Provenance
from tidelock.engine.protocol.effects import ApplyBatch, EffectId


class Phase(enum.Enum):
    """The phases of a turn.

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


class Turn(msgspec.Struct, eq=False):
    """A batch's turn at the target: how far it is, without its rows.

    `order`: place in the commit order.  `id`: of the transaction that was sent last.  `retry_at`: microseconds.
    """

    order: int
    phase: Phase = Phase.RUNNING
    id: EffectId | None = None
    retry_at: int = 0

    def enter(self, phase: Phase) -> None:
        """Goes on to `phase`.  Raises AssertionError for a transition that the table does not have."""
        assert phase in NEXT[self.phase], f"{self.phase} → {phase}"
        self.phase = phase


class InFlightBatch(msgspec.Struct, eq=False):
    """A batch of one lane.

    `changes`: those of all its segments.  `window`: the highest window of these.  `turn`: how far it is.
    `provenance`: what its receipt says of them.
    `covered`: the changes that the transaction covers which was sent last.  It is a part of all where there is a
    `search` for a bad row, as the target has refused the batch.
    `effect`: how it was last sent; None while ROLLING_BACK: the trial told what it was for, and the next is composed
    anew.  `parked`: changes that the current transaction parks.
    `hindrance`: why the last tries failed, if they did.  `tries`: failures in a row.
    """

    lane: int
    window: int
    changes: list[Change]
    turn: Turn
    covered: Sequence[Change] = ()
    parked: list[Change] = []
    search: BadRowSearch | None = None
    effect: ApplyBatch | None = None
    tries: int = 0
    hindrance: Hindrance | None = None
    provenance: Provenance = LOCAL
