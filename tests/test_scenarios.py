"""Transcripts in tests/scenarios; `python -m tidelock.simulations.scenario tests/scenarios/*.txt` writes them anew.

The tables of `simulations/README.md` say which edge case each of them shows: they must stay true of the tree.
"""

import re
from pathlib import Path

import msgspec
import pytest

from tidelock.simulations import catalogue
from tidelock.simulations.plan import FAULTS, FEATURES, Plan
from tidelock.simulations.scenario import run

HERE = Path(__file__).parent
SCENARIOS = sorted((HERE / "scenarios").glob("*.txt"))
README = (HERE.parent / "simulations" / "README.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in README.splitlines()
    if re.match(r"\| [KL]\d", line)
]
CASES = [*(f"K{n}" for n in range(1, 18)), *(f"L{n}" for n in range(1, 10))]
WAITS = "waits for the PostgreSQL source"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    assert run(path.read_text()) == path.read_text()


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_case_has_its_row() -> None:
    assert [row[0] for row in ROWS] == CASES
    for row in ROWS:
        assert all(row), f"{row[0]} leaves a cell empty"
        assert named(row[2]) or row[2] == WAITS, f"{row[0]} names no scenario"


def test_every_scenario_is_in_the_table_once_and_every_name_is_a_scenario() -> None:
    others = README.rpartition("Other scenarios")[2]
    names = [name for row in ROWS for name in named(row[2])] + named(others)
    assert sorted(names) == [path.stem for path in SCENARIOS]


def test_every_option_is_one_of_the_worlds() -> None:
    known = {
        "family": list(catalogue.BY_NAME),
        "fault": list(FAULTS),
        "feature": list(FEATURES),
        "plan": [field.name for field in msgspec.structs.fields(Plan)],
    }
    for row in ROWS:
        for kind, names in re.findall(r"(\w+) ((?:`\w+` ?)+)", row[3]):
            assert set(named(names)) <= set(known[kind]), f"{row[0]}: {kind} {names}"


def test_every_test_of_a_real_server_is_there() -> None:
    for row in ROWS:
        for node in named(row[4]):
            file, _, test = node.partition("::")
            source = (HERE / "adapters" / file).read_text()
            assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{row[0]}: {node}"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_begins_with_what_it_shows(path: Path) -> None:
    assert path.read_text().startswith("# ")
