"""Nothing is stuck: once the faults have stopped, everything is applied, no lane holds anything, nothing is waited for.

(That a run comes to an end at all is the world's own limit of steps.)
"""

from __future__ import annotations

from tidelock.engine.apply.machine import ApplyMachine, State
from tidelock.simulations.checkers.checker import Checker
from tidelock.simulations.ledger import Mistake


class Drained(Checker):
    def finished(self, machine: ApplyMachine) -> None:
        batches = machine.batches
        if machine.state is not State.FLOWING or batches.rows or batches.parked_retry.requested or batches.busy:
            raise Mistake(f"not drained: {machine.snapshot()}")
        if any(lane.queue or lane.running for lane in batches.lanes):
            raise Mistake("a lane is not empty")
        if machine.backpressured and machine.options.max_in_flight_rows > 0:
            raise Mistake("an idle machine takes no more of the log")
