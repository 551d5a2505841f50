"""Echo: which of a site's own changes the arbiter sends back to it.

The arbiter's log is the order of every row.  A site that hangs on it (a *spoke*) writes on its own and applies what
the arbiter sends.  If both wrote one row at the same time, the spoke has applied the arbiter's older change over its
own newer one, and only the arbiter knows.  So the spoke's change goes back to it, as an *echo*, when the arbiter's log
shows that another change of a shared register was sent to the spoke behind what the spoke had seen.  Without one the
two sites end unequal (history 1), with an echo of everything rows flicker for ever longer.

- Every change that was sent counts, echoes too (history 2).
- It is asked for each row, not for each transaction: an echo of a row that needs none is only a waste, but it counts
  as sent and must then have been sent.
- Below the *floor* nothing is remembered, and what the spoke had not seen up to there goes back.  A restart, a full
  index and pruning raise it: more echoes, never fewer (history 4).
- A spoke whose server lost its last commits needs back what the arbiter has of them: the floor rises to the log's end
  and the reader goes back to the first of them (history 12).
- An echo is the arbiter's own event, so its path begins anew with the arbiter; else a site below the spoke would never
  get it (history 24a).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from tidelock.engine.two_way.places import NOTHING, Place
from tidelock.engine.two_way.registers import Register, Registers

Path = tuple[str, ...]  # names of sites, the one that made the change first


class Sending(enum.Enum):
    """SEND: the spoke has not had it.  ECHO: it is the spoke's own, and goes back.  NOT: it has it."""

    SEND = "send"
    ECHO = "echo"
    NOT = "not"


class Passing(msgspec.Struct, frozen=True, gc=False):
    """A row of the arbiter's log as the feed to a spoke passes it.

    `at`: its place.  `path`: that of its transaction, without the arbiter.  `seen`: how far the last site on the path
    had applied the arbiter's log; of no meaning where the path is empty.  `registers`: None for every one.
    `refers`: those of its parents, which are asked for and not noted.
    """

    at: Place
    path: Path
    seen: Place
    registers: Registers | None
    refers: Registers | None = ()


class EchoIndex:
    """Index of what one spoke was sent last on each register, as far as it may not have seen it.

    `floor`: up to there nothing is remembered.  At most `limit` registers are.  Places only grow.
    """

    def __init__(
        self, limit: int, floor: Place = NOTHING, sent: Iterable[tuple[Register, Place]] = ()
    ) -> None:
        self._limit = limit
        self.floor = floor
        self._sent = dict(sent)  # in order of the places

    def __len__(self) -> int:
        return len(self._sent)

    def entries(self) -> tuple[tuple[Register, Place], ...]:
        """Returns the registers with the place of the last change sent, in order of the places."""
        return tuple(self._sent.items())

    def concerns(self, registers: Registers | None, seen: Place) -> bool:
        """Tells whether a change that had seen so much may have missed one that was sent on a shared register."""
        if registers is None or seen < self.floor:
            return True
        sent = self._sent
        return any(sent.get(register, NOTHING) > seen for register in registers)

    def send(self, at: Place, registers: Registers | None) -> None:
        """Notes that the change at this place is sent."""
        if at <= self.floor:  # a reader that went back: what stands here goes by the floor
            return
        if registers is None:
            self.raise_floor(at)
            return
        sent = self._sent
        for register in registers:
            sent.pop(register, None)
            sent[register] = at
        if len(sent) > self._limit:
            self._make_room()

    def raise_floor(self, to: Place) -> None:
        """Forgets what was sent up to this place; a change that had not seen it all goes back from now on."""
        if to <= self.floor:
            return
        self.floor = to
        sent = self._sent
        for register in [register for register, at in _while_at_most(sent.items(), to)]:
            del sent[register]

    def _make_room(self) -> None:
        """Forget the older half."""
        places = list(self._sent.values())
        self.raise_floor(places[len(places) // 2])


def sending(index: EchoIndex, spoke: str, row: Passing) -> Sending:
    """Decides about the next row of the arbiter's log, and notes it in the index if it is sent."""
    if spoke not in row.path:
        found = Sending.SEND
    elif row.path[-1] == spoke and (index.concerns(row.registers, row.seen) or index.concerns(row.refers, row.seen)):
        found = Sending.ECHO
    else:
        found = Sending.NOT
    if found is not Sending.NOT:
        index.send(row.at, row.registers)
    return found


def path_of(arbiter: str, row: Passing, how: Sending) -> Path:
    """Returns the path that a row has at the spoke: its own and the arbiter; of an echo the arbiter alone."""
    return (arbiter,) if how is Sending.ECHO else (*row.path, arbiter)


def _while_at_most(
    items: Iterable[tuple[Register, Place]], to: Place
) -> Iterable[tuple[Register, Place]]:
    for item in items:
        if item[1] > to:
            return
        yield item
