"""Asks a PostgreSQL source for the state of a feed's slot, on a session that is kept from one question to the next.

Every role may see slots, so it takes no right beyond those that the feed's user has.
"""

from __future__ import annotations

from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.slot_state import SlotState
from tidelock.adapters.ports.source_errors import SourceError, Unreachable
from tidelock.adapters.postgres.logical.session import Session, connect, whole
from tidelock.adapters.postgres.logical.slots import slot_of

# A server that recovers writes no log of its own; a slot that is lost may have no place any more.  Of another role's
# session only its number can be seen.
_STATE: Final = """
SELECT s.wal_status, log.place - s.restart_lsn, log.place - s.confirmed_flush_lsn, s.safe_wal_size,
    a.pid, a.application_name
FROM pg_replication_slots s
CROSS JOIN (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS place
) AS log
LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = %s"""


class SlotSession:
    """Asks about one feed's slot.  Opened by the first question, and anew where it was lost meanwhile."""

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._opened: Session | None = None

    def state(self) -> SlotState:
        """Returns the state; of a server that does not answer, why not."""
        name = slot_of(self._place)
        try:
            found = self._rows(name)
        except SourceError as error:
            return SlotState(name=name, unread=error.message)
        if not found:
            return SlotState(name=name)
        status, retained, unconfirmed, safe, pid, reader = found[0]
        return SlotState(
            name=name,
            wal_status=status or "lost",
            retained_bytes=_known(retained),
            unconfirmed_bytes=_known(unconfirmed),
            safe_bytes=_known(safe),
            active_pid=whole(pid),
            reader=reader or "",
        )

    def close(self) -> None:
        """Closes the session, where it is open."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _rows(self, name: str) -> list[tuple[str | None, ...]]:
        if self._opened is not None:
            try:
                return self._opened.rows(_STATE, name)
            except Unreachable:
                self.close()
        return self._asked_anew(name)

    def _asked_anew(self, name: str) -> list[tuple[str | None, ...]]:
        self._opened = connect(self._place, application="tidelock slot")
        try:
            return self._opened.rows(_STATE, name)
        except SourceError:
            self.close()
            raise


def _known(cell: str | None) -> int | None:
    return None if cell is None else int(cell)
