"""One world of sites whose rows have stamps, by plan: writers, feeds, clocks that go wrong, tombstones that go.

    python -m tidelock.simulations.sites.stamp_world 17         one seed, told step by step
    python -m tidelock.simulations.sites.stamp_world 0-999      many, quietly
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from tidelock.engine.model.records import TableName
from tidelock.engine.two_way.stamp import Stamp
from tidelock.simulations.layout import Token
from tidelock.simulations.plan import Plan
from tidelock.simulations.session import Session
from tidelock.simulations.sites.feed import SiteFeed
from tidelock.simulations.sites.site import Site
from tidelock.simulations.sites.stamp_plan import StampPlan, draw_stamped
from tidelock.simulations.sites.stamp_purge import Purge
from tidelock.simulations.sites.stamp_site import COLUMNS, StampedSite
from tidelock.simulations.sites.stamp_target import StampedTarget
from tidelock.simulations.sites.stamp_versions import Versions
from tidelock.simulations.sites.stamp_writer import StampedWriter
from tidelock.simulations.sites.target import SiteTarget
from tidelock.simulations.sites.topology import TOPOLOGIES, Edge
from tidelock.simulations.sites.travels import Travels
from tidelock.simulations.sites.world import SitesWorld

BEGIN_US = 1_000_000_000
_STEPS_US = (0, 0, 500, 20_000)
_CALM_US = 100_000
_JUMPS = (-40_000_000, -2_000_000, 0, 500_000, 4_000_000)
_MIDWAY = 600  # steps that writers wait for a purge, so that they write behind it


class StampedFeed(SiteFeed):
    """A feed with stamps."""

    @property
    def _kind(self) -> type[SiteTarget]:
        return StampedTarget

    def _options(self) -> dict[str, Any]:
        return {"stamp": COLUMNS}


class StampWorld(SitesWorld):
    """`plan`: as the base's, with clocks."""

    plan: StampPlan
    most_idle = 5  # rounds wait for checkpoints, so those are often

    def __init__(self, plan: StampPlan) -> None:
        self._versions = Versions(TOPOLOGIES[plan.topology].sites)
        self._now = BEGIN_US
        self._open: list[StampedWriter] = []
        self._purge: Purge | None = None
        self._purges = self._rested = 0
        super().__init__(plan)
        self.stamped = {name: site for name, site in self.sites.items() if isinstance(site, StampedSite)}
        for name, site in self.stamped.items():
            site.now, site.skew, site.wrote = self._now, plan.skews[name], self.watch.wrote
            site.knows(partial(self._locking, name))
        for feed in self.feeds:
            assert isinstance(feed.target, StampedTarget)
            feed.target.breaks = plan.breaks

    def _site(self, name: str, plan: Plan) -> StampedSite:
        mine = self.plan
        unchanged = name in mine.unchanged
        return StampedSite(name, plan, self._versions, mine.dialects[name], mine.grain, logs_unchanged=unchanged)

    def _feed(self, edge: Edge, parents: Mapping[str, str]) -> SiteFeed:
        return StampedFeed(
            self.plan.feeds[edge.name], edge, self.topology, self.sites[edge.source], self.sites[edge.target],
            self.watch, self.chance, self.coverage,
        )  # fmt: skip

    def _locking(self, name: str) -> list[Session]:
        return [session for writer in self._open if writer.site.name == name for session in writer.locking()]

    def _note_locks(self, feed: SiteFeed) -> None:
        """Others at its target ask."""

    def _turn(self, feed: SiteFeed) -> None:
        super()._turn(feed)
        self._pass(_CALM_US if feed.calm else self.chance.choice(_STEPS_US))

    def _pass(self, us: int) -> None:
        self._now += us
        for site in self.stamped.values():
            site.now = self._now

    # ------------------------------------------------------------------ local writers, clocks and purges

    def _write(self) -> None:
        if self.plan.jumps and self.chance.random() < 0.01:
            name = self.chance.choice(self.topology.sites)
            self.stamped[name].skew = self.plan.skews[name] + self.chance.choice(_JUMPS)
            self._tell(f"-- the clock of {name} is set to {self.stamped[name].skew}")
        self._take_away()
        self._go_on_writing()
        if self._written >= self.plan.writes or self._rests() or self.chance.random() >= self.plan.pace:
            return
        self._written += 1
        if self._written not in self.plan.without:
            chance = Random(f"stamped {self.plan.seed} {self._written}")
            site = self.stamped[chance.choice(self.topology.sites)]
            repeatable = chance.random() < self.plan.repeatable
            self._open.append(StampedWriter(site, self._written, chance, self.plan.keys, repeatable=repeatable))

    def _go_on_writing(self) -> None:
        for writer in list(self._open):
            how = writer.go_on()
            if not how:
                continue
            self._open.remove(writer)
            self.coverage[f"writer {how}"] += 1
            self.watch.wrote(writer.added)
            for entry in writer.added:
                self._tell(f"-- {writer.site.name} at {writer.site.clock}: {entry.before} {entry.after}")

    def _lost(self, site: Site) -> None:
        super()._lost(site)
        self._open = [writer for writer in self._open if writer.site is not site]

    def _rests(self) -> bool:
        """Half-way, writers wait a while for tombstones to go."""
        half = self._written >= self.plan.writes // 2
        if not half or self._purges >= self.plan.purges or self._rested > _MIDWAY:
            return False
        self._rested += 1
        return self.chance.random() < 0.97

    def _take_away(self) -> None:
        if self._purge is None:
            begins = 0.3 if self.plan.hasty else 0.05
            if self._purges < self.plan.purges and self._written > 3 and self.chance.random() < begins:
                self._purge = Purge(self.stamped, self.feeds, self.topology, self._now, self._coming)
                self._tell("-- tombstones are to go")
        elif not any(writer.amid or writer.sees_old for writer in self._open) and self.chance.random() < self._goes_on:
            self._purge.go_on()
            if self._purge.done:
                self._purges += 1
                self.coverage["tombstones taken away"] += self._purge.purged
                self._tell(f"-- {self._purge.purged} tombstones are gone")
                self._purge = None

    @property
    def _goes_on(self) -> float:
        """Chance at a step that a purge goes on."""
        return 1.0 if self.plan.hasty else 0.2

    def _coming(self, name: TableName, key: Token) -> list[Stamp]:
        assert isinstance(self.watch, Travels)
        return [
            Stamp(*entry.after[-2:])
            for feed in self.feeds
            for entry in self.watch.coming(feed.edge.name)
            if entry.after is not None and entry.shape is not None and entry.shape.name == name
            and entry.after[: len(key)] == key
        ]  # fmt: skip

    # ------------------------------------------------------------------ the end

    def _calm_down(self) -> None:
        super()._calm_down()
        while self._open:
            self._go_on_writing()

    def _compare(self) -> None:
        databases = {name: site.database for name, site in self.sites.items()}
        self._versions.compare(databases, tombstones=not self.coverage["tombstones taken away"])

    def _tell(self, line: str) -> None:
        if self.transcript is not None:
            self.transcript.append(line)


def main(seeds: str) -> int:
    first, _, last = seeds.partition("-")
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = StampWorld(draw_stamped(seed))
        world.transcript = None if last else []
        try:
            world.run()
        except AssertionError as error:
            failed += 1
            print(*world.transcript or (), f"{seed}: {error!r}", sep="\n")
            if not last:
                raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
