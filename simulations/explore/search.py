"""Breadth-first search of every state that a system can reach, for the shortest way to a broken one.

A system says which moves it has, takes one, or forks first to take another; equal keys mean states that will behave
the same for ever.  Breadth first, so the first way found to a broken state is a shortest one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, Self, TypeAlias

import msgspec

Move: TypeAlias = tuple[Any, ...]  # a verb and what it is done to


class Broken(AssertionError):
    """An invariant does not hold; the text says which and how."""


class System(Protocol):
    def key(self) -> Hashable:
        """All that its future depends on."""

    def moves(self) -> Sequence[Move]:
        """Returns what may happen next; nothing at the end.  Raises Broken where nothing can happen before the end."""

    def take(self, move: Move) -> None:
        """Let it happen.  Raises Broken."""

    def fork(self) -> Self:
        """An independent twin."""


class Outcome(msgspec.Struct):
    """`way`: the moves to a broken state, of which `error` says what broke; None where there is none."""

    states: int
    transitions: int
    way: tuple[Move, ...] | None = None
    error: str = ""


_Way: TypeAlias = "tuple[_Way, Move] | None"


def search(start: System, seen: set[Hashable], most_moves: int | None = None) -> Outcome:
    """Explore all that can come of `start`, no further than `most_moves` away.

    `seen`: keys of states that were seen to, by other searches too; those found here are added.
    """
    key = start.key()
    if key in seen:
        return Outcome(0, 0)
    seen.add(key)
    states, transitions = 1, 0
    frontier: deque[tuple[System, _Way, int]] = deque([(start, None, 0)])
    while frontier:
        system, way, depth = frontier.popleft()
        if depth == most_moves:
            break
        move: Move | None = None
        try:
            moves = system.moves()
            for n, move in enumerate(moves, 1):
                twin = system.fork() if n < len(moves) else system
                transitions += 1
                twin.take(move)
                key = twin.key()
                if key not in seen:
                    seen.add(key)
                    states += 1
                    frontier.append((twin, (way, move), depth + 1))
        except AssertionError as error:  # Broken, or an assertion of the engine
            return Outcome(states, transitions, _moves((way, move) if move else way), str(error))
    return Outcome(states, transitions)


def _moves(way: _Way) -> tuple[Move, ...]:
    out = []
    while way is not None:
        way, move = way
        out.append(move)
    return tuple(reversed(out))
