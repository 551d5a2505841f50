"""Many worlds by seed: all clean, the same in every process, and known to reach what there is to reach."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidelock.simulations import campaign
from tidelock.simulations.campaign import Tally
from tidelock.simulations.coverage import EXPECTED
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.trial import Drawn

ROOT = Path(__file__).parents[2]
FIRST = 1_000_000
BLOCKS, BLOCK = 44, 500
SHORT = 250
FIRST_WORLDS = 40
PROOF = 100_000
TABLE = ROOT / "simulations" / "mutants" / "TABLE.md"


def assert_clean(tally: Tally, fewest_changes: int = 100, fewest_faults: int = 5) -> None:
    told = [f"tidelock simulate --from {f.seed} --seeds 1   # {f.mistake}" for f in tally.failures[:20]]
    assert not tally.failed, f"{tally.failed} of {tally.runs} worlds fail:\n" + "\n".join(told)
    assert tally.fewest_changes >= fewest_changes and tally.fewest_faults >= fewest_faults


def later_worlds() -> list[int]:
    """Returns the worlds of one feed behind the first block in which a planted bug dies, by the table's numbers."""
    rows = re.findall(r"^\| (\S+) \| .* \| ([0-9]+) \| [^|]* \|$", TABLE.read_text(), re.MULTILINE)
    of_feeds = {mutant.name for mutant in CATALOGUE if mutant.worlds == "feed"}
    return sorted({int(count) - 1 for name, count in rows if name in of_feeds and int(count) > SHORT})


def test_the_first_worlds_are_clean() -> None:
    tally = campaign.run(Drawn(), 0, FIRST_WORLDS)
    assert tally.runs == FIRST_WORLDS
    assert_clean(tally)


@pytest.mark.proof
def test_the_worlds_of_the_mutation_table_are_clean() -> None:
    """A planted bug that random worlds notice dies in one of these, or did on the day that the table names."""
    tally = campaign.run(Drawn(), 0, SHORT)
    assert tally.runs == SHORT
    assert_clean(tally)
    later = later_worlds()
    assert len(later) > 10
    for seed in later:
        assert_clean(campaign.run(Drawn(), seed, 1), fewest_changes=1, fewest_faults=0)


@pytest.mark.proof
@pytest.mark.parametrize("block", range(BLOCKS))
def test_worlds_are_clean(block: int) -> None:
    tally = campaign.run(Drawn(), FIRST + block * BLOCK, BLOCK)
    assert tally.runs == BLOCK
    assert_clean(tally)


def test_the_same_in_every_process() -> None:
    """Nothing depends on the order of a set or on a hash that changes by process."""
    code = "from simulations import campaign, trial; print(campaign.run(trial.Drawn(told=True), 0, 6).digest)"
    digests = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert int(digests[0]) == campaign.run(Drawn(told=True), 0, 6).digest


@pytest.mark.proof
def test_a_long_campaign_is_clean_and_reaches_everything(capsys: pytest.CaptureFixture[str]) -> None:
    tally = campaign.run(Drawn(), 7 * FIRST, PROOF, jobs=2)
    with capsys.disabled():
        print(
            f"\n{tally.runs:,} worlds in {tally.seconds:,.0f} s, {tally.rate:,.0f} a second: {tally.failed:,} failed, "
            f"{tally.changes:,} row changes, {tally.faults:,} faults"
        )
    assert tally.runs == PROOF
    assert_clean(tally)
    assert [name for name in EXPECTED if not tally.coverage[name]] == []
