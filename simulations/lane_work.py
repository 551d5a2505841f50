"""The batch of one lane of the simulated target: QUEUED, then OPEN (its statements are done, its locks held), then
committed or rolled back."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, MergeChunk
from tidelock.engine.protocol.events import ApplyEvent
from tidelock.simulations.session import Session

Post: TypeAlias = Callable[[ApplyEvent], None]


class Stage(enum.Enum):
    """Stage of a batch."""

    QUEUED = "queued"
    OPEN = "open"
    COMMITTING = "committing"
    ROLLING = "rolling"


class Work:
    """Batch of one lane.  `owner`: number of the machine that sent it.  `merge`: the chunk that it merges.  `piece`:
    what comes next of a transaction that is applied as it comes."""

    __slots__ = ("effect", "merge", "owner", "piece", "post", "session", "stage")

    def __init__(self, owner: int, effect: ApplyBatch, post: Post, merge: MergeChunk | None = None) -> None:
        self.owner = owner
        self.effect = effect
        self.merge = merge
        self.post = post
        self.stage = Stage.QUEUED
        self.piece: ApplyPiece | None = None
        self.session: Session | None = None
