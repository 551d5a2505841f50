"""The fence model: clean as the engine is, broken shortly once a rule is."""

import pytest

from tidelock.simulations.explore import runs
from tidelock.simulations.explore.__main__ import main
from tidelock.simulations.explore.fence import FenceModel
from tidelock.simulations.explore.fence_rules import FENCE_RULES
from tidelock.simulations.explore.fence_state import OPTIONS, Source
from tidelock.simulations.explore.heard import Tree
from tidelock.simulations.explore.search import search


def explored(size: str) -> runs.Result:
    longest, more = runs.LOGS[size]
    return runs.fence([*runs.logs(longest), list(more)])


def test_every_short_log_is_applied_exactly_once() -> None:
    result = explored("quick")
    assert result.story == []
    assert (result.histories, result.changes) == (7, 2) and result.states > 1_000


@pytest.mark.proof
def test_every_longer_log_is_applied_exactly_once() -> None:
    assert explored("full").story == []


SHORTEST = {
    "epoch": (4, "a zombie applies 1"),
    "owner-lock": (4, "a zombie applies 1"),
    "own-receipt": (7, "1 is applied twice"),
    "dropped": (12, "2 is applied twice"),
    "unread": (8, "1 is applied twice"),
}


def test_every_rule_is_broken_once() -> None:
    assert list(SHORTEST) == list(FENCE_RULES)


@pytest.mark.parametrize("rule", SHORTEST)
def test_without_a_rule_the_shortest_counter_example_is_found(rule: str) -> None:
    moves, error = SHORTEST[rule]
    story = runs.without(rule).story
    told = [line for line in story[1:-1] if not line.startswith("  →")]
    assert len(told) == moves
    assert story[-1] == f"  ✗ {error}"


def test_a_batch_that_locks_nothing_lets_a_zombie_apply() -> None:
    assert runs.without("owner-lock").story == [
        "owner 1: taken over: epoch 1, checkpoint log.000001:0, 0 receipts, 0 parked, 1 tables",
        "owner 1: log log.000001:0 to log.000001:1 resent: 1 rows",
        "  → apply 1.1 lane 0 [0-1:1:0]: insert shop.owner (3, 1)",
        "target: open 1.1",
        "target: a new owner raises the epoch to 2",
        "target: commit 1.1",
        "  ✗ a zombie applies 1",
    ]


@pytest.mark.parametrize("log", ["ab", "aT", "Ta"])
def test_everything_happens(log: str) -> None:
    """A search that never gets there would be clean too."""
    verbs: dict[str, None] = {}
    most = {"owners": 0, "held": 0, "checkpoint": 0}
    model = FenceModel(Source(log), Tree(OPTIONS))
    seen, frontier = {model.key()}, [model]
    while frontier:
        here = frontier.pop()
        most["owners"] = max(most["owners"], len(here.state.owners))
        most["held"] = max(most["held"], len(here.state.held))
        most["checkpoint"] = max(most["checkpoint"], here.state.checkpoint)
        for move in here.moves():
            twin = here.fork()
            twin.take(move)
            verbs[move[0]] = None
            if twin.key() not in seen:
                seen.add(twin.key())
                frontier.append(twin)
    assert set(verbs) == {"log", "answer", "open", "commit", "doubt", "raise", "read", "tick"}
    assert most == {"owners": 2, "held": 2 if log == "ab" else 1, "checkpoint": 2}
    assert search(FenceModel(Source(log), Tree(OPTIONS)), set()).states == len(seen)


def test_the_command_tells_a_counter_example_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--without", "own-receipt"]) == 0
    told = capsys.readouterr().out
    assert "target: 1.1 takes place, and the answer is lost" in told
    assert "own-receipt" in told and "broken" in told
    with pytest.raises(SystemExit):
        main(["--without", "nothing"])
