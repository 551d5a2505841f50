"""All histories of a scope through one model: that none breaks it, or the shortest way in which one does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import msgspec

from tidelock.simulations.explore.search import Move, System, search

S = TypeVar("S")


class Found(msgspec.Struct, Generic[S]):
    """`start` and `way`: where the shortest counter-example begins and how it goes; None where there is none."""

    starts: int = 0
    states: int = 0
    transitions: int = 0
    start: S | None = None
    way: tuple[Move, ...] = ()


def hunt(sizes: Iterable[Iterable[S]], build: Callable[[S], System], *, common: bool = True) -> Found[S]:
    """`sizes`: all starts, those of the fewest changes first.  A size with a counter-example is the last: of its starts
    the first with the shortest way is told.  `common`: keys mean the same whatever the start."""
    found: Found[S] = Found()
    seen: set[Hashable] = set()
    for starts in sizes:
        for start in starts:
            bound = len(found.way) - 1 if found.start is not None else None
            # What is only looked at up to a bound is not clean, so it must not count as seen.
            outcome = search(build(start), seen if common and bound is None else set(), bound)
            found.starts += 1
            found.states += outcome.states
            found.transitions += outcome.transitions
            if outcome.way is not None:
                found.start, found.way = start, outcome.way
        if found.start is not None:
            break
    return found
