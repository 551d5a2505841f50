"""The lock table's invariants: whoever waits, waits for an earlier one that is under way; counts are right; no lock is
held by nobody; nobody's lock is missing; nothing is held when all is drained.

Waits point back in the log only, so there is no cycle.  `deepest`: the longest chain of waits seen.
"""

from __future__ import annotations

from typing import Any

from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.engine.batch.scheduler import BatchScheduler
from tidelock.engine.parallel.lanes import Lane
from tidelock.engine.parallel.segments import Segment
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.ledger import Mistake

EVERY = 4  # steps between two looks


class Locks(Checker):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.chains: dict[int, None] = {}
        self.having = 0  # segments seen that held table locks in mode X
        self.waiting = 0  # segments seen that waited for one of those
        self._steps = 0

    def stepped(self, machine: ApplyMachine) -> None:
        self._steps += 1
        if self._steps % EVERY or machine.state is not State.FLOWING or not machine.batches.rows:
            return
        self._inspect(machine.batches, [*machine.batches.lanes, machine.copying.lane])

    def _inspect(self, batches: BatchScheduler, lanes: list[Lane]) -> None:
        live: dict[int, Segment] = {}
        for lane in lanes:
            segments = [*lane.running, *lane.queue]
            orders = [s.order for s in segments]
            if orders != sorted(orders):
                raise Mistake(f"lane {lane.number} is not in log order: {orders}")
            live.update((s.order, s) for s in segments)
        self._waits(live)
        self._holders(batches, live)

    def _waits(self, live: dict[int, Segment]) -> None:
        counts = dict.fromkeys(live, 0)
        depth = dict.fromkeys(live, 0)
        for order in sorted(live):
            segment = live[order]
            if segment.holder.committed:
                raise Mistake(f"segment {order} is committed and still in its lane")
            for successor in segment.holder.successors:
                if successor.order <= order or successor.order not in live:
                    raise Mistake(f"segment {successor.order} waits for {order} and should not")
                counts[successor.order] += 1
                depth[successor.order] = max(depth[successor.order], depth[order] + 1)
        for order, segment in live.items():
            if (counted := segment.holder.pending_predecessors) != counts[order]:
                raise Mistake(f"segment {order} counts {counted} waits, there are {counts[order]}")
        self.chains.update(dict.fromkeys(depth.values()))

    def _holders(self, batches: BatchScheduler, live: dict[int, Segment]) -> None:
        table = batches.locks
        holders = {order: segment.holder for order, segment in live.items()}
        for digest, holder in table._exclusive.items():
            if holders.get(holder.order) is not holder:
                raise Mistake(f"{digest} is held by segment {holder.order}, which is not under way")
        for key, tail in [*table._tails.items(), *table._tables.items()]:
            theirs = [*tail.shared, *([tail.exclusive] if tail.exclusive is not None else [])]
            if not theirs or any(holders.get(one.order) is not one for one in theirs):
                raise Mistake(f"{key} is held by nobody who is under way")
        self._whole(live)
        for order, segment in live.items():
            for digest in segment.keys:
                held = table._exclusive.get(digest)
                if held is None or held.order < order:
                    raise Mistake(f"segment {order} lost its lock on {digest}")

    def _whole(self, live: dict[int, Segment]) -> None:
        """A segment that took no key has its tables for its lane alone: others' changes of them come behind it, and
        wait for it or for one that is behind it on its lane."""
        for order, segment in live.items():
            if not segment.holder.tables or segment.keys or segment.holder.requests:
                continue
            self.having += 1
            names = {change.binding.name for change in segment.changes}
            behind = [s for s in live.values() if s.lane == segment.lane and s.order >= order]
            for other in live.values():
                if other.lane == segment.lane or names.isdisjoint(change.binding.name for change in other.changes):
                    continue
                waits = (w.lane == other.lane and w.order <= other.order for s in behind for w in s.holder.successors)
                if other.order < order or not any(waits):
                    raise Mistake(f"segment {other.order} is beside {order}, which has a table of it whole")
                self.waiting += 1

    def finished(self, machine: ApplyMachine) -> None:
        if len(machine.batches.locks):
            raise Mistake(f"{len(machine.batches.locks)} locks are held and nothing is under way")
