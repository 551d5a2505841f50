"""Planning a window: which lane each change goes to, what it waits for.

1. Changes that share an exclusive key form a conflict group (`conflict_groups`).
2. A group with predecessors in flight joins the lane that has most of them (all: nothing has to be waited for); any
   other group goes to the lane that its first change's table and key hash to.  Where lanes are to be filled, a window
   takes only as many as it has rows for, in turn with the windows before it: few changes make one batch, not one a
   lane.  Tables with few changes may have a lane of their own (`table_affinity`).
3. In log order, changes are appended to their lanes in segments; one that must follow a change in flight on another
   lane starts a new segment, which waits (`lock_table`); so does one that would make a segment longer than a batch may
   be.

Before all that: a table with a lane of its own, no key with readers (which other tables, or copies, may hold too), and
nothing in flight on other lanes needs none of it.  Its changes are appended to its lane as they are.  The lane holds
the table lock in mode X until they commit: who comes later on another lane waits, whatever the keys.  Such a segment
waits for nobody.

Which lane a change takes is free, as far as exactness goes: locks order what conflicts, on whatever lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelock.engine.model.hashing import Home, home_of
from tidelock.engine.model.index import Digest, Index, Key, digest
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.conflict_groups import ConflictGroups
from tidelock.engine.parallel.key_codegen import ExclusiveKeys
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_holder import LockHolder
from tidelock.engine.parallel.lock_keys import RowKeys
from tidelock.engine.parallel.lock_request import LockRequest, Mode, RequestKeys, S, X
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import LOCAL, Change, Segment
from tidelock.engine.parallel.table_affinity import TableAffinity


class Dispatcher:
    """Plans windows of changes onto `lanes`.

    `waits`: how many waits for a segment of another lane were planned, ever.  `batch_rows`: changes that a batch may
    have.  `min_rows_per_lane`: a window takes as many lanes as are filled with so many changes each; 0: all.
    `whole_lanes`: tables with a lane of their own share the first so many; 0: all.  `locking` may be off in one test,
    to show what the locks are for.  `provenance`: of the changes that are planned next.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        locks: LockTable,
        *,
        batch_rows: int = 1000,
        min_rows_per_lane: int = 0,
        whole_lanes: int = 0,
        locking: bool = True,
    ) -> None:
        self.lanes = lanes
        self.locks = locks
        self.waits = 0
        self._batch_rows = batch_rows
        self._fill_rows = min_rows_per_lane
        self._affinity = TableAffinity(whole_lanes or len(lanes))
        self._locking = locking
        self._turn = 0  # the lane at which the next window begins
        self._exclusive: dict[Binding, ExclusiveKeys] = {}
        self._requests: dict[Binding, RequestKeys] = {}  # of the tables that have any
        self._homes: dict[Binding, Home] = {}
        self._indexes: dict[Binding, Sequence[Index]] = {}
        self._order = 0
        self.provenance = LOCAL

    def bind(self, binding: Binding, keys: RowKeys) -> None:
        """Locks the binding's changes by `keys` from now on."""
        self._exclusive[binding] = keys.exclusive
        if keys.requests is not None:
            self._requests[binding] = keys.requests
        self._homes[binding] = home_of(binding)
        self._indexes[binding] = keys.indexes

    def unbind(self) -> None:
        """Forgets all bindings: no change of them comes any more."""
        self._exclusive.clear()
        self._requests.clear()
        self._homes.clear()
        self._indexes.clear()
        self._affinity.forget()

    def plan(self, window: int, changes: Sequence[Change]) -> int:
        """Appends all `changes` (log order) to lanes.  Returns the number of segments made."""
        affinity: dict[Binding, int] = {}
        blocks: dict[Binding, list[Change]] = {}
        if len(self._homes) > len(self.lanes):
            rows = Counter([change.binding for change in changes])
            if len(rows) > len(self.lanes):
                affinity = self._affinity.lanes(rows)
                blocks, changes = self._blocks(changes, rows, affinity)
        made = self._plan_blocks(window, blocks, affinity)
        if changes:
            made += self._plan_rows(window, changes, affinity)
        return made

    def _blocks(
        self, changes: Sequence[Change], rows: Iterable[Binding], affinity: dict[Binding, int]
    ) -> tuple[dict[Binding, list[Change]], Sequence[Change]]:
        """Changes by table, of those whose lane can have the table lock in mode X; and all other changes.

        `rows`: all tables that the window has changes of; one that comes under two shapes is left out, as these need
        not be on one lane.
        """
        if not self._locking:
            return {}, changes
        names = Counter([table.target.name for table in rows])
        blocks: dict[Binding, list[Change]] = {
            table: []
            for table, lane in affinity.items()
            if table not in self._requests
            and names[table.target.name] == 1
            and self.locks.only_on(table.target.name, lane)
        }
        if not blocks:
            return blocks, changes
        rest: list[Change] = []
        for change in changes:
            blocks.get(change.binding, rest).append(change)
        return blocks, rest

    def _plan_blocks(self, window: int, blocks: dict[Binding, list[Change]], affinity: dict[Binding, int]) -> int:
        last: dict[int, Segment] = {}
        tables: dict[Segment, dict[TableName, None]] = {}
        for table, changes in blocks.items():
            lane, most = affinity[table], self._batch_rows
            for start in range(0, len(changes), most):
                part = changes if len(changes) <= most else changes[start : start + most]
                segment = last.get(lane)
                if segment is None or len(segment.changes) + len(part) > most:
                    segment = last[lane] = self._segment(lane, window, ())
                    tables[segment] = {}
                segment.changes += part
                tables[segment][table.target.name] = None
        for segment, names in tables.items():
            self.locks.lock_tables(segment.holder, names, X)
            self.locks.issue(segment.holder)
        return len(tables)

    def _plan_rows(self, window: int, changes: Sequence[Change], affinity: dict[Binding, int]) -> int:
        exclusive, requests = self._keys_of(changes)
        written = requests if requests is not None and self._writes(requests) else None
        locks_tables = self._locking and (len(self._homes) > len(self.lanes) or self.locks.tables)
        holders = self._table_lock_holders(changes) if locks_tables else {}
        groups = ConflictGroups(exclusive if written is None else _with_writes(exclusive, written))
        waits = self._predecessors(groups)
        lane_of = self._lanes(changes, groups.roots, self._lanes_in_flight(groups.roots, waits, written), affinity)
        lanes = [lane_of[root] for root in groups.roots]
        longest = _longest(lanes, len(self.lanes), self._batch_rows)
        last: list[Segment | None] = [None] * len(self.lanes)
        read: list[list[LockRequest] | None] = [None] * len(self.lanes)  # what `last` was given last
        followed: list[dict[LockHolder, None]] = [{} for _ in self.lanes]  # by lane, of `holders`: once for all behind
        made: list[Segment] = []
        for i, (change, keys, lane) in enumerate(zip(changes, exclusive, lanes, strict=True)):
            segment = last[lane]
            predecessors = waits.get(i)
            if written is not None and written[i]:
                predecessors = (predecessors or []) + self.locks.predecessors(written[i])
            if holders and (first := holders.get(change.binding)) is not None and first not in followed[lane]:
                followed[lane][first] = None
                predecessors = [*(predecessors or ()), first]
            if predecessors:
                predecessors = [s for s in dict.fromkeys(predecessors) if s.lane != lane]
            if segment is None or predecessors or len(segment.changes) >= longest[lane]:
                segment = last[lane] = self._segment(lane, window, predecessors or ())
                made.append(segment)
                read[lane] = None
            segment.changes.append(change)
            segment.keys += keys
            if requests is not None and requests[i] and requests[i] is not read[lane]:
                self.locks.issue_requests(segment.holder, requests[i])
                read[lane] = requests[i]
        for segment in made:
            if locks_tables:
                tables = dict.fromkeys([change.binding for change in segment.changes])
                self.locks.lock_tables(segment.holder, dict.fromkeys([table.target.name for table in tables]), S)
            self.locks.issue(segment.holder)
        return len(made)

    def _table_lock_holders(self, changes: Sequence[Change]) -> dict[Binding, LockHolder]:
        """Tables whose lock a segment in flight holds in mode X, with it."""
        tables = dict.fromkeys([change.binding for change in changes])
        holders = ((table, self.locks.table_lock_holder(table.target.name)) for table in tables)
        return {table: holder for table, holder in holders if holder is not None}

    def plan_transactions(self, window: int, changes: Sequence[Change], lane: int) -> int:
        """Appends all `changes` to `lane` as one segment: whole transactions that run and commit together.  Returns the
        number of segments made, which is 1."""
        exclusive, requests = self._keys_of(changes)
        keys = [key for own in exclusive for key in own]
        modes: dict[Key, Mode] = {}
        for own_requests in requests or ():
            for key, mode in own_requests:
                modes[key] = mode or modes.get(key, S)
        predecessors = [*self.locks.holders(keys).values(), *self.locks.predecessors(list(modes.items()))]
        segment = self._segment(lane, window, [s for s in dict.fromkeys(predecessors) if s.lane != lane])
        segment.changes += changes
        segment.keys += dict.fromkeys(keys)
        self.locks.issue_requests(segment.holder, list(modes.items()))
        self.locks.issue(segment.holder)
        return 1

    def plan_alone(self, window: int, lane: Lane, requests: list[LockRequest]) -> None:
        """Appends a segment without changes to `lane`, which is none of ours: it follows everything planned before, and
        whoever's requests conflict with its own later follows it."""
        queues = [[*other.running, *other.queue] for other in self.lanes]
        last = [queue[-1].holder for queue in queues if queue]
        segment = self._follow(Segment(self._order, lane.number, window), last)
        lane.append(segment)
        self.locks.issue_requests(segment.holder, requests)
        self.locks.lock_tables(segment.holder, (), S)  # where it is needed, rows request a key that `requests` has
        self.locks.issue(segment.holder)

    def _segment(self, lane: int, window: int, predecessors: Sequence[LockHolder]) -> Segment:
        segment = self._follow(Segment(self._order, lane, window), predecessors)
        segment.provenance = self.provenance
        self.lanes[lane].append(segment)
        return segment

    def _follow(self, segment: Segment, predecessors: Sequence[LockHolder]) -> Segment:
        self._order += 1
        for predecessor in predecessors:
            segment.holder.wait_for(predecessor)
        self.waits += len(predecessors)
        return segment

    def _keys_of(self, changes: Sequence[Change]) -> tuple[list[list[Digest]], list[list[LockRequest]] | None]:
        """Exclusive keys by change, and requests by change; None for these where no table of the window has any."""
        if not self._locking:
            return [[] for _ in changes], None
        of, requests = self._exclusive, self._requests
        exclusive = [of[c.binding](c.before, c.after) for c in changes]
        if not requests or requests.keys().isdisjoint([c.binding for c in changes]):
            return exclusive, None
        return exclusive, [keys(c.before, c.after) if (keys := requests.get(c.binding)) else [] for c in changes]

    def keys_of(self, changes: Sequence[Change]) -> list[list[tuple[Digest, bool]]]:
        """Returns for each change the keys that it locks, and whether for itself alone."""
        exclusive, requests = self._keys_of(changes)
        keys = [[(key, True) for key in own] for own in exclusive]
        for own, more in zip(keys, requests or (), strict=False):
            own += [(digest(key), bool(mode)) for key, mode in more]
        return keys

    def indexes_of(self, binding: Binding) -> Sequence[Index]:
        """Returns the indexes that its rows' exclusive keys are of, that of the table's key first."""
        return self._indexes.get(binding, ())

    def _writes(self, requests: list[list[LockRequest]]) -> bool:
        """Returns whether a key with readers is wanted in mode X, in this window or in flight; else readers wait for
        nobody."""
        return self.locks.writers > 0 or any(mode for own in requests if own for _, mode in own)

    def _predecessors(self, groups: ConflictGroups) -> dict[int, list[LockHolder]]:
        """Change index → segments in flight from earlier windows that it must follow, by exclusive keys."""
        waits: dict[int, list[LockHolder]] = {}
        for key, segment in self.locks.holders(groups.first).items():
            waits.setdefault(groups.first[key], []).append(segment)
        return waits

    def _lanes_in_flight(
        self, roots: Sequence[int], waits: dict[int, list[LockHolder]], requests: list[list[LockRequest]] | None
    ) -> dict[int, list[int]]:
        """Group root → lanes on which its predecessors are in flight, one entry a predecessor."""
        lanes: dict[int, list[int]] = {}
        for i, segments in waits.items():
            lanes.setdefault(roots[i], []).extend([s.lane for s in segments])
        if requests is not None:
            for i, keys in enumerate(requests):
                if keys and (holders := self.locks.predecessors(keys)):
                    lanes.setdefault(roots[i], []).extend([s.lane for s in holders if s.lane < len(self.lanes)])
        return lanes

    def _lanes(
        self,
        changes: Sequence[Change],
        roots: Sequence[int],
        in_flight: dict[int, list[int]],
        affinity: dict[Binding, int],
    ) -> dict[int, int]:
        """Group root → lane: that of most of its predecessors, else the table's own, else the hash of its first key."""
        homes, count = self._homes, len(self.lanes)
        span, first = min(count, -(-len(changes) // self._fill_rows)) if self._fill_rows else count, self._turn
        self._turn = (first + span) % count
        lanes: dict[int, int] = {}
        for i, (root, change) in enumerate(zip(roots, changes, strict=True)):
            if i != root:
                continue
            table = change.binding
            lane = affinity.get(table)
            if lane is None:
                key = table.identity(change.before or change.after)  # type: ignore[arg-type]
                lane = (homes[table](key) % span + first) % count
            lanes[root] = lane
        for root, before in in_flight.items():
            if not before:
                continue
            lanes[root] = max(before, key=before.count) if len(before) > 1 else before[0]
        return lanes


def _longest(lanes: Iterable[int], count: int, batch_rows: int) -> list[int]:
    """Number of changes that a segment of each lane may have: equal batches, none longer than a batch may be."""
    rows = Counter(lanes)
    batches = [-(-rows[lane] // batch_rows) for lane in range(count)]
    return [-(-rows[lane] // batches[lane]) if rows[lane] else 0 for lane in range(count)]


def _with_writes(exclusive: list[list[Digest]], requests: list[list[LockRequest]]) -> list[list[Digest]]:
    """The exclusive keys of each change, with the digests of those that it requests in mode X."""
    return [
        [*own, *(digest(key) for key, mode in more if mode)] if more else own
        for own, more in zip(exclusive, requests, strict=True)
    ]
