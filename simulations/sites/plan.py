"""The plan of a world of sites, drawn from its seed: the topology, the tables, each feed's settings and faults."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec

from tidelock.engine.model.conflict_options import GroupWords, PolicyWord, TableWords
from tidelock.engine.two_way.conflicts import Conflict
from tidelock.simulations.catalogue import BY_NAME, NUMBERS
from tidelock.simulations.plan import ALWAYS_POSSIBLE, FAULTS, ROW_BYTES, Engine, Plan
from tidelock.simulations.sites.topology import ARBITRATED, TOPOLOGIES

_TABLES: Final = (("account",), ("seat",), ("client",), ("account", "client"), ("seat", "account"))
_ARBITRATED_TABLES: Final = (
    ("account",), ("seat",), ("account", "seat"), ("client",), ("client", "account"), ("stock",), ("stock", "account"),
)  # fmt: skip
_FOR_ROWS: Final[tuple[PolicyWord, ...]] = ("stop", "arrival", "arbiter", "spoke", "latest", "delete wins")
_GROUPS: Final = {
    "account": (("email",), ("note",)),
    "seat": (("hall", "place"), ("code",), ("note",)),
    "order": (("client", "note"), ("slot",)),
    "stock": (("count",), ("peak",), ("low",), ("place", "version")),
}
"""Groups of columns that a table may have.  Of `stock` the numbers may be merged by value."""

_NOT_HERE: Final = ("other_log", "moved_log", "forgotten")  # of one log, or of a target that no one else writes to
DEFAULT_WRITES: Final = 20
MOVES_SHARE: Final = 0.2  # of all worlds have sites whose servers change
CROWDED_SHARE: Final = 0.2  # of worlds with an arbiter have few rows, many writers and hardly a fault
NUMBERS_SHARE: Final = 0.08  # merge numbers of rows that come and go
LATE_SHARE: Final = 0.08  # have feeds to the arbiter that come late, with much at once; and of worlds without one


class Conflicts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conflicts that an arbiter decides.  `policies`: by name of the table.  `echo`: as a feed's `conflicts:` has it.
    `limit`: registers that an echo index remembers.  `values`: how many different ones a unique column has.
    `counted`: rows of `stock` neither come nor go, and its sums, peaks and lows are checked.  `lingers`: chance that a
    batch stays open for another step."""

    policies: dict[str, TableWords]
    echo: Literal["exact", "all"] = "exact"
    limit: int = 1000
    values: int = 8
    counted: bool = False
    lingers: float = 0.0


class PermitPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permits of all feeds.  `after`, `lag`: in steps of the world.  `stops`: chance at each step that a feed is
    stopped, or a pair parted."""

    after: int
    lag: int
    stops: float


class SitesPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`seed`: of what local writers do.  `schedule`: of everything else.  `topology`: a name in `TOPOLOGIES`.

    `unchanged`: sites whose logs have updates that change nothing.  `units`: how many units of rows there are.
    `writes`: how many local transactions there are; `without`: numbers of those that do not happen.  `feeds`: settings
    and faults of each, by name.  `pace`, `speeds`: chances at each step of a local transaction, and that a
    feed goes on.  `restless`: writers wait a while until another site may take rows over.
    `burst`: behind so many local transactions writers wait until all is everywhere; 0: they never do.
    `conflicts`: None: rows have owners, and there are none.  `permit`: None: each feed applies whatever its sister
    does.  `moves`: servers of sites change under the feeds."""

    seed: int
    schedule: int
    topology: str
    unchanged: tuple[str, ...]
    families: tuple[str, ...]
    units: int
    writes: int
    pace: float
    restless: bool
    speeds: dict[str, float]
    feeds: dict[str, Plan]
    without: tuple[int, ...] = ()
    conflicts: Conflicts | None = None
    permit: PermitPlan | None = None
    moves: bool = False
    burst: int = 0


def drawn(seed: int, writes: int = DEFAULT_WRITES) -> SitesPlan:
    """The plan that this seed makes: with arbiters if it is odd."""
    return draw_arbitrated(seed, writes) if seed % 2 else draw(seed, writes)


def draw(seed: int, writes: int = DEFAULT_WRITES) -> SitesPlan:
    """The plan that this seed makes, of sites with rows of their own."""
    plan, kind = drawn_alike(seed, writes), Random(f"uneven {seed}")
    return _uneven(plan, kind) if kind.random() < LATE_SHARE else plan


def _uneven(plan: SitesPlan, chance: Random) -> SitesPlan:
    """Returns the plan with some feeds that come late, with much in one batch, while others bring what is written at
    once; with so many writes that logs go on in other files meanwhile."""
    speeds = {name: chance.choice((0.03, 1.0)) for name in plan.speeds}
    return msgspec.structs.replace(
        plan, units=4, writes=2 * plan.writes, restless=False, moves=False, speeds=speeds,
        feeds={
            name: msgspec.structs.replace(_steady(feed, 40, 50 if speeds[name] < 1 else 3), atomic=False)
            for name, feed in plan.feeds.items()
        },
    )  # fmt: skip


def drawn_alike(seed: int, writes: int) -> SitesPlan:
    """Returns a plan of sites with rows of their own, of which other kinds of worlds are made too."""
    chance = Random(f"sites {seed}")
    name = chance.choice(sorted(TOPOLOGIES))
    topology = TOPOLOGIES[name]
    families = chance.choice(_TABLES)
    unchanged = tuple(site for site in topology.sites if chance.random() < 0.5)
    return SitesPlan(
        seed=seed,
        schedule=seed,
        topology=name,
        unchanged=unchanged,
        families=families,
        units=chance.choice((1, 2, 4)),
        writes=writes,
        pace=chance.choice((0.1, 0.3, 0.8)),
        restless=chance.random() < 0.4,
        speeds={edge.name: chance.choice((0.04, 0.5, 1.0)) for edge in topology.edges},
        feeds={edge.name: _feed(chance, seed, families) for edge in topology.edges},
        moves=Random(f"moves {seed}").random() < MOVES_SHARE,
    )


def draw_arbitrated(seed: int, writes: int = DEFAULT_WRITES) -> SitesPlan:
    """The plan that this seed makes, of sites with arbiters that all write the same rows."""
    chance = Random(f"arbiter {seed}")
    name = chance.choice(sorted(ARBITRATED))
    families = chance.choice(_ARBITRATED_TABLES)
    topology = TOPOLOGIES[name]
    plan = msgspec.structs.replace(
        drawn_alike(seed, writes), topology=name, families=families, units=chance.choice((1, 1, 2)),
        unchanged=tuple(site for site in topology.sites if chance.random() < 0.5),
        speeds={edge.name: chance.choice((0.1, 0.5, 1.0)) for edge in topology.edges},
        feeds={edge.name: _feed(chance, seed, families) for edge in topology.edges},
        restless=False,
    )  # fmt: skip
    steady = chance.random() < 0.65  # a reader that begins anew sends all back: bugs of echoes hide behind it
    feeds = {
        name: msgspec.structs.replace(feed, atomic=False, fault_rate=0.002 if steady else feed.fault_rate)
        for name, feed in plan.feeds.items()
    }
    counted = "stock" in families and chance.random() < 0.6
    names = [table.name.table for family in families for table in BY_NAME[family]]
    conflicts = Conflicts(
        policies={name: _counting(chance) if counted and name == "stock" else _words(chance, name) for name in names},
        echo="all" if not steady and chance.random() < 0.2 else "exact",
        values=chance.choice((2, 3, 8)),
        limit=chance.choice((3, 10, 1000, 1000, 1000)) if steady else chance.choice((1, 6, 1000)),
        counted=counted,
    )
    permit = None
    if chance.random() < 0.3:
        permit = PermitPlan(chance.choice((5, 12, 30)), chance.choice((20, 200)), chance.choice((0.005, 0.02)))
    plan = msgspec.structs.replace(plan, feeds=feeds, conflicts=conflicts, permit=permit)
    crowds, kind = Random(f"crowded {seed}"), Random(f"kind {seed}")
    share = kind.random()
    if share < NUMBERS_SHARE:
        return _of_numbers(plan, kind)
    if share < NUMBERS_SHARE + LATE_SHARE:
        return _late(plan, kind)
    return _crowded(plan, crowds) if crowds.random() < CROWDED_SHARE else plan


def _crowded(plan: SitesPlan, chance: Random) -> SitesPlan:
    """Returns the plan with few rows, which all sites write at once, by feeds that come late, and which are compared
    again and again.  Readers seldom begin anew: one that does sends back whatever an earlier one forgot."""
    assert plan.conflicts is not None
    longest, rows = chance.choice((2, 6, 40)), chance.choice((3, 10, 50))
    return msgspec.structs.replace(
        plan, units=1, writes=2 * plan.writes, burst=chance.choice((3, 5)), permit=None, moves=False,
        speeds={name: chance.choice((0.1, 0.3, 1.0)) for name in plan.speeds},
        feeds={name: _steady(feed, longest, rows) for name, feed in plan.feeds.items()},
        conflicts=msgspec.structs.replace(
            plan.conflicts, echo="exact", limit=chance.choice((8, 16, 1000)), values=chance.choice((3, 8)),
            lingers=chance.choice((0.0, 0.7)),
        ),
    )  # fmt: skip


def _of_numbers(plan: SitesPlan, chance: Random) -> SitesPlan:
    """Returns the plan with numbers merged by value, in rows that come and go and that are NULL now and then.  Where
    sums are compared, rows stay and no number is NULL."""
    assert plan.conflicts is not None
    by_value: tuple[PolicyWord, ...] = ("delta", "max", "min")
    others = (GroupWords((name,), chance.choice(by_value)) for name in ("peak", "low"))
    groups = (GroupWords(("count",), "delta"), *others)
    words = TableWords(chance.choice(("arrival", "arbiter", "spoke", "latest")), {}, groups, "")
    conflicts = msgspec.structs.replace(plan.conflicts, policies={"stock": words}, counted=False)
    feeds = {name: msgspec.structs.replace(feed, families=("stock",)) for name, feed in plan.feeds.items()}
    return _crowded(msgspec.structs.replace(plan, families=("stock",), feeds=feeds, conflicts=conflicts), chance)


def _late(plan: SitesPlan, chance: Random) -> SitesPlan:
    """Returns the plan with feeds that take what their arbiter writes at once, and bring what spokes write late, much
    in one batch: of its changes some have seen what others have not.  Whatever comes to the arbiter stays there."""
    assert plan.conflicts is not None
    late = _crowded(plan, chance)
    parents = ARBITRATED[plan.topology]
    up = {f"{spoke}-{parent}" for spoke, parent in parents.items()}
    policies = {name: TableWords(chance.choice(("arrival", "spoke"))) for name in plan.conflicts.policies}
    return msgspec.structs.replace(
        late, units=chance.choice((2, 4)), pace=chance.choice((0.1, 0.3)), burst=chance.choice((6, 10)),
        speeds={name: 0.02 if name in up else 1.0 for name in plan.speeds},
        feeds={name: _steady(feed, 40, 50 if name in up else 3) for name, feed in plan.feeds.items()},
        conflicts=msgspec.structs.replace(
            plan.conflicts, policies=policies, counted=False, echo="exact", limit=1000, values=8,
        ),
    )  # fmt: skip


def _steady(feed: Plan, longest: int, rows: int) -> Plan:
    """Returns the plan of a feed that stores its checkpoints soon, so that its target has seen what it was sent."""
    engine = msgspec.structs.replace(feed.engine, batch_rows=rows, checkpoint_us=2_000, idle_checkpoint_us=1_000_000)
    return msgspec.structs.replace(feed, fault_rate=0.0005, longest=longest, features=(), engine=engine)


def _words(chance: Random, name: str) -> TableWords:
    default = chance.choice(_FOR_ROWS)
    types = {kind.value: chance.choice(_FOR_ROWS) for kind in Conflict if chance.random() < 0.2}
    groups = _GROUPS.get(name, ()) if chance.random() < 0.35 else ()
    version = "version" if name == "stock" and chance.random() < 0.5 else ""
    return TableWords(default, dict(types), tuple(GroupWords(of, _of_group(chance, of)) for of in groups), version)


def _of_group(chance: Random, columns: tuple[str, ...]) -> PolicyWord:
    by_value: tuple[PolicyWord, ...] = ("delta", "max", "min")
    return chance.choice((*_FOR_ROWS, *by_value) if {*columns} & {*NUMBERS} and len(columns) == 1 else _FOR_ROWS)


def _counting(chance: Random) -> TableWords:
    """Nothing of a number is lost; who wins the rest does not matter."""
    groups = (GroupWords(("count",), "delta"), GroupWords(("peak",), "max"), GroupWords(("low",), "min"))
    version: Literal["version", ""] = chance.choice(("version", ""))
    return TableWords(chance.choice(("arrival", "arbiter", "spoke", "latest")), {}, groups, version)


def _feed(chance: Random, seed: int, families: tuple[str, ...]) -> Plan:
    faults = chance.sample(sorted(set(FAULTS) - set(_NOT_HERE)), chance.randint(2, 5))
    if not set(faults) & set(ALWAYS_POSSIBLE):
        faults.append(chance.choice(ALWAYS_POSSIBLE))
    return Plan(
        seed=seed,
        schedule=seed,
        families=families,
        changes=0,
        atomic=chance.random() < 0.3,
        features=("pauses",) if chance.random() < 0.2 else (),
        faults={name: chance.choice((1, 1, 4)) for name in faults},
        fault_rate=chance.choice((0.02, 0.05, 0.08)),
        longest=chance.choice((2, 6, 15, 40)),
        cut_anywhere=False,
        engine=Engine(
            lanes=chance.choice((1, 2, 4)),
            batch_rows=chance.choice((1, 3, 10, 50)),
            window_rows=chance.choice((1, 6, 15, 40)),
            max_in_flight_rows=chance.choice((4, 10, 40, 200)),
            checkpoint_us=chance.choice((2_000, 50_000, 500_000)),
            idle_checkpoint_us=chance.choice((1_000_000, 5_000_000)),
            commit_bound_us=chance.choice((20_000, 200_000)),
            min_rows_per_lane=chance.choice((0, 0, 3)),
            coalesce_rows=0,  # as of every feed with sites: a table waits for changes of one origin alone
            linger_us=1_000,
            max_in_flight_bytes=ROW_BYTES * chance.choice((16, 100, 1_000)),
            stream_idle_us=chance.choice((50_000, 30_000_000)),
        ),
    )
