"""A set of row numbers from which one can be drawn at random, all in constant time."""

from __future__ import annotations

import random
from collections.abc import Iterator


class Pool:
    """Ordered by insertion and removal alone, so that the same seed draws the same numbers (a `set` would not)."""

    def __init__(self) -> None:
        self._members: list[int] = []
        self._index: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def add(self, member: int) -> None:
        assert member not in self._index, member
        self._index[member] = len(self._members)
        self._members.append(member)

    def remove(self, member: int) -> None:
        """The last member takes the gap; raises `KeyError` for a number that is not in."""
        index = self._index.pop(member)
        last = self._members.pop()
        if last != member:
            self._members[index] = last
            self._index[last] = index

    def draw(self, rng: random.Random) -> int:
        return self._members[int(rng.random() * len(self._members))]

    def sample(self, rng: random.Random, count: int) -> list[int]:
        """`count` different members (fewer only where the pool is smaller)."""
        return rng.sample(self._members, min(count, len(self._members)))
