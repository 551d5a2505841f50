"""Planning a window: which lane each change goes to, what it waits for.

1. Changes that share an exclusive key form a conflict group (`groups`).
2. A group with predecessors in flight joins the lane that has most of them (all: nothing has to be waited for); any
   other group goes to the lane that its first change's table and key hash to.  Where lanes are to be filled, a window
   takes only as many as it has rows for, in turn with the windows before it: few changes make one batch, not one a
   lane.  Tables with few changes may stay whole, on a lane of their own (`whole`).
3. In log order, changes are appended to their lanes in segments; one that must follow a change in flight on another
   lane starts a new segment, which waits (`locks`); so does one that would make a segment longer than a batch may be.

Before all that: a table that stays whole, has no key with readers (which other tables, or copies, may hold too), and
has nothing in flight on other lanes, needs none of it.  Its changes are appended to its lane as they are, and the lane
has the table whole until they commit: who comes later on another lane waits, whatever the keys.  Such a segment waits
for nobody.

Which lane a change takes is free, as far as exactness goes: locks order what conflicts, on whatever lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tidelock.engine.model.hashing import Home, home_of
from tidelock.engine.model.index import Digest, Key, digest
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.conflict_groups import Groups
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.lock_keys import ExclusiveKeys, Moded, ModedKeys, RowKeys
from tidelock.engine.parallel.lock_table import LockTable
from tidelock.engine.parallel.segments import Change, Segment
from tidelock.engine.parallel.table_affinity import WholeTables


class Dispatcher:
    """Plans windows of changes onto `lanes`.

    `batch_rows`: changes that a batch may have.  `min_rows_per_lane`: a window takes as many lanes as are filled with
    so many changes each; 0: all.  `whole_lanes`: tables that stay whole share the first so many; 0: all.  `locking` may
    be off in one test, to show what the locks are for.
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
        self._whole = WholeTables(whole_lanes or len(lanes))
        self._locking = locking
        self._turn = 0  # the lane at which the next window begins
        self._exclusive: dict[Binding, ExclusiveKeys] = {}
        self._moded: dict[Binding, ModedKeys] = {}  # of the tables that have any
        self._homes: dict[Binding, Home] = {}
        self._order = 0

    def bind(self, binding: Binding, keys: RowKeys) -> None:
        self._exclusive[binding] = keys.exclusive
        if keys.moded is not None:
            self._moded[binding] = keys.moded
        self._homes[binding] = home_of(binding)

    def unbind(self) -> None:
        """No change of the tables that were bound comes any more."""
        self._exclusive.clear()
        self._moded.clear()
        self._homes.clear()
        self._whole.forget()

    def plan(self, window: int, changes: Sequence[Change]) -> int:
        """Append all `changes` (log order) to lanes.  Returns the number of segments made."""
        whole: dict[Binding, int] = {}
        blocks: dict[Binding, list[Change]] = {}
        if len(self._homes) > len(self.lanes):
            rows = Counter([change.binding for change in changes])
            if len(rows) > len(self.lanes):
                whole = self._whole.of(rows)
                blocks, changes = self._blocks(changes, rows, whole)
        made = self._plan_blocks(window, blocks, whole)
        if changes:
            made += self._plan_rows(window, changes, whole)
        return made

    def _blocks(
        self, changes: Sequence[Change], rows: Iterable[Binding], whole: dict[Binding, int]
    ) -> tuple[dict[Binding, list[Change]], Sequence[Change]]:
        """By table: the changes of those that their lane can have whole; and all others.  `rows`: all tables that the
        window has changes of; one that comes under two shapes is left out, as these need not be on one lane."""
        if not self._locking:
            return {}, changes
        names = Counter([table.target.name for table in rows])
        blocks: dict[Binding, list[Change]] = {
            table: []
            for table, lane in whole.items()
            if table not in self._moded
            and names[table.target.name] == 1
            and self.locks.only_on(table.target.name, lane)
        }
        if not blocks:
            return blocks, changes
        rest: list[Change] = []
        for change in changes:
            blocks.get(change.binding, rest).append(change)
        return blocks, rest

    def _plan_blocks(self, window: int, blocks: dict[Binding, list[Change]], whole: dict[Binding, int]) -> int:
        last: dict[int, Segment] = {}
        tables: dict[Segment, dict[TableName, None]] = {}
        for table, changes in blocks.items():
            lane, most = whole[table], self._batch_rows
            for start in range(0, len(changes), most):
                part = changes if len(changes) <= most else changes[start : start + most]
                segment = last.get(lane)
                if segment is None or len(segment.changes) + len(part) > most:
                    segment = last[lane] = self._segment(lane, window, ())
                    tables[segment] = {}
                segment.changes += part
                tables[segment][table.target.name] = None
        for segment, names in tables.items():
            self.locks.take_tables(segment, names, whole=True)
            self.locks.issue(segment)
        return len(tables)

    def _plan_rows(self, window: int, changes: Sequence[Change], whole: dict[Binding, int]) -> int:
        exclusive, moded = self._keys_of(changes)
        written = moded if moded is not None and self._writes(moded) else None
        told = self._locking and (len(self._homes) > len(self.lanes) or self.locks.tables)
        having = self._having_whole(changes) if told else {}
        groups = Groups(exclusive if written is None else _with_moded(exclusive, written))
        waits = self._predecessors(groups)
        lane_of = self._lanes(changes, groups.roots, self._lanes_in_flight(groups.roots, waits, written), whole)
        lanes = [lane_of[root] for root in groups.roots]
        longest = _longest(lanes, len(self.lanes), self._batch_rows)
        last: list[Segment | None] = [None] * len(self.lanes)
        read: list[list[Moded] | None] = [None] * len(self.lanes)  # what `last` was given last
        followed: list[dict[Segment, None]] = [{} for _ in self.lanes]  # by lane, of `having`: once for all behind
        made: list[Segment] = []
        for i, (change, keys, lane) in enumerate(zip(changes, exclusive, lanes, strict=True)):
            segment = last[lane]
            blockers = waits.get(i)
            if written is not None and written[i]:
                blockers = (blockers or []) + self.locks.moded_holders(written[i])
            if having and (first := having.get(change.binding)) is not None and first not in followed[lane]:
                followed[lane][first] = None
                blockers = [*(blockers or ()), first]
            if blockers:
                blockers = [s for s in dict.fromkeys(blockers) if s.lane != lane]
            if segment is None or blockers or len(segment.changes) >= longest[lane]:
                segment = last[lane] = self._segment(lane, window, blockers or ())
                made.append(segment)
                read[lane] = None
            segment.changes.append(change)
            segment.keys += keys
            if moded is not None and moded[i] and moded[i] is not read[lane]:
                self.locks.issue_moded(segment, moded[i])
                read[lane] = moded[i]
        for segment in made:
            if told:
                tables = dict.fromkeys([change.binding for change in segment.changes])
                self.locks.take_tables(segment, dict.fromkeys([table.target.name for table in tables]), whole=False)
            self.locks.issue(segment)
        return len(made)

    def _having_whole(self, changes: Sequence[Change]) -> dict[Binding, Segment]:
        """Tables that a segment in flight has whole, with it."""
        tables = dict.fromkeys([change.binding for change in changes])
        return {table: first for table in tables if (first := self.locks.has_whole(table.target.name)) is not None}

    def plan_whole(self, window: int, changes: Sequence[Change], lane: int) -> int:
        """Append all `changes` to `lane` as one segment: whole transactions that run and commit together."""
        exclusive, moded = self._keys_of(changes)
        keys = [key for own in exclusive for key in own]
        modes: dict[Key, bool] = {}
        for own_modes in moded or ():
            for key, is_exclusive in own_modes:
                modes[key] = is_exclusive or modes.get(key, False)
        blockers = [*self.locks.holders(keys).values(), *self.locks.moded_holders(list(modes.items()))]
        segment = self._segment(lane, window, [s for s in dict.fromkeys(blockers) if s.lane != lane])
        segment.changes += changes
        segment.keys += dict.fromkeys(keys)
        self.locks.issue_moded(segment, list(modes.items()))
        self.locks.issue(segment)
        return 1

    def plan_alone(self, window: int, lane: Lane, keys: list[Moded]) -> None:
        """Append a segment without changes to `lane`, which is none of ours: it follows everything planned before, and
        whoever touches `keys` later follows it."""
        queues = [[*other.running, *other.queue] for other in self.lanes]
        segment = self._follow(Segment(self._order, lane.number, window), [queue[-1] for queue in queues if queue])
        lane.append(segment)
        self.locks.issue_moded(segment, keys)
        self.locks.take_tables(segment, (), whole=False)  # where it is needed, rows hold a key that `keys` has
        self.locks.issue(segment)

    def _segment(self, lane: int, window: int, blockers: Sequence[Segment]) -> Segment:
        segment = self._follow(Segment(self._order, lane, window), blockers)
        self.lanes[lane].append(segment)
        return segment

    def _follow(self, segment: Segment, blockers: Sequence[Segment]) -> Segment:
        self._order += 1
        for blocker in blockers:
            segment.wait_for(blocker)
        self.waits += len(blockers)
        return segment

    def _keys_of(self, changes: Sequence[Change]) -> tuple[list[list[Digest]], list[list[Moded]] | None]:
        """Exclusive and moded keys by change; None for the moded ones where no table of the window has any."""
        if not self._locking:
            return [[] for _ in changes], None
        of, moded = self._exclusive, self._moded
        exclusive = [of[c.binding](c.before, c.after) for c in changes]
        if not moded or moded.keys().isdisjoint([c.binding for c in changes]):
            return exclusive, None
        return exclusive, [keys(c.before, c.after) if (keys := moded.get(c.binding)) else [] for c in changes]

    def _writes(self, moded: list[list[Moded]]) -> bool:
        """Is a key with readers written, in this window or in flight?  Else its readers wait for nobody."""
        return self.locks.writers > 0 or any(exclusive for own in moded if own for _, exclusive in own)

    def _predecessors(self, groups: Groups) -> dict[int, list[Segment]]:
        """Change index → segments in flight from earlier windows that it must follow, by exclusive keys."""
        waits: dict[int, list[Segment]] = {}
        for key, segment in self.locks.holders(groups.first).items():
            waits.setdefault(groups.first[key], []).append(segment)
        return waits

    def _lanes_in_flight(
        self, roots: Sequence[int], waits: dict[int, list[Segment]], moded: list[list[Moded]] | None
    ) -> dict[int, list[int]]:
        """Group root → lanes on which its predecessors are in flight, one entry a predecessor."""
        lanes: dict[int, list[int]] = {}
        for i, segments in waits.items():
            lanes.setdefault(roots[i], []).extend([s.lane for s in segments])
        if moded is not None:
            for i, keys in enumerate(moded):
                if keys and (holders := self.locks.moded_holders(keys)):
                    lanes.setdefault(roots[i], []).extend([s.lane for s in holders if s.lane < len(self.lanes)])
        return lanes

    def _lanes(
        self,
        changes: Sequence[Change],
        roots: Sequence[int],
        in_flight: dict[int, list[int]],
        whole: dict[Binding, int],
    ) -> dict[int, int]:
        """Group root → lane: where most of its predecessors are, else where its first change hashes to."""
        homes, count = self._homes, len(self.lanes)
        span, first = min(count, -(-len(changes) // self._fill_rows)) if self._fill_rows else count, self._turn
        self._turn = (first + span) % count
        lanes = {
            root: (homes[change.binding](change.before or change.after) % span + first) % count
            if (lane := whole.get(change.binding)) is None
            else lane
            for i, (root, change) in enumerate(zip(roots, changes, strict=True))
            if i == root
        }
        for root, before in in_flight.items():
            if not before:
                continue
            lanes[root] = max(before, key=before.count) if len(before) > 1 else before[0]
        return lanes


def _longest(lanes: Iterable[int], count: int, batch_rows: int) -> list[int]:
    """By lane: how many changes a segment may have, so that no batch is too long and none a short rest."""
    rows = Counter(lanes)
    batches = [-(-rows[lane] // batch_rows) for lane in range(count)]
    return [-(-rows[lane] // batches[lane]) if rows[lane] else 0 for lane in range(count)]


def _with_moded(exclusive: list[list[Digest]], moded: list[list[Moded]]) -> list[list[Digest]]:
    return [
        [*own, *(digest(key) for key, is_exclusive in more if is_exclusive)] if more else own
        for own, more in zip(exclusive, moded, strict=True)
    ]
