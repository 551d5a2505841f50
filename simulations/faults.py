"""Choice of faults and their moments: one stream of chance, the weights of the run's plan, and a count of what struck.

Steps of the world draw at most one fault each (`draw`); what can only happen while the target does something is asked
for at that moment (`strikes`).  Nothing strikes after `stop`, until `go_on`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tidelock.simulations.plan import Plan

# Those that the target meets in the middle of its work.
AT_TARGET = ("deadlock", "doubt", "crossing", "stall", "checkpoint", "broken", "echo", "hole")


class Faults:
    """`count`: how many struck.  `forgot`: the target has forgotten commits at least once."""

    def __init__(self, plan: Plan, chance: Random, coverage: Counter[str]) -> None:
        self.weights = plan.faults
        self.chance = chance
        self.count = 0
        self.forgot = False
        self._coverage = coverage
        self._rate = plan.fault_rate
        self._names = [name for name in plan.faults if name not in AT_TARGET]
        self._shares = [plan.faults[name] for name in self._names]
        self._active = True

    def stop(self) -> None:
        self._active = False

    def go_on(self) -> None:
        self._active = True

    def draw(self) -> str | None:
        """The fault of this step of the world, if any."""
        if not self._active or not self._names or self.chance.random() >= self._rate:
            return None
        return self.chance.choices(self._names, self._shares)[0]

    def may(self, name: str) -> bool:
        return self._active and name in self.weights

    def strikes(self, name: str) -> bool:
        if self._active and name in self.weights and self.chance.random() < self._rate * self.weights[name]:
            self.struck(name)
            return True
        return False

    def struck(self, name: str) -> None:
        self.count += 1
        self._coverage[f"fault: {name}"] += 1

    def seen(self, what: str) -> None:
        self._coverage[what] += 1
