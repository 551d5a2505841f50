"""The unique-key lock table: orders changes of different lanes that touch a common key (design 5).

A lock is issued at dispatch, in log order, and released when its segment is committed *at the target*.  For each key
the table keeps only its tail: the last exclusive segment and the shared ones after it; whoever comes next waits for
those and becomes the tail.  Everything earlier is reached through them (an exclusive tail waited for all before it),
so a key without conflict costs one dict entry and no object.  A key's entry goes when its tail commits: that is the
design's `wait_count` reaching zero.  `tests/engine/test_parallel_lock_table.py` checks this against a queue per key.

Waiting on one's own lane costs nothing: a lane commits in order.

Tables are locked above their keys (multiple granularity, Gray 1975): a segment that has a table *whole* holds no key of
it, and is alone in it but for its own lane, which keeps the order; all others share it, and hold keys.  So whoever has
it whole need not look at the keys of those before, nor those after at its.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.engine.model.index import Digest, Key
from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.lock_keys import Moded
from tidelock.engine.parallel.segments import Segment


class _Tail:
    """Tail of a key that has readers, or of a table: the last exclusive segment, and the shared ones after it."""

    __slots__ = ("exclusive", "shared")

    def __init__(self) -> None:
        self.exclusive: Segment | None = None
        self.shared: list[Segment] = []

    def take(self, segment: Segment, *, exclusive: bool) -> None:
        if exclusive:
            self.exclusive = segment
            self.shared.clear()
        elif self.exclusive is not segment and (not self.shared or self.shared[-1] is not segment):
            self.shared.append(segment)

    def leave(self, segment: Segment) -> bool:
        """Is nobody left?"""
        if self.exclusive is segment:
            self.exclusive = None
        self.shared = [other for other in self.shared if other is not segment]
        return self.exclusive is None and not self.shared


class LockTable:
    def __init__(self) -> None:
        self._exclusive: dict[Digest, Segment] = {}
        self._moded: dict[Key, _Tail] = {}
        self._tables: dict[TableName, _Tail] = {}
        self.writers = 0  # keys with readers whose last exclusive segment is in flight
        self.untold = 0  # segments in flight that were not told of which tables they are

    def __len__(self) -> int:
        """How many keys and tables are held."""
        return len(self._exclusive) + len(self._moded) + len(self._tables)

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
        self.untold += segment.tables is None

    @property
    def tables(self) -> bool:
        """Is one locked?"""
        return bool(self._tables)

    def has_whole(self, table: TableName) -> Segment | None:
        """Whom a change of the table must follow whatever its keys are."""
        tail = self._tables.get(table)
        return None if tail is None else tail.exclusive

    def only_on(self, table: TableName, lane: int) -> bool:
        """Is nothing of the table in flight on another lane?  Then the lane may have it whole, and waits for nobody."""
        if self.untold:
            return False
        tail = self._tables.get(table)
        if tail is None:
            return True
        before = tail.shared if tail.exclusive is None else [tail.exclusive, *tail.shared]
        return all(segment.lane == lane for segment in before)

    def take_tables(self, segment: Segment, tables: Iterable[TableName], *, whole: bool) -> None:
        """`segment` has these tables from now on, before it is issued; once."""
        assert segment.tables is None, "told twice"
        segment.tables = tuple(tables)
        for table in segment.tables:
            tail = self._tables.get(table)
            if tail is None:
                tail = self._tables[table] = _Tail()
            tail.take(segment, exclusive=whole)

    def issue_moded(self, segment: Segment, keys: list[Moded]) -> None:
        for key, exclusive in keys:
            tail = self._moded.get(key)
            if tail is None:
                tail = self._moded[key] = _Tail()
            self.writers += exclusive and tail.exclusive is None
            tail.take(segment, exclusive=exclusive)
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
        if segment.tables is None:
            self.untold -= 1
        else:
            for table in segment.tables:
                if self._tables[table].leave(segment):
                    del self._tables[table]
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
        self.writers -= tail.exclusive is segment
        if tail.leave(segment):
            del self._moded[key]
