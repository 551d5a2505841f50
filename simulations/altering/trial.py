"""Worlds in which tables are altered, as a campaign runs them."""

from __future__ import annotations

import msgspec

from tidelock.simulations.altering.plan import draw
from tidelock.simulations.plan import DEFAULT_CHANGES, Plan
from tidelock.simulations.trial import Trial, attempt


class DrawnAltering(msgspec.Struct, frozen=True):
    """Everything is drawn from the seed."""

    changes: int = DEFAULT_CHANGES
    told: bool = False

    @property
    def varied(self) -> bool:
        """Tells that enough of them reach what such a world can do, and not what others can."""
        return False

    def plan(self, seed: int) -> Plan:
        return draw(seed, self.changes)

    def attempt(self, plan: Plan, *, told: bool = False) -> Trial:
        return attempt(plan, told=told)

    def __call__(self, seed: int) -> Trial:
        return self.attempt(self.plan(seed), told=self.told)
