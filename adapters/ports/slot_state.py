"""State of the slot by which a source keeps its log for one feed, as an operator sees it."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position

OURS: Final = "tidelock"
"""How the application names of our own sessions begin."""
_SMALL_PART: Final = 5
_UNITS: Final = (("GB", 30), ("MB", 20), ("kB", 10))
_MORE_ROOM: Final = (
    "The feed must get on, or get more room at the source: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; "
    "SELECT pg_reload_conf();"
)


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """A slot as its server showed it `seconds` ago.

    - `unread`: why the server could not be asked, '' where it was; then nothing else is known.
    - `wal_status`: the server's word, `reserved`, `extended`, `unreserved` or `lost`; '' where there is no such slot.
    - `retained_bytes`: of the log that is kept, from the oldest place that the slot needs to the log's end; None: not
      known, or the slot is lost and has no such place.
    - `unconfirmed_bytes`: of the log behind the place up to which the feed has confirmed it; None: not known.
    - `safe_bytes`: that can be written until the slot may be lost; None: as many as there are.
    - `active_pid`: of the session that reads the slot, 0: none.
    - `reader`: the name that its program gave itself, '' where the feed's user may not see it.
    """

    name: str
    unread: str = ""
    wal_status: str = ""
    retained_bytes: int | None = None
    unconfirmed_bytes: int | None = None
    safe_bytes: int | None = None
    active_pid: int = 0
    reader: str = ""
    seconds: float = 0.0

    @property
    def missing(self) -> bool:
        """The server has no such slot."""
        return not self.unread and not self.wal_status

    @property
    def lost(self) -> bool:
        """The server has removed log that the slot was to keep."""
        return self.wal_status == "lost"

    @property
    def ours(self) -> bool:
        """A run of ours reads it."""
        return bool(self.active_pid) and self.reader.startswith(OURS)

    @property
    def warning(self) -> str:
        """Warning of what threatens the feed, and what to do; '' where nothing does.

        A slot that is missing is no threat to a feed that has not begun, so it is the caller's to judge.
        """
        if self.lost:
            return f"the slot {self.name} is lost: the source has removed log that the feed has not read. {_RESYNC}"
        if self.wal_status == "unreserved":
            return f"the slot {self.name} may be lost at the source's next checkpoint. {_MORE_ROOM}"
        room, kept = self.safe_bytes, self.retained_bytes
        if room is not None and kept is not None and room * _SMALL_PART < room + kept:
            return f"the slot {self.name} may be lost once the source writes {size(room)} more. {_MORE_ROOM}"
        if self.active_pid and not self.ours:
            return (
                f"{self._who} reads the slot {self.name}: what it confirms, the feed never gets. End it, or at the "
                f"source: SELECT pg_terminate_backend({self.active_pid});"
            )
        return ""

    def __str__(self) -> str:
        if self.unread:
            return f"{self.name}: not known, {self.unread}"
        if self.missing:
            return f"{self.name}: the source has none"
        parts = [self.wal_status]
        parts += [] if self.retained_bytes is None else [f"{size(self.retained_bytes)} of log kept"]
        parts += [] if self.unconfirmed_bytes is None else [f"{size(self.unconfirmed_bytes)} not confirmed"]
        if not self.lost:
            parts += ["no limit" if self.safe_bytes is None else f"{size(self.safe_bytes)} more until it may be lost"]
        return f"{self.name}: {', '.join(parts)}; {self._read_by}"

    @property
    def _read_by(self) -> str:
        if not self.active_pid:
            return "nobody reads it"
        return f"{self._who} reads it (session {self.active_pid})"

    @property
    def _who(self) -> str:
        return "a run of ours" if self.ours else self.reader or "another user's program"


_RESYNC: Final = f"{RESYNC[0].upper()}{RESYNC[1:]}"


def missing_slot(name: str, checkpoint: Position) -> str:
    """Returns the warning for a feed that has a checkpoint and no slot."""
    return f"the source has no slot {name}, so it does not keep its log from {checkpoint} on. {_RESYNC}"


def size(count: int) -> str:
    """Returns so many bytes as PostgreSQL says them, in units of 1024: `3 kB`, `1.5 GB`."""
    for unit, bits in _UNITS:
        if abs(count) >= 1 << bits:
            value = count / (1 << bits)
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count} bytes"
