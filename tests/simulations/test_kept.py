"""Failures that were mended stay mended: `simulations/seeds/`."""

from pathlib import Path

import pytest

from tidelock.simulations import kept
from tidelock.simulations.kept import Kept
from tidelock.simulations.plan import draw
from tidelock.simulations.trial import attempt


@pytest.mark.parametrize("path", sorted(kept.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_no_kept_plan_fails_again(path: Path) -> None:
    found = kept.load(path)
    assert found.mistake and found.mended, "say what it showed, and the commit that mended it"
    trial = attempt(found.plan, told=True)
    assert trial.mistake == "", "\n".join(trial.abridged)
    assert trial.changes > 0


def test_a_plan_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    one = Kept(draw(5), "it was wrong", "Make it right")
    kept.keep(tmp_path / "seeds" / "one.json", one)
    assert kept.load(tmp_path / "seeds" / "one.json") == one
