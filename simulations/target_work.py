"""One batch that a lane of the simulated target works on, and how far it is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, TypeAlias

from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, MergeChunk
from tidelock.engine.protocol.events import ApplyEvent
from tidelock.simulations.model import Violation
from tidelock.simulations.session import Session

Post: TypeAlias = Callable[[ApplyEvent], None]

LACKS_PARENT: Final = "23503"
"""SQLSTATE of a row that refers to one that is not there."""

LOST: Final = Failure(ErrorKind.TRANSIENT, "connection lost")


def refusal_code(why: Violation) -> str:
    """Returns what a server names the refusal of a row."""
    return LACKS_PARENT if why.lacks_parent else ""


class Stage(enum.Enum):
    QUEUED = "queued"
    OPEN = "open"
    COMMITTING = "committing"
    ROLLING = "rolling"


class Work:
    """One lane's batch. `owner`: number of the machine that sent it.  `merge`: the chunk that it merges.  `piece`: what
    comes next of a transaction that is applied as it comes."""

    __slots__ = ("effect", "merge", "owner", "piece", "post", "session", "stage")

    def __init__(self, owner: int, effect: ApplyBatch, post: Post, merge: MergeChunk | None = None) -> None:
        self.owner = owner
        self.effect = effect
        self.merge = merge
        self.post = post
        self.stage = Stage.QUEUED
        self.piece: ApplyPiece | None = None
        self.session: Session | None = None
