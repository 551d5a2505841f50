"""Permit: both directions of a pair apply, or neither does, so that few changes meet others that they had not seen.

It is for availability and small windows, not for correctness: an arbiter or stamps make sites equal whenever the
directions run.  So there is no coordinator.  Each feed reads its sister's row in the database that it reads anyway, and
says in its own row whether it is *ready*: its probe came out of the log in this session, nobody stopped it, and it sees
the sister live.  It applies while both are ready.

- A sister lives while what its row says of it moves; clocks of two machines are never compared.  A partition is seen
  by both, each by itself, within `after`.
- Ready asks for a live sister and not for a ready one: else both would wait for each other.
- A feed holds while its sister lags by more than `lag`, unless it lags as much itself: one that holds falls behind,
  and two that hold for each other would never catch up.
"""

from __future__ import annotations

import enum

import msgspec


class PermitState(enum.Enum):
    """CLOSED: an operator, or a halt.  PROBING: the proof or the sister is missing.  OPEN: it applies.  DRAINING: it
    sends nothing more, and what it sent is not answered."""

    CLOSED = "closed"
    PROBING = "probing"
    OPEN = "open"
    DRAINING = "draining"


class Limits(msgspec.Struct, frozen=True):
    """`lag_us`: how far the sister may be behind.  `after_us`: how long it may be silent."""

    lag_us: int
    after_us: int


class Sister(msgspec.Struct, frozen=True, gc=False):
    """Row of a feed in its target's bookkeeping.  `alive`: a number that it moves while it lives."""

    feed: str
    alive: int
    ready: bool
    lag_us: int = 0


class Own(msgspec.Struct, frozen=True, gc=False):
    """Feed as it knows itself.  `wished`: no operator has stopped it.  `in_flight`: batches without an answer."""

    wished: bool = True
    halted: bool = False
    lag_us: int = 0
    in_flight: int = 0


class Memory(msgspec.Struct, frozen=True, gc=False):
    """`session`: nonce of the probe of this session of the source; '' before the first.  `proven`: it came out of the
    log.  `sister`: its row as read last; `moved_at`: when that had moved."""

    session: str = ""
    proven: bool = False
    sister: Sister | None = None
    moved_at: int = 0


class Permit:
    """Permit of one feed.  `sister`: name of the feed the other way.  Times are of this machine, in microseconds."""

    def __init__(self, sister: str, limits: Limits, memory: Memory | None = None) -> None:
        self._sister = sister
        self._limits = limits
        self.memory = Memory() if memory is None else memory

    def begin(self, nonce: str) -> None:
        """A session of the source begins, or an owner takes over: a probe is sent with this nonce."""
        self.memory = msgspec.structs.replace(self.memory, session=nonce, proven=False)

    def probe_seen(self, nonce: str) -> None:
        """A probe came out of the log; that of an earlier session proves nothing of this one."""
        if nonce == self.memory.session:
            self.memory = msgspec.structs.replace(self.memory, proven=True)

    def sister_seen(self, now: int, row: Sister) -> None:
        """The sister's row was read.  Raises ValueError for the row of another feed, one's own among them."""
        if row.feed != self._sister:
            raise ValueError(f"the row of {row.feed} was read in place of {self._sister}'s")
        before = self.memory.sister
        moved = before is None or row.alive != before.alive
        moved_at = now if moved else self.memory.moved_at
        self.memory = msgspec.structs.replace(self.memory, sister=row, moved_at=moved_at)

    def ready(self, now: int, own: Own) -> bool:
        """Tells what this feed says of itself in its row."""
        return self.memory.proven and own.wished and not own.halted and self._lives(now)

    def state(self, now: int, own: Own) -> PermitState:
        """Returns whether the feed may apply now."""
        found = self._wanted(now, own)
        if found is not PermitState.OPEN and own.in_flight:
            return PermitState.DRAINING
        return found

    def _wanted(self, now: int, own: Own) -> PermitState:
        if not own.wished or own.halted:
            return PermitState.CLOSED
        sister = self.memory.sister
        if not self.ready(now, own) or sister is None or not sister.ready:
            return PermitState.PROBING
        limit = self._limits.lag_us
        return PermitState.PROBING if sister.lag_us > limit >= own.lag_us else PermitState.OPEN

    def _lives(self, now: int) -> bool:
        return self.memory.sister is not None and now - self.memory.moved_at < self._limits.after_us
