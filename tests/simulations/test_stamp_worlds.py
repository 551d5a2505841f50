"""Worlds of sites whose rows have stamps: clean by seed, and known to notice planted bugs."""

from collections import Counter

import pytest

from tests.simulations.test_sites import assert_clean
from tidelock.simulations import campaign
from tidelock.simulations.mutants import check
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.hunt import Order
from tidelock.simulations.mutants.stamps import STAMPS
from tidelock.simulations.sites.stamp_plan import draw_stamped
from tidelock.simulations.sites.trial import DrawnStamps

FIRST = 3_000_100
QUICK, PROOF = 18, 5_000
LIMIT = 300
QUICK_ONES = ("clock-alone", "tombstones-stay-at-home")


def test_worlds_are_clean() -> None:
    tally = campaign.run(DrawnStamps(), FIRST, QUICK)
    assert_clean(tally)
    assert tally.coverage["tombstones taken away"] and tally.coverage["writer committed"]
    assert all(tally.coverage[f"brought by {name}"] for name in ("pair", "ring", "mesh"))
    assert tally.faults > QUICK


def test_a_tombstone_that_goes_too_early_is_noticed_where_they_go_in_haste() -> None:
    seed = 24
    assert draw_stamped(seed).hasty
    (mutant,) = check.named(["tombstones-go-when-all-have-them"])
    (result,) = check.hunt_all([Order(mutant, 1, check.PATIENCE, first=seed)])
    assert result.seed == seed


@pytest.mark.proof
def test_a_long_campaign_is_clean() -> None:
    assert_clean(campaign.run(DrawnStamps(), 7 * FIRST, PROOF, jobs=2))


def test_quick_ones_die() -> None:
    results = check.run(QUICK_ONES, limit=10)
    assert [result.mutant.name for result in results if not result.killed] == []


@pytest.mark.proof
def test_all_die() -> None:
    hunted = [mutant for mutant in STAMPS if mutant.name not in BEYOND]
    orders = [Order(mutant, LIMIT, check.PATIENCE) for mutant in hunted]
    alive = Counter(result.mutant.name for result in check.hunt_all(orders) if not result.killed)
    assert alive == Counter()
