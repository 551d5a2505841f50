"""Transcripts in tests/scenarios; `python -m simulations.scenario tests/scenarios/*.txt` writes them anew."""

from pathlib import Path

import pytest

from simulations.scenario import run

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    assert run(path.read_text()) == path.read_text()
