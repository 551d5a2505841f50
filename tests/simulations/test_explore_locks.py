"""The lock model: clean as the engine is, broken shortly once a rule is."""

import pytest

from tidelock.simulations.explore import runs, scopes
from tidelock.simulations.explore.book import Book
from tidelock.simulations.explore.histories import Scope
from tidelock.simulations.explore.locks import LockModel, begin
from tidelock.simulations.explore.rules import RULES
from tidelock.simulations.explore.search import search
from tidelock.simulations.explore.world import World

ALL = (scopes.one_value, scopes.one_unique, scopes.three_rows, scopes.two_uniques, scopes.parents, scopes.children)


def proven(case: object, *slow: object) -> object:
    """A case, which is in the proof if it takes seconds."""
    return pytest.param(case, marks=pytest.mark.proof) if case in slow else case


@pytest.mark.parametrize(("scope", "changes"), runs.SIZES["quick"], ids=lambda value: getattr(value, "__name__", value))
def test_every_small_history_is_exact(scope: type[Scope], changes: int) -> None:
    result = runs.locks(scope(), changes)
    assert result.story == []
    assert result.states > 100


LARGER = [*dict.fromkeys((*runs.SIZES["small"], *runs.SIZES["full"]))]


@pytest.mark.proof
@pytest.mark.parametrize(("scope", "changes"), LARGER, ids=lambda value: getattr(value, "__name__", value))
def test_every_larger_history_is_exact(scope: type[Scope], changes: int) -> None:
    assert runs.locks(scope(), changes).story == []


# The last line says what breaks, the number of moves that there is no shorter way.
SHORTEST = {
    "locks": (2, "duplicate ('a',) in email"),
    "primary-key": (2, "2 overtakes 1, which changes the same row"),
    "unique-key": (2, "duplicate ('a',) in email"),
    "parent-key": (2, "has no parent"),
    "all-holders": (3, "refers to"),
    "null": (1, "nothing stands in the way of 2"),
    "lane-order": (3, "3 overtakes 2"),
    "release": (5, "duplicate ('a',) in email"),
    "deletes-first": (2, "the merged batch gives ()"),
    "fence": (2, "1 is committed, and would be applied again"),
    "receipts": (3, "2 is committed, and would be applied again after a crash with the checkpoint 1"),
}


def test_every_rule_is_broken_once() -> None:
    assert list(SHORTEST) == list(RULES)


@pytest.mark.parametrize("rule", [proven(rule, "lane-order", "all-holders", "receipts") for rule in SHORTEST])
def test_without_a_rule_the_shortest_counter_example_is_found(rule: str) -> None:
    moves, error = SHORTEST[rule]
    story = runs.without(rule).story
    told = [line for line in story if line.split()[0] in ("plan", "send", "commit", "crash")]
    if rule != "release":  # elsewhere a send and its commit are one move, told as two
        told = [line for line in told if not line.startswith("send")]
    assert len(told) == moves
    assert story[-1].startswith("  ✗") and error in story[-1]


def test_without_locks_a_value_is_taken_before_it_is_free() -> None:
    assert runs.without("locks").story == [
        "at the target: account 2 a 0",
        "log 1: delete account 2 a 0",
        "log 2: insert account 5 a 0",
        "lanes 2",
        "plan 2",
        "  → lane 0: 1",
        "  → lane 1: 2",
        "send 1 1",
        "  → apply 1.2 lane 1 [0-1:2:0]: insert shop.account (5, a, 0)",
        "commit 1",
        "  ✗ duplicate ('a',) in email of shop.account",
    ]


@pytest.mark.parametrize("make", [proven(make, scopes.one_unique, scopes.two_uniques) for make in ALL])
def test_a_renaming_changes_no_count(make: type[Scope]) -> None:
    """Explores one of the histories that a renaming turns into each other: here all are, one by one."""
    scope = make()
    world, book = World(scope), Book(scope)

    def size(history: tuple) -> tuple[int, int]:
        outcome = search(LockModel(world, begin(world, *history), book), set())
        assert outcome.way is None
        return outcome.states, outcome.transitions

    for start, drafts in scope.histories(2):
        for renaming in scope.renamings[1:]:
            image = (scope.renamed(renaming, start), tuple(scope.renamed_draft(renaming, d) for d in drafts))
            assert size(image) == size((start, drafts))


def test_reduced_histories_stand_for_all() -> None:
    scope = scopes.one_unique()
    everything = list(scope.histories(2, reduced=False))
    images = {
        (scope.renamed(r, start), tuple(scope.renamed_draft(r, d) for d in drafts))
        for start, drafts in scope.histories(2)
        for r in scope.renamings
    }
    assert images == set(everything) and len(everything) == len(set(everything))


WIDE = (scopes.two_uniques, scopes.parents)


@pytest.mark.parametrize("make", [proven(make, *WIDE) for make in ALL])
@pytest.mark.parametrize("apart", [False, True])
def test_what_has_one_key_has_one_future(make: type[Scope], apart: bool) -> None:
    """Two ways to one key: the same moves lead to the same keys.  (A crash is only told where it is new.)"""
    scope = make()
    world, book = World(scope), Book(scope)
    future: dict[object, dict] = {}
    met = 0
    for history in list(scope.histories(2))[::5]:
        todo = [LockModel(world, begin(world, *history), book, apart=apart)]
        while todo:
            model = todo.pop()
            after = {}
            for move in model.moves():
                twin = model.fork()
                twin.take(move)
                todo.append(twin)
                if move != ("crash",):
                    after[move] = twin.key()
            met += model.key() in future
            assert future.setdefault(model.key(), after) == after
    assert met > 50


@pytest.mark.parametrize("make", [proven(make, *WIDE) for make in ALL])
def test_sends_apart_from_their_commits_break_nothing_either(make: type[Scope]) -> None:
    scope = make()
    world, book, seen = World(scope), Book(scope), set()
    for history in scope.histories(2):
        assert search(LockModel(world, begin(world, *history), book, apart=True), seen).way is None
