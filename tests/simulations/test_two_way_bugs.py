"""The page of the eighty bugs is true: each is planted or broken, and what is to notice it is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidelock.simulations.mutants import planting
from tidelock.simulations.mutants.beyond import BEYOND
from tidelock.simulations.mutants.by_test import ByTest
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.tested import TESTED
from tidelock.simulations.mutants.two_way_bugs import BUGS, table
from tidelock.simulations.two_way.scopes import RULES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/two-way-bugs.md"
HISTORIES = [str(n) for n in range(1, 39)]
NUMBERS = {*HISTORIES, "21a", "24a", *(f"B{n}" for n in range(1, 41))}


def test_all_eighty_are_there_once() -> None:
    assert len(BUGS) == len(NUMBERS) == 80
    assert {bug.number for bug in BUGS} == NUMBERS


def test_each_dies_of_what_there_is_and_says_why_no_world_notices_it() -> None:
    hunted = {mutant.name for mutant in CATALOGUE} - set(BEYOND)
    planted = {tested.mutant.name for tested in TESTED}
    for bug in BUGS:
        assert set(bug.worlds) <= hunted, bug.number
        assert set(bug.rules) <= set(RULES), bug.number
        assert set(bug.tested) <= planted, bug.number
        assert bug.worlds or bug.rules or bug.tested or bug.tests, bug.number
        assert bug.worlds or bug.why, bug.number


def test_the_page_has_the_table() -> None:
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")


def test_every_test_that_is_named_is_one() -> None:
    for name in (*(test for bug in BUGS for test in bug.tests), *(tested.test for tested in TESTED)):
        file, _, function = name.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {function.partition('[')[0]}", text, re.MULTILINE), name


@pytest.mark.parametrize("tested", TESTED, ids=lambda tested: tested.mutant.name)
def test_every_bug_that_a_test_notices_can_be_planted(tested: ByTest) -> None:
    assert planting.changed(tested.mutant)


@pytest.mark.proof
@pytest.mark.parametrize("tested", TESTED, ids=lambda tested: tested.mutant.name)
def test_each_is_noticed(tested: ByTest) -> None:
    command = [sys.executable, str(Path(__file__).with_name("planted.py")), tested.mutant.name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
