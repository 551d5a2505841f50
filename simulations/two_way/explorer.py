"""Breadth-first search of every state of a small world, for the shortest history that breaks what is promised.

A world is pure: a state is a tuple, and its steps are pairs of a word and the next state, or of a word and a text where
the step itself breaks a promise.  What was seen is kept as state → the state before it; the words of a history are
found again at the end, so that a million states cost no words.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol, TypeAlias, TypeVar

import msgspec

Word: TypeAlias = str
S = TypeVar("S", bound=Hashable)
Told: TypeAlias = Callable[[int, int], None]  # states so far, steps from the start

EVERY = 20_000


class World(Protocol[S]):
    """A small world."""

    def start(self) -> S:
        """Returns the first state."""

    def steps(self, state: S) -> Iterator[tuple[Word, S | str]]:
        """Yields what may happen next: a word and the state then, or what is wrong with the step."""

    def wrong(self, state: S) -> str:
        """Returns which promise the state breaks; '' where none."""


class Found(msgspec.Struct, frozen=True):
    """`error`: what is broken, '' where nothing is; `story`: the shortest history to it, a step a line."""

    states: int
    steps: int
    seconds: float
    error: str = ""
    story: tuple[Word, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.error


def explore(world: World[S], told: Told | None = None) -> Found:
    """Look at every state of the world.  `told` hears of the progress every EVERY states.

    States hold no cycles, so nobody looks for any meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return _explored(world, told)
    finally:
        if collects:
            gc.enable()


def _explored(world: World[S], told: Told | None) -> Found:
    began = time.process_time()
    start = world.start()
    before: dict[S, S | None] = {start: None}
    frontier, depth, steps = [start], 0, 0

    def found(error: str = "", story: tuple[Word, ...] = ()) -> Found:
        return Found(len(before), steps, time.process_time() - began, error, story)

    while frontier:
        later: list[S] = []
        for state in frontier:
            if error := world.wrong(state):
                return found(error, _story(world, before, state))
            for word, after in world.steps(state):
                steps += 1
                if isinstance(after, str):
                    return found(after, (*_story(world, before, state), word))
                if after not in before:
                    before[after] = state
                    later.append(after)
                    if told is not None and len(before) % EVERY == 0:
                        told(len(before), depth)
        frontier, depth = later, depth + 1
    return found()


def _story(world: World[S], before: dict[S, S | None], state: S) -> tuple[Word, ...]:
    words: list[Word] = []
    while (earlier := before[state]) is not None:
        words.append(next(word for word, after in world.steps(earlier) if after == state))
        state = earlier
    return tuple(reversed(words))
