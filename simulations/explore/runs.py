"""What is explored at each size, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from simulations.explore import scopes
from simulations.explore.book import Book
from simulations.explore.histories import Scope
from simulations.explore.hunt import hunt
from simulations.explore.locks import LockModel, Start, begin
from simulations.explore.rules import RULES, Rule
from simulations.explore.story import told
from simulations.explore.world import World

# Scopes of the lock model with the number of changes up to which all their histories are explored.
SIZES: dict[str, tuple[tuple[Callable[[], Scope], int], ...]] = {
    "small": (
        (scopes.one_value, 4),
        (scopes.one_unique, 3),
        (scopes.three_rows, 4),
        (scopes.two_uniques, 2),
        (scopes.parents, 2),
        (scopes.children, 3),
    ),
    "full": (
        (scopes.one_value, 4),
        (scopes.one_unique, 4),
        (scopes.three_rows, 5),
        (scopes.two_uniques, 3),
        (scopes.parents, 3),
        (scopes.children, 4),
    ),
}


class Result(msgspec.Struct):
    """`histories`: how many were explored, of up to `changes` changes.  `seconds` of processor time.  `story`: the
    shortest counter-example as a transcript, empty where there is none."""

    model: str
    scope: str
    changes: int
    histories: int
    states: int
    transitions: int
    seconds: float
    story: list[str]

    @property
    def clean(self) -> bool:
        return not self.story


def run(size: str = "small") -> Iterator[Result]:
    """Explore everything of this size.  Raises KeyError for a size that there is not."""
    for make, changes in SIZES[size]:
        yield locks(make(), changes)


def without(rule: str) -> Result:
    """The shortest counter-example once this rule is broken.  Raises KeyError for a rule that there is not."""
    broken = RULES[rule]
    return locks(broken.scope(), MOST_TO_BREAK, broken)


MOST_TO_BREAK = 4
AS_IT_IS = Rule("nothing")


def locks(scope: Scope, changes: int, rule: Rule = AS_IT_IS) -> Result:
    """All histories of up to so many changes through the lock model."""
    world, book = World(scope, rule.pieces), Book(scope)

    def build(start: Start) -> LockModel:
        return rule.model(world, start, book, apart=rule.apart)

    since = time.process_time()
    sizes = ((begin(world, *history) for history in scope.histories(n)) for n in range(1, changes + 1))
    found = hunt(sizes, build)
    story = told(build(found.start), found.way) if found.start is not None else []
    seconds = time.process_time() - since
    return Result("locks", scope.name, changes, found.starts, found.states, found.transitions, seconds, story)
