"""The unique-key lock table: orders changes of different lanes that touch a common key (design 5).

A lock is issued at dispatch, in log order, and released when its segment is committed *at the target*.  For each key
the table keeps only its tail: the last exclusive segment and the shared ones after it; whoever comes next waits for
those and becomes the tail.  Everything earlier is reached through them (an exclusive tail waited for all before it),
so a key without conflict costs one dict entry and no object.  A key's entry goes when its tail commits: that is the
design's `wait_count` reaching zero.  `tests/engine/test_parallel_lock_table.py` checks this against a queue per key.

Waiting on one's own lane costs nothing: a lane commits in order.

Tables are locked above their keys (multiple granularity, Gray et al. 1975).  A segment that holds a table lock in mode
X holds no key of the table, and no other lane may touch the table meanwhile; its own lane keeps the order.  All other
segments hold the table lock in mode S, and keys.  So the holder of the table lock need not look at the keys of those
before it, nor those behind it at its keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelock.engine.model.index import Digest, Key
from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.lock_request import LockRequest, Mode


class _Tail:
    """Tail of a key that has readers, or of a table: the last holder in mode X, and those in mode S after it."""

    __slots__ = ("exclusive", "shared")

    def __init__(self) -> None:
        self.exclusive: LockHolder | None = None
        self.shared: list[LockHolder] = []

    def take(self, holder: LockHolder, *, mode: Mode) -> None:
        """Puts the holder at the end."""
        if mode:
            self.exclusive = holder
            self.shared.clear()
        elif self.exclusive is not holder and (not self.shared or self.shared[-1] is not holder):
            self.shared.append(holder)

    def leave(self, holder: LockHolder) -> bool:
        """Takes the holder out; returns whether nobody is left."""
        if self.exclusive is holder:
            self.exclusive = None
        self.shared = [other for other in self.shared if other is not holder]
        return self.exclusive is None and not self.shared


class LockTable:
    """The keys and tables that are locked, with their holders.

    `writers`: keys with readers whose last holder in mode X is in flight.  `without_tables`: holders in flight that
    have keys alone, as nobody told of which tables they are.  `waiting`: holders that wait for others.
    """

    def __init__(self) -> None:
        self._exclusive: dict[Digest, LockHolder] = {}
        self._tails: dict[Key, _Tail] = {}  # of keys with readers
        self._tables: dict[TableName, _Tail] = {}
        self.writers = 0
        self.without_tables = 0
        self.waiting = 0

    def __len__(self) -> int:
        """Number of keys and tables that are held."""
        return len(self._exclusive) + len(self._tails) + len(self._tables)

    def holders(self, keys: Iterable[Digest]) -> dict[Digest, LockHolder]:
        """Returns those of these exclusive keys that a holder in flight holds, with the holder."""
        held = self._exclusive
        return {key: held[key] for key in filter(held.__contains__, keys)} if held else {}  # in the order of `keys`

    def predecessors(self, requests: list[LockRequest]) -> list[LockHolder]:
        """Holders that must commit before one that makes these requests: oldest first, each once."""
        found: dict[int, LockHolder] = {}
        for key, mode in requests:
            tail = self._tails.get(key)
            if tail is None:
                continue
            if tail.exclusive is not None:
                found[tail.exclusive.order] = tail.exclusive
            if mode:
                for holder in tail.shared:
                    found[holder.order] = holder
        return [found[order] for order in sorted(found)]

    def issue(self, holder: LockHolder) -> None:
        """Gives `holder` its exclusive `keys`, once; it waits for their holders or shares their lane."""
        self._exclusive.update(dict.fromkeys(holder.keys, holder))
        self.without_tables += holder.tables is None
        self.waiting += holder.pending_predecessors > 0

    def issue_requests(self, holder: LockHolder, requests: list[LockRequest]) -> None:
        """Gives `holder` the locks that it requests; it waits for their `predecessors` or shares their lane."""
        for key, mode in requests:
            tail = self._tails.get(key)
            if tail is None:
                tail = self._tails[key] = _Tail()
            self.writers += mode and tail.exclusive is None
            tail.take(holder, mode=mode)
        holder.requests.update(dict.fromkeys(requests))

    @property
    def tables(self) -> bool:
        """True if a table is locked."""
        return bool(self._tables)

    def table_lock_holder(self, table: TableName) -> LockHolder | None:
        """The last holder with the table lock in mode X: every change of the table must follow it, whatever its keys
        are."""
        tail = self._tables.get(table)
        return None if tail is None else tail.exclusive

    def only_on(self, table: TableName, lane: int) -> bool:
        """Returns whether nothing of the table is in flight on another lane: then this one may have the table lock in
        mode X, and waits for nobody."""
        if self.without_tables:
            return False
        tail = self._tables.get(table)
        if tail is None:
            return True
        before = tail.shared if tail.exclusive is None else [tail.exclusive, *tail.shared]
        return all(holder.lane == lane for holder in before)

    def lock_tables(self, holder: LockHolder, tables: Iterable[TableName], mode: Mode) -> None:
        """Gives `holder` the locks of these tables: before it is issued, and once."""
        assert holder.tables is None, "its tables are locked once"
        holder.tables = tuple(tables)
        for table in holder.tables:
            tail = self._tables.get(table)
            if tail is None:
                tail = self._tables[table] = _Tail()
            tail.take(holder, mode=mode)

    def release(self, holder: LockHolder) -> list[int]:
        """Frees what `holder` holds and wakes its successors: it is committed at the target.

        Returns the lanes that have a holder with no predecessor left, one entry a holder.
        """
        assert not holder.committed, "released twice"
        holder.committed = True
        held = self._exclusive
        for own in holder.keys:
            tail = held.pop(own, None)
            if tail is not holder and tail is not None:
                held[own] = tail
        for key, _ in holder.requests:
            self._release_request(key, holder)
        if holder.tables is None:
            self.without_tables -= 1
        else:
            for table in holder.tables:
                if self._tables[table].leave(holder):
                    del self._tables[table]
        woken = []
        for successor in holder.successors:
            successor.pending_predecessors -= 1
            assert successor.pending_predecessors >= 0
            if successor.pending_predecessors == 0:
                woken.append(successor.lane)
        self.waiting -= len(woken)
        return woken

    def _release_request(self, key: Key, holder: LockHolder) -> None:
        tail = self._tails.get(key)
        if tail is None:
            return
        self.writers -= tail.exclusive is holder
        if tail.leave(holder):
            del self._tails[key]
