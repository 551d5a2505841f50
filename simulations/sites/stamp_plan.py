"""The plan of a world of sites whose rows have stamps: topology, clocks, isolation, feeds and faults, drawn by seed."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from tidelock.simulations.catalogue import STAMPED
from tidelock.simulations.plan import Plan
from tidelock.simulations.sites.plan import SitesPlan, drawn_alike
from tidelock.simulations.sites.topology import TOPOLOGIES

Dialect = Literal["mysql", "postgres"]
_CONNECTED: Final = ("pair", "line", "star", "ring", "ring of four", "mesh")  # from each site to each
_SKEWS: Final = (0, 0, 300, 60_000, 400_000, 60_000_000)
STAMPED_WRITES: Final = 30
HASTY_SHARE: Final = 0.25  # of worlds in which tombstones go have them go as soon as they may


class StampPlan(SitesPlan, frozen=True, forbid_unknown_fields=True):
    """`dialects`: as the triggers of each site are.  `skews`: by how many microseconds each site's clock is wrong;
    `jumps`: clocks are set now and then.  `grain`: microseconds from one time to the next that a clock shows.
    `keys`: how many a table has.  `repeatable`: part of the local transactions that are at REPEATABLE READ.
    `breaks`: chance that something pauses between two statements.  `purges`: how often tombstones are taken away;
    `hasty`: among all that is written, and without a pause."""

    dialects: dict[str, Dialect] = {}
    skews: dict[str, int] = {}
    jumps: bool = False
    grain: int = 1
    keys: int = 2
    repeatable: float = 0.0
    breaks: float = 0.3
    purges: int = 0
    hasty: bool = False


def draw_stamped(seed: int, writes: int = STAMPED_WRITES) -> StampPlan:
    """The plan that this seed makes."""
    chance = Random(f"stamps {seed}")
    name = chance.choice(_CONNECTED)
    topology = TOPOLOGIES[name]
    families = chance.choice((("entry",), ("entry",), tuple(STAMPED)))
    base = drawn_alike(seed, writes)
    purges = chance.choice((0, 1, 1, 2))
    steady = chance.random() < 0.4  # what is sent again hides what was lost
    feeds = {
        edge.name: _feed(base, chance, families, steady=steady, purged=purges > 0) for edge in topology.edges
    }
    plan = StampPlan(
        **msgspec.structs.asdict(
            replace(
                base, topology=name, families=families, units=1, feeds=feeds, restless=False,
                unchanged=tuple(site for site in topology.sites if chance.random() < 0.5),
                pace=chance.choice((0.05, 0.2, 0.8)),
                speeds={edge.name: 1.0 if purges else chance.choice((0.2, 0.6, 1.0)) for edge in topology.edges},
            )
        ),
        dialects={site: chance.choice(("mysql", "postgres")) for site in topology.sites},
        skews=_skews(chance, topology.sites, behind=purges > 0),
        jumps=chance.random() < 0.3,
        grain=chance.choice((1, 1, 1_000_000, 100_000_000)),
        keys=chance.choice((1, 2, 4)),
        repeatable=chance.choice((0.0, 0.3)),
        breaks=chance.choice((0.05, 0.3, 0.6)),
        purges=purges,
    )  # fmt: skip
    hasty = Random(f"hasty {seed}")
    return _hasty(plan, hasty) if purges and hasty.random() < HASTY_SHARE else plan


def _hasty(plan: StampPlan, chance: Random) -> StampPlan:
    """Returns the plan with tombstones that go while they are new, by feeds of which some are slow."""
    speeds = {name: chance.choice((0.2, 1.0)) for name in plan.speeds}
    return replace(plan, purges=5, hasty=True, pace=chance.choice((0.2, 0.8)), speeds=speeds)


def _skews(chance: Random, sites: tuple[str, ...], *, behind: bool) -> dict[str, int]:
    """Returns by how much each clock is wrong; `behind`: one is far behind, so that its stamps go by the floor."""
    skews = {site: chance.choice(_SKEWS) * chance.choice((-1, 1)) for site in sites}
    return skews | ({chance.choice(sites): -max(_SKEWS)} if behind else {})


def _feed(base: SitesPlan, chance: Random, families: tuple[str, ...], *, steady: bool, purged: bool) -> Plan:
    """Returns the plan of one of the base's feeds for these tables.  Rounds wait for checkpoints, so those are soon."""
    feed = chance.choice(list(base.feeds.values()))
    engine = replace(feed.engine, lanes=chance.choice((1, 2, 4)), batch_rows=chance.choice((1, 3, 10, 50)))
    if purged:
        engine = replace(engine, idle_checkpoint_us=100_000, checkpoint_us=20_000)
    rate = 0.003 if steady else feed.fault_rate
    return replace(feed, families=families, atomic=chance.random() < 0.2, fault_rate=rate, engine=engine)
