"""Checkers of what must hold in every simulated run, one property a file."""

from __future__ import annotations

from tidelock.simulations.checkers.bounds import Bounds
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.checkers.checkpoint import Checkpoint
from tidelock.simulations.checkers.commit_order import CommitOrder
from tidelock.simulations.checkers.constraints import Constraints
from tidelock.simulations.checkers.copied import Copied
from tidelock.simulations.checkers.drained import Drained
from tidelock.simulations.checkers.forward import Forward
from tidelock.simulations.checkers.locks import Locks
from tidelock.simulations.checkers.looks import Looks
from tidelock.simulations.checkers.once import Once
from tidelock.simulations.checkers.reasons import Reasons
from tidelock.simulations.checkers.replayed import Replayed
from tidelock.simulations.checkers.shapes import Shapes
from tidelock.simulations.checkers.statements import Statements

ALL: tuple[type[Checker], ...] = (
    Once, Forward, Constraints, Replayed, CommitOrder, Checkpoint, Statements, Reasons, Locks, Bounds, Drained, Copied,
    Looks, Shapes,
)  # fmt: skip
