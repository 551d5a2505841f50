"""Queues are bounded: what is planned and not committed, and what waits to be planned, never outgrow their room."""

from __future__ import annotations

from typing import Any

from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.engine.apply.streaming import Phase
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.ledger import Mistake


class Bounds(Checker):
    """`_longest`: rows in the largest transaction and batch of the log, which may come together.

    With `consistency: transaction` a window goes on to the first batch that ends at a commit, and readers that cut
    transactions anywhere may let that wait for ever; the adapters' readers do not.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        sizes: dict[tuple[str, int], int] = {}
        for source, number, _ in self.ledger.order:
            sizes[source, number] = sizes.get((source, number), 0) + 1
        plan = self.ledger.history.plan
        self._longest = max(sizes.values(), default=0) + plan.longest
        self._bounded = not (self.atomic and plan.cut_anywhere)

    def _streamed(self, machine: ApplyMachine) -> None:
        """Two pieces of a transaction that is applied as it comes, and no transaction that waits for ever."""
        streaming, options = machine.streaming, machine.options
        if streaming.rows > 2 * (options.batch_rows + self.ledger.history.plan.longest):
            raise Mistake(f"{streaming.rows} rows of one transaction wait for the target")
        idle = streaming._idle_since
        if streaming._phase is Phase.OPEN and idle is not None and machine.now - idle >= options.stream_idle_us:
            raise Mistake(f"a transaction is open at the target, and nothing has come for {machine.now - idle} us")

    def stepped(self, machine: ApplyMachine) -> None:
        if machine.state is not State.FLOWING:
            return
        self._streamed(machine)
        if not self._bounded:
            return
        options = machine.options
        window = max(options.window_rows, options.batch_rows) + self._longest
        waits = options.coalesce_limit + window if options.coalesce_rows else 0
        if machine.batches.rows > options.max_in_flight_rows // 2 + window + waits + bool(machine.copying):
            raise Mistake(f"{machine.batches.rows} rows are planned, there is room for {options.max_in_flight_rows}")
        coalescer = machine.batches.coalescer
        plans = not (machine.paused or machine.planning_deferred or machine.batches.parked_retry.requested)
        roomy = machine.batches.rows <= options.max_in_flight_rows // 2
        if coalescer.rows > waits or (coalescer.crowded and plans and roomy):
            raise Mistake(f"{coalescer.rows} rows of {coalescer.size} bytes wait for more of their tables")
        busy = sum(bool(lane.running) for lane in machine.batches.lanes)
        if machine.batches.in_flight > busy:
            raise Mistake(f"{machine.batches.in_flight} batches are under way on {busy} lanes")
