"""The mutation check: every planted bug still applies, and dies; what is planted, and how a hunt ends."""

import pytest

from tidelock.simulations.mutants import check, planting
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.check import HuntFailed, hunt_all
from tidelock.simulations.mutants.hunt import Order
from tidelock.simulations.mutants.mutant import Mutant, Stale

COUNTER_EXAMPLES = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18}  # those that concern what exists
QUICK = (
    "lock-dropped", "fold-by-labels", "fence-skipped", "checkpoint-one-too-far", "commit-when-ready",
    "identity-not-compared",
)  # fmt: skip

SOURCE = """\
def one(a, b):
    if a:
        return b
    return a


def two(a):
    return a
"""


LOCKS = "tidelock.engine.parallel.lock_table"


def mutant(patch: str, module: str = LOCKS) -> Mutant:
    return Mutant("a mutant", module, patch, "something")


def test_a_patch_changes_the_lines_it_names_at_their_depth() -> None:
    planted = mutant(
        """
          if a:
        -     return b
        +     return b + 1
        + else:
        +     return b

          def two(a):
        +     a = a + 1
        """
    ).plant(SOURCE)
    assert planted == (
        "def one(a, b):\n    if a:\n        return b + 1\n    else:\n        return b\n    return a\n\n\n"
        "def two(a):\n    a = a + 1\n    return a\n"
    )


@pytest.mark.parametrize(
    ("patch", "times"), [("- return a\n+ return 1", 2), ("- return c\n+ return 1", 0), ("  def one(a):\n+     pass", 0)]
)
def test_a_patch_that_does_not_fit_exactly_once_is_stale(patch: str, times: int) -> None:
    with pytest.raises(Stale, match=rf"a mutant: this occurs {times} times in engine\.locks"):
        mutant(patch).plant(SOURCE)


@pytest.mark.parametrize("planted", CATALOGUE, ids=lambda planted: planted.name)
def test_every_mutant_still_applies(planted: Mutant) -> None:
    source = planting.source_of(planted.module)
    changed = planted.plant(source)
    assert changed != source
    compile(changed, planted.module, "exec")


def test_the_catalogue_is_whole() -> None:
    assert len({planted.name for planted in CATALOGUE}) == len(CATALOGUE) >= 60
    assert {planted.row for planted in CATALOGUE} - {0} == COUNTER_EXAMPLES


def test_what_is_beyond_reach_is_in_the_catalogue_and_not_hunted_unnamed() -> None:
    names = {planted.name for planted in CATALOGUE}
    hunted = {planted.name for planted in check.named(())}
    assert set(BEYOND) <= names and hunted == names - set(BEYOND)
    assert [planted.name for planted in check.named(["never-full"])] == ["never-full"]


def test_names_that_the_catalogue_does_not_have() -> None:
    assert [planted.name for planted in check.named(["fence-skipped"])] == ["fence-skipped"]
    with pytest.raises(ValueError, match="no such mutant: nobody"):
        check.named(["fence-skipped", "nobody"])


def test_a_module_that_is_imported_already_is_not_planted() -> None:
    with pytest.raises(AssertionError, match="imported already"):
        planting.plant(mutant("- nothing\n+ nothing", check.__name__))


def hunt(patch: str, module: str, limit: int = 6, patience: float = 20.0) -> check.Result:
    (result,) = hunt_all([Order(mutant(patch, module), limit, patience)])
    return result


def test_a_harmless_change_lives() -> None:
    """So a death is the bug's doing, not the planting's."""
    result = hunt("- assert not segment.committed, 'released twice'\n+ pass".replace("'", '"'), LOCKS)
    assert not result.killed
    assert (result.seed, result.seeds, result.by) == (None, 6, "")


def test_who_noticed_is_told() -> None:
    result = hunt('- assert not segment.committed, "released twice"\n+ raise KeyError("gone")', LOCKS)
    assert (result.seed, result.seeds) == (0, 1)
    assert result.by == "locks.release: KeyError 'gone'"


def test_a_world_that_does_not_come_to_an_end_is_noticed() -> None:
    result = hunt("  segment.committed = True\n+ while True:\n+     pass", LOCKS, patience=0.5)
    assert result.by == "locks.release: Endless a seed took more than 0.5 s"


def test_a_hunt_that_cannot_be_is_an_error() -> None:
    with pytest.raises(HuntFailed, match=r"this occurs 0 times in engine\.locks"):
        hunt("- not in any source\n+ pass", LOCKS)


def test_no_hunt_begins_with_a_stale_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = mutant("- not in any source\n+ pass")
    monkeypatch.setattr(check, "CATALOGUE", (*CATALOGUE, stale))
    monkeypatch.setattr(check, "hunt_all", lambda *_: pytest.fail("a hunt begins"))
    with pytest.raises(Stale, match="a mutant: this occurs 0 times"):
        check.run()


def test_quick_ones_die() -> None:
    told: list[str] = []
    results = check.run(QUICK, limit=100, progress=lambda result: told.append(result.mutant.name))
    assert [result.mutant.name for result in results] == list(QUICK)
    assert sorted(told) == sorted(QUICK)
    assert [result.mutant.name for result in results if not result.killed] == []


@pytest.mark.proof
def test_all_die() -> None:
    assert [result.mutant.name for result in check.run() if not result.killed] == []
