"""Hold: rows of the arbiter that wait at a spoke, so that no older row shows there over a newer one of its own.

No feed does so: it cannot keep that promise (history 40; docs/decisions/2026-11-26-no-hold-no-look-up.md).  What it
takes for sites to become equal is kept here, as histories 8 to 10 tell of it.

A row waits while the spoke has changes of its own of that key which the arbiter's log has not covered yet.  When the
arbiter's receipts cover them, their echo replaces the row, or it is applied.

- It waits by its key, so that it is applied or replaced as one row (history 8); by its unique values too, if nothing of
  the spoke's is to make room meanwhile (history 41).
- It waits and is not dropped: the spoke's change may come to nothing at the arbiter (history 9).
- What waits has left no mark, so it is not seen (history 10), and no checkpoint passes it: it is read again after a
  restart.
- Covered is said by receipts one by one, also by those without a row, and only by those of the spoke's own log as it is
  now: after a failover the same places name other changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from tidelock.engine.model.records import Row
from tidelock.engine.two_way.places import Place
from tidelock.engine.two_way.registers import Registers
from tidelock.engine.two_way.seen import Stretch


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """The last image of a row, and all the stretches of the arbiter's log that it stands for, in order.

    `key`: its registers, without those of unique values.
    """

    key: Registers
    row: Row | None
    applied: tuple[Stretch, ...]


class Hold:
    """Changes that wait at one spoke, and for what.

    `log`: the spoke's log, as its changes are read from it now.  `own`: its changes that are not covered.  `values`: of
    a row, registers by which it waits besides its key's.
    """

    def __init__(
        self,
        log: str,
        own: Iterable[tuple[Place, Registers]] = (),
        waiting: Iterable[Waiting] = (),
        values: Callable[[Row], Registers] = lambda row: (),
    ) -> None:
        self._log, self._values = log, values
        self._own = dict(own)
        self._waiting = {each.key: each for each in waiting}

    def waiting(self) -> tuple[Waiting, ...]:
        return tuple(self._waiting.values())

    def wrote(self, at: Place, key: Registers) -> None:
        """The spoke's log has a change of its own of that key there."""
        self._own[at] = key

    def offer(self, key: Registers, row: Row | None, stretch: Stretch) -> Waiting | None:
        """Takes the next image of the arbiter; returns what is to be applied now, None where it waits."""
        earlier = self._waiting.pop(key, None)
        stretches = (stretch,) if earlier is None else (*earlier.applied, stretch)
        offered = Waiting(key, row, stretches)
        if not self._waits(offered):
            return offered
        self._waiting[key] = offered
        return None

    def covered(self, log: str, places: Iterable[Place], replaced: Registers = ()) -> list[Waiting]:
        """The arbiter's log shows receipts of the spoke's changes there; returns what is to be applied now.

        `replaced`: key of a row that is offered next, so that what waits of it is not applied.
        """
        if log != self._log:
            return []
        for at in places:
            self._own.pop(at, None)
        free = [each for each in self.waiting() if each.key != replaced and not self._waits(each)]
        for each in free:
            del self._waiting[each.key]
        return free

    def checkpoint(self, reached: Place) -> Place:
        """Returns the place from which a restart must read again: below all that waits, or what was reached."""
        return min((each.applied[0][0] for each in self._waiting.values()), default=reached)

    def _waits(self, each: Waiting) -> bool:
        registers = each.key if each.row is None else (*each.key, *self._values(each.row))
        return any(register in own for own in self._own.values() for register in registers)
