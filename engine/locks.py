"""The unique-key lock table: orders changes of different lanes that touch a common key (design 5).

A lock is issued at dispatch, in log order, and released when its segment is committed *at the target*.  For each key
the table keeps only its tail: the last exclusive segment and the shared ones after it; whoever comes next waits for
those and becomes the tail.  Everything earlier is reached through them (an exclusive tail waited for all before it),
so a key without conflict costs one dict entry and no object.  A key's entry goes when its tail commits: that is the
design's `wait_count` reaching zero.  `tests/engine/test_locks.py` checks this against a queue per key.

Waiting on one's own lane costs nothing: a lane commits in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.index import Digest, Key
from engine.keys import Moded
from engine.segments import Segment


class _Tail:
    """Tail of a key that has readers: the last exclusive segment, and the shared ones after it."""

    __slots__ = ("exclusive", "shared")

    def __init__(self) -> None:
        self.exclusive: Segment | None = None
        self.shared: list[Segment] = []


class LockTable:
    def __init__(self) -> None:
        self._exclusive: dict[Digest, Segment] = {}
        self._moded: dict[Key, _Tail] = {}
        self.writers = 0  # keys with readers whose last exclusive segment is in flight

    def __len__(self) -> int:
        """How many keys are held."""
        return len(self._exclusive) + len(self._moded)

    def holders(self, keys: Iterable[Digest]) -> dict[Digest, Segment]:
        """Of these exclusive keys, those held by a segment in flight, with it."""
        held = self._exclusive
        return {key: held[key] for key in filter(held.__contains__, keys)} if held else {}  # in the order of `keys`

    def moded_holders(self, keys: list[Moded]) -> list[Segment]:
        """Whom a holder of `keys` would have to follow, oldest first, each once."""
        found: dict[int, Segment] = {}
        for key, exclusive in keys:
            tail = self._moded.get(key)
            if tail is None:
                continue
            if tail.exclusive is not None:
                found[tail.exclusive.order] = tail.exclusive
            if exclusive:
                for segment in tail.shared:
                    found[segment.order] = segment
        return [found[order] for order in sorted(found)]

    def issue(self, segment: Segment) -> None:
        """`segment` holds its exclusive `keys` from now on; it waits for their holders or shares their lane."""
        self._exclusive.update(dict.fromkeys(segment.keys, segment))

    def issue_moded(self, segment: Segment, keys: list[Moded]) -> None:
        for key, exclusive in keys:
            tail = self._moded.get(key)
            if tail is None:
                tail = self._moded[key] = _Tail()
            if exclusive:
                self.writers += tail.exclusive is None
                tail.exclusive = segment
                tail.shared.clear()
            elif tail.exclusive is not segment and (not tail.shared or tail.shared[-1] is not segment):
                tail.shared.append(segment)
        segment.moded.update(dict.fromkeys(keys))

    def release(self, segment: Segment) -> list[int]:
        """`segment` is committed at the target: free its keys, wake its waiters; returns lanes with a freed one."""
        assert not segment.committed, "released twice"
        segment.committed = True
        held = self._exclusive
        for own in segment.keys:
            tail = held.pop(own, None)
            if tail is not segment and tail is not None:
                held[own] = tail
        for key, _ in segment.moded:
            self._release_moded(key, segment)
        woken = []
        for waiter in segment.waiters:
            waiter.blockers -= 1
            assert waiter.blockers >= 0
            if waiter.blockers == 0:
                woken.append(waiter.lane)
        return woken

    def _release_moded(self, key: Key, segment: Segment) -> None:
        tail = self._moded.get(key)
        if tail is None:
            return
        if tail.exclusive is segment:
            tail.exclusive = None
            self.writers -= 1
        tail.shared = [other for other in tail.shared if other is not segment]
        if tail.exclusive is None and not tail.shared:
            del self._moded[key]
