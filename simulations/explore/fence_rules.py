"""The rules of the fence, each broken in turn: a target or a takeover that leaves one out."""

from __future__ import annotations

import msgspec

from tidelock.engine.protocol.effects import EffectId, SaveCheckpoint
from tidelock.simulations.explore.fence import FenceModel


class FenceRule(msgspec.Struct, frozen=True):
    """`broken`: what is done instead."""

    broken: str
    model: type[FenceModel]


class _AsksNobody(FenceModel):
    def _fenced(self, id_: EffectId) -> bool:
        return False


class _LocksNothing(FenceModel):
    def _stop_open(self) -> None:
        pass


class _DoesNotLook(FenceModel):
    def _known(self, id_: EffectId) -> bool:
        return False


class _DropsAll(FenceModel):
    def _dropped(self, saving: SaveCheckpoint) -> tuple[EffectId, ...]:
        return tuple(id_ for id_, _ in self.state.held)


class _ReadsNone(FenceModel):
    def _read(self) -> None:
        self._begin(self.state.checkpoint, ())


FENCE_RULES = {
    "epoch": FenceRule("a batch does not ask who owns the feed", _AsksNobody),
    "owner-lock": FenceRule(
        "a batch asks and locks nothing, so a takeover passes it (counter-example 3)", _LocksNothing
    ),
    "own-receipt": FenceRule("a batch whose answer was lost does not look for its receipt", _DoesNotLook),
    "dropped": FenceRule("a checkpoint drops all receipts (counter-example 4)", _DropsAll),
    "unread": FenceRule("a new owner reads the checkpoint and no receipts", _ReadsNone),
}
