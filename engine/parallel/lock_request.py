"""Requests for locks that several may hold at once: a key, and the mode in which it is wanted (Gray et al. 1975).

Mode S is shared: its holders do not wait for each other.  Mode X is exclusive: it conflicts with both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tidelock.engine.model.index import Key
from tidelock.engine.model.records import Row

Mode: TypeAlias = bool
S: Final[Mode] = False
X: Final[Mode] = True

LockRequest: TypeAlias = tuple[Key, Mode]
RequestKeys: TypeAlias = Callable[[Row | None, Row | None], list[LockRequest]]
"""Makes the requests of one change, from its before- and after-image."""


def changed(positions: Iterable[int], before: Row, after: Row) -> bool:
    """Returns whether an update changes one of the columns at `positions`; values left alone need no lock."""
    for p in positions:  # noqa: SIM110 - a generator a change is dear
        if before[p] != after[p]:
            return True
    return False


def joined(parts: list[RequestKeys]) -> RequestKeys:
    """Makes the requests of all `parts`: each key once, in mode X if one of them wants it so."""

    def requests(before: Row | None, after: Row | None) -> list[LockRequest]:
        merged: dict[Key, Mode] = {}
        for part in parts:
            for key, mode in part(before, after):
                merged[key] = mode or merged.get(key, S)
        return list(merged.items())

    return requests
