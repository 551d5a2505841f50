"""The walk of `docs/explanation/walk.md` is true: a row change passes these modules, in this order, and no others."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.harness.rig import Rig, until
from bench.harness.servers import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/walk.md"
TRACER = Path(__file__).parent / "data/row_walk"
NEEDLE = "a-text-that-nothing-else-has"
STATION = re.compile(r"^\| \d+ \| `([\w/]+\.(?:py|pyx))` \|", re.MULTILINE)


def stations() -> list[str]:
    return STATION.findall(PAGE.read_text(encoding="utf-8"))


def traced(folder: Path) -> set[str]:
    """Modules that were handed the row, of all processes of a run."""
    return {line for path in folder.glob("walk.*") for line in path.read_text(encoding="utf-8").splitlines()}


def test_a_row_passes_the_modules_of_the_walk(
    make_rig: Callable[..., Rig], mariadb: Server, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(mariadb, postgres, "walk", lanes=2)
    rig.table("t", "id int PRIMARY KEY, note varchar(100)")
    monkeypatch.setenv("PYTHONPATH", f"{TRACER}:{ROOT}")
    monkeypatch.setenv("WALK_TO", str(tmp_path / "walk"))
    monkeypatch.setenv("WALK_NEEDLE", NEEDLE)
    process = rig.run()
    rig.at_source("INSERT INTO t VALUES (1, 'what is done once is done')")
    until(lambda: len(rig.rows("SELECT id FROM t")) == 1, "the first row", 60)
    rig.at_source(f"INSERT INTO t VALUES (2, '{NEEDLE}')")
    until(lambda: len(rig.rows("SELECT id FROM t")) == 2, "the row", 60)
    process.stop()
    passed = traced(tmp_path)
    python = {path for path in stations() if path.endswith(".py")}
    assert passed - python == set(), "not on the page"
    assert python - passed == set(), "on the page, and not on the way"


def test_each_station_is_a_file() -> None:
    listed = stations()
    assert len(listed) == len(set(listed)) and all((ROOT / path).is_file() for path in listed)
