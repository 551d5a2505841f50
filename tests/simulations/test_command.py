"""`tidelock simulate` as people run it; and what it does with worlds that fail."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.harness.rig import tidelock
from tidelock.simulations import command, kept, report
from tidelock.simulations.campaign import Failure, Tally
from tidelock.simulations.command import ENOUGH, Search
from tidelock.simulations.coverage import EXPECTED
from tidelock.simulations.explore.runs import Result as Explored
from tidelock.simulations.mutants.catalogue import CATALOGUE
from tidelock.simulations.mutants.hunt import Result
from tidelock.simulations.plan import Plan, draw
from tidelock.simulations.trial import Trial

ROOT = Path(__file__).parents[2]
REACHED = dict.fromkeys(EXPECTED, 1)
SMALL = replace(draw(0), changes=8)


def simulate(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    done = tidelock("simulate", *map(str, arguments), environment={"COLUMNS": "80"}, seconds=240)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


class Worlds:
    """Worlds that need no time; from seed 7 on they fail if they have a transaction 3."""

    varied = True

    def __init__(self, coverage: dict[str, int] = REACHED, first_bad: int = 7) -> None:
        self.coverage, self.first_bad = coverage, first_bad

    def plan(self, seed: int) -> Plan:
        return replace(SMALL, seed=seed)

    def attempt(self, plan: Plan, *, told: bool = False) -> Trial:
        numbers = tuple(n for n in range(1, plan.changes + 1) if n not in plan.without)
        mistake = "3 is bad" if plan.seed >= self.first_bad and 3 in numbers else ""
        transcript = [f"1 0.1  transaction {n}" for n in numbers] if told else []
        return Trial(
            plan, mistake, "Mistake", faults=5, changes=100, coverage=self.coverage,
            transactions=numbers, transcript=transcript,
        )  # fmt: skip

    def __call__(self, seed: int) -> Trial:
        return self.attempt(self.plan(seed))


def search(worlds: Worlds, seeds: int, *, as_json: bool = False, save: str = "", first_failure: bool = False) -> int:
    return Search(worlds, 60, save, as_json, "tidelock simulate").run(0, seeds, 1, first_failure=first_failure)


# ---------------------------------------------------------------------- campaigns


def test_a_clean_campaign() -> None:
    done = simulate("--seeds", "8", "--from", "40", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["runs"], found["failed"], found["failures"]) == (8, 0, [])
    assert found["changes"] >= 800 and found["fewest_changes"] >= 100 and found["fewest_faults"] >= 5
    assert found["rate"] > 0 and list(found["coverage"]) == report.sorted_names(found["coverage"])
    assert set(EXPECTED) <= set(found["coverage"])
    assert found["missing"] == [name for name in EXPECTED if not found["coverage"][name]]


def test_a_campaign_for_people() -> None:
    done = simulate("--seeds", "20", "--changes", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("20 runs in ")
    assert "all clean" in done.stdout
    assert "fault\n" in done.stdout.replace(" ", "")


def test_a_failure_is_shrunk_and_can_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert search(Worlds(), 20) == 1
    told = capsys.readouterr().out
    assert "20 runs" in told and "13 failed" in told
    assert "seed 7: 3 is bad" in told and "seed 16: 3 is bad" in told and "seed 17" not in told
    assert "… and 3 more" in told
    assert "seed 7, shrunk from 100 row changes in 8 transactions to 100 row changes in 1 transactions:" in told
    assert told.index("  1 0.1  transaction 3\n  3 is bad") > 0
    assert told.endswith("again: tidelock simulate --from 7 --seeds 1\n")


def test_the_first_failure_can_be_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert search(Worlds(), 500, as_json=True, first_failure=True) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["runs"] < 500
    assert found["failures"][0] == {"seed": 7, "mistake": "3 is bad"}
    assert found["shrunk"]["mistake"] == "3 is bad"
    assert found["shrunk"]["transcript"] == ["1 0.1  transaction 3"]
    assert found["again"] == "tidelock simulate --from 7 --seeds 1"


def test_what_is_shrunk_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FOLDER", tmp_path / "seeds")
    search(Worlds(), 8, save="three")
    found = kept.load(tmp_path / "seeds" / "three.json")
    assert (found.mistake, found.mended, found.plan.seed) == ("3 is bad", "", 7)
    assert Worlds().attempt(found.plan).transactions == (3,)
    assert capsys.readouterr().out


@pytest.mark.proof
def test_many_seeds_must_reach_everything(capsys: pytest.CaptureFixture[str]) -> None:
    name = EXPECTED[0]
    some = {n: 1 for n in EXPECTED if n != name}
    assert search(Worlds(first_bad=ENOUGH), ENOUGH) == 0
    assert "never reached" not in capsys.readouterr().out
    assert search(Worlds(some, first_bad=ENOUGH), ENOUGH) == 1
    assert f"never reached: {name}\n" in capsys.readouterr().out
    assert search(Worlds(some, first_bad=ENOUGH), ENOUGH - 1) == 0
    assert "never reached" not in capsys.readouterr().out


def test_failures_that_do_not_come_again_are_still_failures(capsys: pytest.CaptureFixture[str]) -> None:
    class Moody(Worlds):
        def __call__(self, seed: int) -> Trial:
            return Trial(self.plan(seed), "once only")

    assert search(Moody(first_bad=99), 1) == 1
    assert "seed 0: once only" in capsys.readouterr().out


def test_counters_are_grouped_and_in_order() -> None:
    names = ["waits of 10", "fault: b", "waits of 9", "fault: a", "waits of 9"]
    assert report.grouped(names) == {"fault": ["fault: a", "fault: b"], report.OTHER: ["waits of 9", "waits of 10"]}


def test_a_tally_tells_how_many_it_keeps() -> None:
    tally = Tally()
    for seed in range(1200):
        tally.count(seed, Trial(draw(1), "bad"))
    assert tally.failed == 1200
    assert (len(tally.failures), tally.failures[-1]) == (1000, Failure(999, "bad"))


# ---------------------------------------------------------------------- the other ways to look for bugs


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("seeds", "code"), [((3, 0), 0), ((3, None), 1)])
def test_every_mutant_must_die(
    seeds: tuple[int | None, ...],
    code: int,
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = [Result(CATALOGUE[n], seed, 2000, 1.5, "locks.issue: told") for n, seed in enumerate(seeds)]

    def run(jobs: int, progress: Callable[[Result], None]) -> list[Result]:
        for result in results:
            progress(result)
        return results

    monkeypatch.setattr("tidelock.simulations.mutants.check.run", run)
    assert command.command(mutants=True, json=as_json) == code
    told = capsys.readouterr()
    assert told.err.count("killed after 2000 seeds") == 2 - code
    if as_json:
        assert [one["seed"] for one in json.loads(told.out)] == list(seeds)
    else:
        assert f"{2 - code} of 2 killed" in told.out


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("story", "code"), [([], 0), (["it breaks"], 1)])
def test_every_small_case_must_be_clean(
    story: list[str], code: int, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [Explored("locks", "one row", 3, 10, 1000, 2000, 0.5, story)]
    monkeypatch.setattr("tidelock.simulations.explore.runs.run", lambda: iter(results))
    assert command.command(exhaustive=True, json=as_json) == code
    told = capsys.readouterr().out
    assert ("it breaks" in told) == bool(code)
    assert (json.loads(told)[0]["states"] == 1000) if as_json else ("1,000" in told)


# ---------------------------------------------------------------------- single runs


def test_a_run_is_told_and_its_journal_replays(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    done = simulate("--explain", "3", "--journal", path, "--owner", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("The plan of seed 3, schedule 3\n")
    assert "\nOwner 1\n" in done.stdout and "\nWhat held at every commit" in done.stdout
    again = tidelock("replay", str(path))
    assert again.code == 0 and "taken over: epoch 1" in again.out


def test_a_recorded_log_makes_worlds(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    for seed in range(1, 13):  # the first owner of a run may have read nothing
        simulate("--explain", str(seed), "--journal", path, "--owner", "1")
        done = simulate("--from-journal", path, "--seeds", "10", "--from", "5", "--json")
        if done.returncode != 2:
            break
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["runs"] == 10
    told = simulate("--from-journal", path, "--explain", "5", "--json")
    assert json.loads(told.stdout)["mistake"] == ""
    assert "recorded_shop." in told.stdout


@pytest.mark.parametrize("path", sorted(kept.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_plan_is_told(path: Path) -> None:
    done = simulate("--plan", path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["plan"]["seed"] == kept.load(path).plan.seed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--explain", "1", "--mutants"], "exclude each other"),
        (["--explain", "1", "--plan", "x.json"], "exclude each other"),
        (["--journal", "x"], "need --explain or --plan"),
        (["--plan", "nothing.json"], "nothing.json: No such file"),
        (["--plan", "pyproject.toml"], "pyproject.toml: not a kept plan"),
        (["--from-journal", "nothing.journal"], "nothing.journal: No such file"),
        (["--from-journal", "pyproject.toml"], "pyproject.toml: no change of a row is in it"),
        (["--explain", "1", "--journal", "run.journal", "--owner", "9999"], "no owner 9999"),
        (["--explain", "1", "--journal", "nowhere/run.journal"], "nowhere/run.journal: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_paragraph(arguments: list[str], words: str) -> None:
    done = simulate(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tidelock: ") and done.stderr.count("\n") == 1
    assert words in done.stderr
