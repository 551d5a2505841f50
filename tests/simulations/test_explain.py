"""Stories: what they tell is what happened."""

import re

import pytest

from tidelock.engine.protocol.events import BatchCommitted, LogArrived
from tidelock.simulations.checkers import ALL
from tidelock.simulations.explain import checks, story
from tidelock.simulations.narrative import Chapter
from tidelock.simulations.plan import FAULTS
from tidelock.simulations.trial import Drawn, Trial

TOLD = Drawn(told=True)


def text(chapters: list[Chapter]) -> str:
    return "\n".join(line for chapter in chapters for _, line in chapter.lines)


def total(pattern: str, chapters: list[Chapter]) -> int:
    return sum(int(n.replace(",", "")) for n in re.findall(pattern, text(chapters)))


@pytest.mark.parametrize("seed", range(6))
def test_all_commits_and_all_of_the_log_are_in_it(seed: int) -> None:
    trial = TOLD(seed)
    chapters = story(trial)
    events = [event for turn in trial.turns for event in turn.events]
    batches = [batch for event in events if isinstance(event, LogArrived) for batch in event.batches]
    assert total(r"([\d,]+) commits?\b", chapters) == sum(isinstance(event, BatchCommitted) for event in events)
    assert total(r"reads ([\d,]+) rows?\b", chapters) == sum(len(batch.rows) for batch in batches)
    sent = sum("  → apply " in line and "  → apply ddl" not in line for line in trial.transcript)
    assert total(r"sends ([\d,]+) batch", chapters) == sent
    assert total(r"sends ([\d,]+) pieces?\b", chapters) == sum("  → piece " in line for line in trial.transcript)


@pytest.mark.parametrize("seed", range(6))
def test_there_is_a_chapter_for_each_owner_and_each_phase(seed: int) -> None:
    trial = TOLD(seed)
    titles = [chapter.title for chapter in story(trial)]
    owners = sorted({turn.owner for turn in trial.turns})
    assert titles[0].startswith(f"The plan of seed {seed}")
    assert titles[1] == "The source"
    assert [int(t.split()[1]) for t in titles if re.fullmatch(r"Owner \d+", t)][-1] == owners[-1]
    assert titles.count("No more faults: everything has to arrive") == 1
    assert titles[-1].startswith("What held")
    assert all(line for chapter in story(trial) for _, line in chapter.lines)


def test_waits_faults_and_parked_rows_are_told() -> None:
    told = "\n".join(text(story(TOLD(seed))) for seed in range(12))
    assert re.search(r"\d:\d+:\d+ of shop\.\w+.* on lane \d waits for .* on lane \d to be committed", told)
    assert re.search(r"\d waits? at the lock table", told)
    assert re.search(r"sets \d+-\d+:\d+:\d+ of shop\.\w+ \(.*\) aside: ", told)
    assert "fault: the owner dies, and another takes over" in told
    assert "asks for the log again, from log." in told
    assert "the checkpoint moves to log." in told
    assert "still there: step down" in told


def test_a_run_that_failed_ends_with_its_mistake() -> None:
    unlocked = Drawn(locking=False, told=True)
    failed = next(trial for trial in map(unlocked, range(50)) if trial.mistake)
    assert story(failed)[-1] == Chapter("The mistake", [("", failed.mistake)])


def test_what_came_after_the_last_step_is_told() -> None:
    trial = TOLD(1)
    trial.transcript.append("-- rival")
    assert story(trial)[-2].lines[-1][1] == f"fault: {FAULTS['rival']}"


def test_a_machine_that_breaks_down_is_told() -> None:
    trial = TOLD(1)
    trial.turns.append(trial.turns[-1])
    trial.turns[-1].events = [None]  # type: ignore[list-item]
    assert "breaks down: AssertionError" in text(story(trial))


def test_each_check_has_its_words() -> None:
    assert len(checks()) == len(ALL)
    assert all(len(line) > 30 and line.endswith(".") for line in checks())


def test_a_transcript_is_abridged_by_the_heartbeats_that_change_nothing() -> None:
    lines = [
        "1 0.1  log a:1 to a:1: 0 rows",
        "1 0.2  log a:1 to a:2: 0 rows",
        "1 0.3  log a:2 to a:2: 0 rows",
        "1   → save checkpoint 1.1 a:2",
        "1 0.4  log a:2 to a:2 resent: 0 rows",
    ]
    assert Trial(TOLD.plan(1), transcript=lines).abridged == lines[1:]
