"""Worlds of several sites: clean by seed, the same in every process, and known to notice planted bugs."""

from collections import Counter

import pytest

from tidelock.simulations import campaign
from tidelock.simulations.mutants import check
from tidelock.simulations.mutants.arbiter import ARBITER
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.cutting import CUTTING
from tidelock.simulations.mutants.hunt import Order
from tidelock.simulations.mutants.permits import DECIDING, PERMITS
from tidelock.simulations.mutants.sites import SITES
from tidelock.simulations.sites.plan import SitesPlan, draw_arbitrated, drawn
from tidelock.simulations.sites.topology import TOPOLOGIES
from tidelock.simulations.sites.trial import DrawnSites, attempt

FIRST = 1_000_000
QUICK, PROOF = 60, 10_000
LIMIT = 2_000
QUICK_ONES = (
    "mark-of-first-part-alone", "no-echo", "part-has-the-place-of-its-transaction", "layers-of-decisions-are-one",
)  # fmt: skip


def assert_clean(tally: campaign.Tally) -> None:
    told = [f"tidelock simulate --sites --from {f.seed} --seeds 1   # {f.mistake}" for f in tally.failures[:20]]
    assert not tally.failed, f"{tally.failed} of {tally.runs} worlds fail:\n" + "\n".join(told)


def test_worlds_are_clean() -> None:
    tally = campaign.run(DrawnSites(), FIRST, QUICK)
    assert_clean(tally)
    brought = {name for name in TOPOLOGIES if tally.coverage[f"brought by {name}"]}
    assert brought == set(TOPOLOGIES)
    assert tally.coverage["unit of rows handed over"] and tally.coverage["recorded: a row that lost"]
    assert tally.coverage["sums: something was added"] and tally.coverage["permit: holds"]
    assert tally.coverage["server of a site: replica"] and tally.coverage["writers rest"]
    assert tally.coverage["up: several are decided about in one transaction"]
    assert tally.coverage["up: decided about, and in no conflict"]
    assert tally.coverage["up: one decision makes others look again"]
    assert tally.faults > QUICK


@pytest.mark.parametrize("seed", [28_000_229, 28_000_253])
def test_a_world_that_failed_once_is_clean(seed: int) -> None:
    """A unique value that an update left alone was wanted by another change of the same transaction of decisions."""
    assert not attempt(drawn(seed)).mistake


def test_some_worlds_are_of_numbers_and_some_are_late() -> None:
    plans = [draw_arbitrated(seed) for seed in range(200)]
    assert 4 < sum(_is_of_numbers(plan) for plan in plans) < 40
    late = [plan for plan in plans if min(plan.speeds.values()) == 0.02]
    assert 4 < len(late) < 40
    for plan in late:
        slow = {name for name, speed in plan.speeds.items() if speed == 0.02}
        assert slow and slow < {*plan.speeds}
        assert all((feed.engine.batch_rows == 50) == (name in slow) for name, feed in plan.feeds.items())


def _is_of_numbers(plan: SitesPlan) -> bool:
    """Tells whether values are added in rows that come and go."""
    assert plan.conflicts is not None
    groups = [group for words in plan.conflicts.policies.values() for group in words.groups]
    return not plan.conflicts.counted and plan.families == ("stock",) and {"delta"} <= {one.policy for one in groups}


@pytest.mark.parametrize(
    ("name", "seed"),
    [("delta-of-null-is-tried", 27), ("seen-of-the-newest-at-the-arbiter", 302), ("seen-compared-as-text", 211)],
)
def test_the_world_that_was_made_for_a_bug_notices_it(name: str, seed: int) -> None:
    (mutant,) = check.named([name])
    (result,) = check.hunt_all([Order(mutant, 1, check.PATIENCE, first=seed)])
    assert result.seed == seed


@pytest.mark.proof
def test_a_long_campaign_is_clean() -> None:
    assert_clean(campaign.run(DrawnSites(), 7 * FIRST, PROOF, jobs=2))


def test_a_seed_makes_the_same_run_again() -> None:
    first, again = (attempt(drawn(17), told=True) for _ in range(2))
    assert first.transcript == again.transcript and len(first.transcript) > 100


def test_each_topology_reaches_the_sites_it_says() -> None:
    reached = {name: {site: set(t.routes(site)) for site in t.sites} for name, t in TOPOLOGIES.items()}
    assert reached["ring"] == {"a": {"b", "c"}, "b": {"c", "a"}, "c": {"a", "b"}}
    assert reached["marked"] == {"a": {"b"}, "b": {"a", "c"}, "c": set()}
    assert reached["marked twice"] == {"a": {"b", "c"}, "b": {"c", "d"}, "c": {"b", "d"}, "d": set()}
    assert reached["inlet"] == {"a": {"b"}, "b": {"a"}, "c": {"b", "a"}}


def test_quick_ones_die() -> None:
    results = check.run(QUICK_ONES, limit=20)
    assert [result.mutant.name for result in results if not result.killed] == []


@pytest.mark.proof
@pytest.mark.timeout(7200)
def test_all_die() -> None:
    hunted = [mutant for mutant in (*SITES, *ARBITER, *PERMITS, *DECIDING, *CUTTING) if mutant.name not in BEYOND]
    orders = [Order(mutant, LIMIT, check.PATIENCE) for mutant in hunted]
    alive = Counter(result.mutant.name for result in check.hunt_all(orders) if not result.killed)
    assert alive == Counter()
