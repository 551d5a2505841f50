"""List of what is explored at each size, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

import msgspec

from tidelock.simulations.explore import chunk_story, fence_story, scopes
from tidelock.simulations.explore.book import Book
from tidelock.simulations.explore.chunk_rules import CHUNK_RULES
from tidelock.simulations.explore.chunks import ChunkModel, Story, stories
from tidelock.simulations.explore.fence import FenceModel
from tidelock.simulations.explore.fence_rules import FENCE_RULES
from tidelock.simulations.explore.fence_state import OPTIONS, Source
from tidelock.simulations.explore.heard import Tree
from tidelock.simulations.explore.histories import Scope
from tidelock.simulations.explore.hunt import hunt
from tidelock.simulations.explore.locks import LockModel, Start, begin
from tidelock.simulations.explore.rules import RULES, Rule
from tidelock.simulations.explore.search import search
from tidelock.simulations.explore.story import told
from tidelock.simulations.explore.world import World

# Scopes of the lock model with the number of changes up to which all their histories are explored.
SIZES: dict[str, tuple[tuple[Callable[[], Scope], int], ...]] = {
    "quick": (
        (scopes.one_value, 2),
        (scopes.one_unique, 2),
        (scopes.three_rows, 3),
        (scopes.two_uniques, 2),
        (scopes.parents, 2),
        (scopes.children, 2),
    ),
    "small": (
        (scopes.one_value, 3),
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
    """`histories`: how many were explored, of up to `changes` changes (those of a counter-example, if there is one).
    `seconds` of processor time.  `story`: the shortest counter-example as a transcript, empty where there is none."""

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


# Logs of the fence model: all of up to so many entries, and some that are longer.
LOGS: dict[str, tuple[int, tuple[str, ...]]] = {
    "quick": (2, ()),
    "small": (2, ("aab", "Tab")),
    "full": (3, ("aTbT", "abTa", "aabb")),
}


# Histories of the chunk model: each so-manieth of one change, and of two.
COPIES: dict[str, tuple[int, int]] = {"quick": (4, 126), "small": (1, 48), "full": (1, 1)}


def run(size: str = "small") -> Iterator[Result]:
    """Explore everything of this size.  Raises KeyError for a size that there is not."""
    for make, changes in SIZES[size]:
        yield locks(make(), changes)
    longest, more = LOGS[size]
    yield fence([*logs(longest), list(more)])
    yield chunks(copies(size))


def without(rule: str) -> Result:
    """The shortest counter-example once this rule is broken.  Raises KeyError for a rule that there is not."""
    if rule in CHUNK_RULES:
        story = CHUNK_RULES[rule].story
        found = chunks(stories(1) if story is None else [[story]], CHUNK_RULES[rule].model)
    elif rule in FENCE_RULES:
        found = fence(logs(MOST_TO_BREAK), FENCE_RULES[rule].model)
    else:
        found = locks(RULES[rule].scope(), MOST_TO_BREAK, RULES[rule])
    return msgspec.structs.replace(found, scope=f"without {rule}")


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
    story: list[str] = []
    if found.start is not None:
        changes = len(found.start.drafts)
        story = told(build(found.start), found.way)
    seconds = time.process_time() - since
    return Result("locks", scope.name, changes, found.starts, found.states, found.transitions, seconds, story)


def logs(longest: int) -> Iterator[list[str]]:
    """All of each length, with `a` before `b`."""
    for length in range(1, longest + 1):
        every = ("".join(letters) for letters in product("abT", repeat=length))
        yield [log for log in every if "b" not in log or -1 < log.find("a") < log.find("b")]


def copies(size: str) -> Iterator[list[Story]]:
    (one, two), (first, second) = stories(2), COPIES[size]
    yield one[::first]
    yield two[::second]


def chunks(sizes: Iterable[Sequence[Story]], model: type[ChunkModel] = ChunkModel) -> Result:
    """These histories through the chunk model, each with a death of the owner."""
    changes = 0

    def build(history: Story) -> ChunkModel:
        nonlocal changes
        changes = max(changes, len(history.drafts))
        return model(history)

    since = time.process_time()
    found = hunt(sizes, build, common=False)
    story = chunk_story.told(build(found.start), found.way) if found.start is not None else []
    seconds = time.process_time() - since
    return Result("chunks", "two chunks", changes, found.starts, found.states, found.transitions, seconds, story)


def fence(sizes: Iterable[Sequence[str]], model: type[FenceModel] = FenceModel) -> Result:
    """These logs through the fence model, each with a crash and an answer that is lost."""
    longest = 0

    def build(log: str) -> FenceModel:
        nonlocal longest
        longest = max(longest, len(log))
        return model(Source(log), Tree(OPTIONS))

    since = time.process_time()
    found = hunt(sizes, build, common=False)
    story: list[str] = []
    if found.start is not None:
        start = build(found.start)  # its moves name machines by the numbers of its own tree, so it is searched again
        story = fence_story.told(start, search(start.fork(), set()).way or ())
    seconds = time.process_time() - since
    return Result("fence", "one table", longest, found.starts, found.states, found.transitions, seconds, story)
