"""What must hold in every simulated run, one property a file."""

from __future__ import annotations

from simulations.checkers.bounds import Bounds
from simulations.checkers.checker import Checker
from simulations.checkers.checkpoint import Checkpoint
from simulations.checkers.commit_order import CommitOrder
from simulations.checkers.constraints import Constraints
from simulations.checkers.copied import Copied
from simulations.checkers.drained import Drained
from simulations.checkers.forward import Forward
from simulations.checkers.locks import Locks
from simulations.checkers.once import Once
from simulations.checkers.reasons import Reasons
from simulations.checkers.replayed import Replayed
from simulations.checkers.statements import Statements

ALL: tuple[type[Checker], ...] = (
    Once, Forward, Constraints, Replayed, CommitOrder, Checkpoint, Statements, Reasons, Locks, Bounds, Drained, Copied,
)  # fmt: skip
