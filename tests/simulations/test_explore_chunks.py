"""The chunk model: clean as the ledger is, broken shortly once a rule is."""

import re

import pytest

from tidelock.simulations.explore import runs
from tidelock.simulations.explore.__main__ import main
from tidelock.simulations.explore.chunk_rules import CHUNK_RULES
from tidelock.simulations.explore.chunks import ChunkModel, Story


def test_every_short_history_is_copied_exactly() -> None:
    result = runs.chunks(runs.copies("quick"))
    assert result.story == []
    assert (result.changes, result.histories) == (2, 6) and result.states > 5_000


@pytest.mark.proof
def test_every_longer_history_is_copied_exactly() -> None:
    assert runs.chunks(runs.copies("full")).story == []


SHORTEST = {
    "visible": (7, "after the merge of chunk 0 the target holds {}, the source {1: (1, 'a', 1)}"),
    "touched": (7, "after the merge of chunk 0 the target holds {}, the source {1: (1, 'a', 1)}"),
    "drained": (11, "row 3 wants a, which another row holds"),
    "merge-checkpoint": (12, "(1, 'a', 1) is written over (1, 'a', 2)"),
    "covered-is-seen": (14, "after the merge of chunk 1 the target holds {}, the source {3: (3, 'a', 1)}"),
    "back-to-pending": (8, "after the merge of chunk 0 the target holds {}, the source {1: (1, 'a', 1)}"),
}


def test_every_rule_is_broken_once() -> None:
    assert list(SHORTEST) == list(CHUNK_RULES)
    assert {rule.row for rule in CHUNK_RULES.values()} - {0} == {5, 6, 7}


SLOW = ("covered-is-seen", "drained", "back-to-pending")


@pytest.mark.parametrize("rule", [r if r not in SLOW else pytest.param(r, marks=pytest.mark.proof) for r in SHORTEST])
def test_without_a_rule_the_shortest_counter_example_is_found(rule: str) -> None:
    moves, error = SHORTEST[rule]
    story = runs.without(rule).story
    assert len([line for line in story if not re.match(r"before: |change \d+: |  ✗", line)]) == moves
    assert story[-1] == f"  ✗ {error}"


def test_a_row_that_was_streamed_before_it_could_be_seen_is_lost() -> None:
    assert runs.without("visible").story == [
        "before: []",
        "change 1: None to (1, 'a', 1)",
        "the source commits change 1",
        "the stream takes change 1",
        "a chunk is asked for",
        "row 1 of chunk 0 is read",
        "row 2 of chunk 0 is read",
        "chunk 0 is staged, up to 1",
        "the chunk that is due is merged at 1",
        "  ✗ after the merge of chunk 0 the target holds {}, the source {1: (1, 'a', 1)}",
    ]


def test_everything_happens() -> None:
    """A search that never gets there would be clean too."""
    verbs: dict[str, None] = {}
    model = ChunkModel(Story(((1, "a", 0),), [((1, "a", 0), (3, "a", 1))]))
    seen, frontier = {model.key()}, [model]
    half_a_move = False
    while frontier:
        here = frontier.pop()
        half_a_move = half_a_move or any((b is None) != (a is None) for _, b, a in here.flying)
        for move in here.moves():
            twin = here.fork()
            twin.take(move)
            verbs[move[0]] = None
            if twin.key() not in seen:
                seen.add(twin.key())
                frontier.append(twin)
    assert set(verbs) == {"write", "show", "take", "commit", "ask", "row", "stage", "merge", "die"}
    assert half_a_move


@pytest.mark.proof
def test_the_command_tells_a_counter_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--without", "visible"]) == 0
    assert "the chunk that is due is merged at 1" in capsys.readouterr().out
