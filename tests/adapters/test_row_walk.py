"""The walks of `docs/explanation/walk.md` are true: a row change passes these modules, in this order, and no others."""

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
ENGINE = "The engine's process: from the feed's log to a batch"
WALKS = {
    "mariadb": ("The capture process: from the log to the feed's log", ENGINE, "To the target"),
    "postgres_source": ("From PostgreSQL: the capture process", ENGINE, "From PostgreSQL: to the target"),
}
MOST = 20


def stations(source: str) -> list[str]:
    """The modules of a walk, as the page has them under the headings of its parts."""
    _, *texts = re.split(r"^## (.+)$\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    parts = dict(zip(texts[::2], texts[1::2], strict=True))
    return [path for part in WALKS[source] for path in STATION.findall(parts[part])]


def traced(folder: Path) -> set[str]:
    """Modules that were handed the row, of all processes of a run."""
    return {line for path in folder.glob("walk.*") for line in path.read_text(encoding="utf-8").splitlines()}


@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=[pytest.mark.proof] * (name != "mariadb")) for name in WALKS]
)
def test_a_row_passes_the_modules_of_the_walk(
    source: str,
    make_rig: Callable[..., Rig],
    request: pytest.FixtureRequest,
    postgres: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = make_rig(request.getfixturevalue(source), postgres, "walk", lanes=2)
    rig.table("t", "id int PRIMARY KEY, note varchar(100)")
    if rig.start_at == "now":
        rig.at_source("ALTER TABLE t REPLICA IDENTITY FULL")
        assert rig.command("init", "--apply").code == 0
    monkeypatch.setenv("PYTHONPATH", f"{TRACER}:{ROOT}")
    monkeypatch.setenv("WALK_TO", str(tmp_path / "walk"))
    monkeypatch.setenv("WALK_NEEDLE", NEEDLE)
    process = rig.run()
    rig.at_source("INSERT INTO t VALUES (1, 'what is done once is done')")
    until(lambda: len(rig.rows("SELECT id::text FROM t")) == 1, "the first row", 60)
    rig.at_source(f"INSERT INTO t VALUES (2, '{NEEDLE}')")
    until(lambda: len(rig.rows("SELECT id::text FROM t")) == 2, "the row", 60)
    process.stop()
    passed = traced(tmp_path)
    python = {path for path in stations(source) if path.endswith(".py")}
    assert passed - python == set(), "not on the page"
    assert python - passed == set(), "on the page, and not on the way"


@pytest.mark.parametrize("source", WALKS)
def test_each_station_is_a_file(source: str) -> None:
    listed = stations(source)
    assert len(listed) == len(set(listed)) <= MOST and all((ROOT / path).is_file() for path in listed)
