"""The fence of the simulated target: which owner may write, and whether the target has all that it reported to it."""

from __future__ import annotations

from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.protocol.effects import EffectId
from tidelock.simulations.faults import Faults
from tidelock.simulations.stored import Stored


class OwnerFence:
    """Epoch of the newest owner, and commits that were reported to owners since each last saved a checkpoint."""

    def __init__(self, stored: Stored, faults: Faults) -> None:
        self.epoch = 0
        self._stored = stored
        self._faults = faults
        self._reported: dict[int, dict[EffectId, None]] = {}

    def refusal(self, owner: int, epoch: int) -> Failure | None:
        """Return why this owner may not write any more, or that commits are gone which it was told of."""
        if epoch != self.epoch:
            self._faults.seen("zombie rejected")
            return Failure(ErrorKind.FENCED, "a newer owner has the feed")
        if self._faults.forgot and any(id_ not in self._stored.state.receipts for id_ in self._reported.get(owner, ())):
            self._faults.seen("owner of a target that forgot is told so")
            return Failure(ErrorKind.COMMITS_LOST, "the target has forgotten commits that it had reported")
        return None

    def report(self, owner: int, id_: EffectId) -> None:
        """Note that the owner is told of a commit."""
        self._reported.setdefault(owner, {})[id_] = None

    def saved(self, owner: int) -> None:
        """Note that the owner has saved a checkpoint: what it was told of is on the disk."""
        self._reported.pop(owner, None)
