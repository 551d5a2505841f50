"""A trial: one plan of sites run in a world of its own, and what it came to."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import xxhash

from tidelock.simulations.sites.plan import DEFAULT_WRITES, SitesPlan, drawn
from tidelock.simulations.sites.stamp_plan import STAMPED_WRITES, StampPlan, draw_stamped
from tidelock.simulations.sites.stamp_world import StampWorld
from tidelock.simulations.sites.world import SitesWorld
from tidelock.simulations.trial import spell


class SitesTrial(msgspec.Struct):
    """`mistake`: what went wrong, '' if nothing; `error`: its class.  `changes`: rows that local writers changed.
    `transcript`: only if the run was to be told."""

    plan: SitesPlan
    mistake: str = ""
    error: str = ""
    faults: int = 0
    changes: int = 0
    coverage: Mapping[str, int] = {}
    transcript: list[str] = []

    @property
    def kind(self) -> str:
        """The mistake without its numbers, so that two runs can be seen to make the same one."""
        return re.sub(r"\d+", "#", self.mistake)

    @property
    def digest(self) -> int:
        """64 bits of all that the run did, in order."""
        return xxhash.xxh3_64_intdigest("\n".join((str(self.plan.seed), *self.transcript, self.mistake)).encode())


def kind_of(plan: SitesPlan) -> str:
    """Returns what kind of world the plan is of, for a summary."""
    if isinstance(plan, StampPlan):
        return f"stamps, {plan.topology}"
    if plan.conflicts is None:
        return f"rows with owners, {plan.topology}"
    permits = ", permits" if plan.permit is not None else ""
    return f"arbiter, {plan.topology}, {' and '.join(plan.families)}{permits}"


def attempt(plan: SitesPlan, *, told: bool = False) -> SitesTrial:
    """Runs the plan.  Any error of the run is its mistake."""
    world = StampWorld(plan) if isinstance(plan, StampPlan) else SitesWorld(plan)
    transcript: list[str] = []
    world.transcript = transcript if told else None
    trial = SitesTrial(plan, transcript=transcript)
    try:
        world.run()
    except Exception as error:
        trial.mistake, trial.error = spell(error), type(error).__name__
    kind = kind_of(plan)
    world.coverage[f"worlds: {kind}"] += 1
    if trial.mistake:
        world.coverage[f"worlds that failed: {kind}"] += 1
    trial.faults, trial.changes, trial.coverage = world.faults, world.watch.written, world.coverage
    return trial


class DrawnSites(msgspec.Struct, frozen=True):
    """Everything is drawn from the seed; every other world has arbiters."""

    writes: int = DEFAULT_WRITES
    told: bool = False

    def __call__(self, seed: int) -> SitesTrial:
        return attempt(drawn(seed, self.writes), told=self.told)


class DrawnStamps(msgspec.Struct, frozen=True):
    """Everything is drawn from the seed; rows have stamps."""

    writes: int = STAMPED_WRITES
    told: bool = False

    def __call__(self, seed: int) -> SitesTrial:
        return attempt(draw_stamped(seed, self.writes), told=self.told)
