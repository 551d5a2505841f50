"""From a plan of sites that fails to a small one that still does, as `simulations.shrink` does for one feed."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from tidelock.simulations.shrink import parts_left
from tidelock.simulations.sites.plan import SitesPlan
from tidelock.simulations.sites.trial import SitesTrial, attempt

SCHEDULES = 6


def shrunk(plan: SitesPlan, seconds: float, clock: Callable[[], float] = time.monotonic) -> SitesTrial:
    """Returns the smallest failing trial found in that time: local transactions are left out, then faults."""
    shrinker = _Shrinker(attempt(plan, told=True), clock() + seconds, clock)
    before = None
    while before != shrinker.best.plan and clock() < shrinker.until:
        before = shrinker.best.plan
        shrinker.round()
    return shrinker.best


class _Shrinker:
    def __init__(self, first: SitesTrial, until: float, clock: Callable[[], float]) -> None:
        self.best = self._first = first
        self.until = until
        self._clock = clock

    def round(self) -> None:
        plan = self.best.plan
        parts_left([n for n in range(1, plan.writes + 1) if n not in plan.without], self._fails_with_writes)
        faults = [(feed, fault) for feed, one in plan.feeds.items() for fault in one.faults]
        parts_left(faults, self._fails_with_faults)

    def _fails_with_writes(self, numbers: list[int]) -> bool:
        last = max(numbers, default=0)
        without = tuple(n for n in range(1, last + 1) if n not in numbers)
        return self._fails(replace(self.best.plan, writes=last, without=without))

    def _fails_with_faults(self, left: list[tuple[str, str]]) -> bool:
        feeds = {
            name: replace(one, faults={fault: n for fault, n in one.faults.items() if (name, fault) in left})
            for name, one in self.best.plan.feeds.items()
        }
        return self._fails(replace(self.best.plan, feeds=feeds))

    def _fails(self, candidate: SitesPlan) -> bool:
        """Tells whether it makes the same mistake under some schedule.  Then it is the best so far."""
        for schedule in (candidate.schedule, *range(SCHEDULES)):
            if self._clock() >= self.until:
                return False
            trial = attempt(replace(candidate, schedule=schedule), told=True)
            if trial.mistake and (trial.kind == self._first.kind or trial.error == self._first.error):
                self.best = trial
                return True
        return False
