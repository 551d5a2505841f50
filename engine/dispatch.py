"""Planning a window: which lane each change goes to, what it waits for.

1. Changes that share an exclusive key form a conflict group (`groups`).
2. A group with predecessors in flight joins the lane that has most of them (all: nothing has to be waited for); any
   other group goes to the lane that its first change's table and key hash to.  Where lanes are to be filled, a window
   takes only as many as it has rows for, in turn with the windows before it: few changes make one batch, not one a
   lane.  Where there are more tables than lanes, one with few changes in the window stays whole, on the lane that had
   the fewest changes of such tables in the window in which it first came, the same ever after: there it is one
   statement in place of one a lane, and one session opens it, not all.
3. In log order, changes are appended to their lanes in segments; one that must follow a change in flight on another
   lane starts a new segment, which waits (`locks`); so does one that would make a segment longer than a batch may be.

Which lane a change takes is free, as far as exactness goes: locks order what conflicts, on whatever lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from engine.groups import Groups
from engine.hashing import Home, home_of
from engine.index import Digest, Key, digest
from engine.keys import ExclusiveKeys, Moded, ModedKeys, RowKeys
from engine.lanes import Lane
from engine.locks import LockTable
from engine.schema import Binding
from engine.segments import Change, Segment

FEW_PARTS: Final = 2
"""A table has few changes in a window if they are fewer than such a part of a lane's share."""


class Dispatcher:
    """Plans windows of changes onto `lanes`.

    `batch_rows`: changes that a batch may have.  `fill_rows`: a window takes as many lanes as are filled with so many
    changes each; 0: all.  `whole_lanes`: tables that stay whole share the first so many; 0: all.  `locking` may be off
    in one test, to show what the locks are for.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        locks: LockTable,
        *,
        batch_rows: int = 1000,
        fill_rows: int = 0,
        whole_lanes: int = 0,
        locking: bool = True,
    ) -> None:
        self.lanes = lanes
        self.locks = locks
        self.waits = 0
        self._batch_rows = batch_rows
        self._fill_rows = fill_rows
        self._whole_lanes = whole_lanes or len(lanes)
        self._locking = locking
        self._turn = 0  # the lane at which the next window begins
        self._exclusive: dict[Binding, ExclusiveKeys] = {}
        self._moded: dict[Binding, ModedKeys] = {}  # of the tables that have any
        self._homes: dict[Binding, Home] = {}
        self._whole: dict[Binding, int] = {}  # tables that stay whole now and then, each with its lane
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
        self._whole.clear()

    def plan(self, window: int, changes: Sequence[Change]) -> int:
        """Append all `changes` (log order) to lanes.  Returns the number of segments made."""
        exclusive, moded = self._keys_of(changes)
        written = moded if moded is not None and self._writes(moded) else None
        groups = Groups(exclusive if written is None else _with_moded(exclusive, written))
        waits = self._predecessors(groups)
        lane_of = self._lanes(changes, groups.roots, self._lanes_in_flight(groups.roots, waits, written))
        lanes = [lane_of[root] for root in groups.roots]
        longest = _longest(lanes, len(self.lanes), self._batch_rows)
        last: list[Segment | None] = [None] * len(self.lanes)
        read: list[list[Moded] | None] = [None] * len(self.lanes)  # what `last` was given last
        made: list[Segment] = []
        for i, (change, keys, lane) in enumerate(zip(changes, exclusive, lanes, strict=True)):
            segment = last[lane]
            blockers = waits.get(i)
            if written is not None and written[i]:
                blockers = (blockers or []) + self.locks.moded_holders(written[i])
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
            self.locks.issue(segment)
        return len(made)

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
        self, changes: Sequence[Change], roots: Sequence[int], in_flight: dict[int, list[int]]
    ) -> dict[int, int]:
        """Group root → lane: where most of its predecessors are, else where its first change hashes to."""
        homes, count = self._homes, len(self.lanes)
        span, first = min(count, -(-len(changes) // self._fill_rows)) if self._fill_rows else count, self._turn
        whole = self._whole_tables(changes)
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

    def _whole_tables(self, changes: Sequence[Change]) -> dict[Binding, int]:
        """Tables that stay whole in this window, each with its lane."""
        if len(self._homes) <= len(self.lanes):
            return {}
        rows = Counter([change.binding for change in changes])
        if len(rows) <= len(self.lanes):
            return {}
        few = len(changes) // (self._whole_lanes * FEW_PARTS)
        whole = [(table, count) for table, count in rows.items() if count <= few]
        loads = [0] * self._whole_lanes
        for table, count in whole:
            if table in self._whole:
                loads[self._whole[table]] += count
        for table, count in whole:
            if table not in self._whole:
                lane = self._whole[table] = loads.index(min(loads))
                loads[lane] += count
        return {table: self._whole[table] for table, _ in whole}


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
