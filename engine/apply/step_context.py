"""The step context: what the parts of an apply machine share within one step, besides each other.

It tells the time, numbers effects, lists them in order, and notes the first effect that ends the owner.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelock.engine.model.errors import Alarm, ErrorKind, Failure, Policy, policy
from tidelock.engine.model.records import Position
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol.effects import ApplyEffect, EffectId, Halt, StepDown


class StepContext:
    """Numbers the effects of a step, and ends its owner.

    `effects`: those of this step so far, in a plain list; `emit` appends one.

    `now`: microseconds of a monotonic clock, the same for a whole step.
    `epoch`: of the owner, once the feed is taken over; it is the first half of every effect's id.
    `end`: the effect that ended this owner.  Whatever would end it later is dropped: it is over already.
    """

    __slots__ = ("_counter", "effects", "emit", "end", "epoch", "now")

    def __init__(self) -> None:
        self.now = 0
        self.epoch = 0
        self.end: Halt | StepDown | None = None
        self._counter = 0
        self.effects: list[ApplyEffect] = []
        self.emit: Callable[[ApplyEffect], None] = self.effects.append

    def next_id(self) -> EffectId:
        """Number an effect; no number is given twice by one owner."""
        self._counter += 1
        return EffectId(self.epoch, self._counter)

    def halt(self, alarm: Alarm, ddl: Ddl | None = None) -> None:
        """End this owner with an alarm for the operator; `ddl`: the statement that stops the feed."""
        self._end(Halt(alarm, ddl))

    def step_down(self, effect: StepDown) -> None:
        """End this owner without an alarm."""
        self._end(effect)

    def give_up(self, failure: Failure, position: Position) -> None:
        """End this owner for a failure that no retry mends; all up to `position` is committed."""
        if policy(failure) is Policy.STEP_DOWN:
            self._end(StepDown(failure.message, failure.kind is not ErrorKind.FENCED))
        else:
            self._end(Halt(_refused(failure, position)))

    def _end(self, effect: Halt | StepDown) -> None:
        if self.end is None:
            self.end = effect
            self.emit(effect)


def _refused(failure: Failure, position: Position) -> Alarm:
    return Alarm(
        "target",
        f"the target refused a batch: {failure.message}",
        "Mend the target (`tidelock check FEED` says more), then `tidelock run FEED`; nothing is lost",
        str(position),
    )
