"""Conflict groups: the changes of one planning window that must follow each other, found by union-find.

Changes that share an exclusive key belong to one group and go to one lane, where they fold into one batch: waiting for
a commit on each conflict makes sixteen workers slower than one (measured: TiDB DM), folding makes a hot key cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.model.index import Digest


class ConflictGroups:
    """Changes of a window, joined where they share an exclusive key (union-find: Galler, Fischer 1964).

    `first[key]`: index of the first change of the window that holds `key`.  `roots[i]`: the group of change `i`, named
    by its earliest change.
    """

    __slots__ = ("first", "roots")

    def __init__(self, keys: Sequence[Sequence[Digest]]) -> None:
        """`keys[i]`: digests of the exclusive keys of change `i`."""
        parent = list(range(len(keys)))
        first: dict[Digest, int] = {}
        setdefault = first.setdefault
        joined = False
        for i, own in enumerate(keys):
            for key in own:
                j = setdefault(key, i)
                if j != i:
                    _join(parent, i, j)
                    joined = True
        self.roots = [_root(parent, i) for i in parent] if joined else parent
        self.first = first


def _root(parent: list[int], i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


def _join(parent: list[int], i: int, j: int) -> None:
    i, j = _root(parent, i), _root(parent, j)
    if i < j:
        parent[j] = i
    elif j < i:
        parent[i] = j
