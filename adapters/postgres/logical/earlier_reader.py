"""A slot that somebody still uses: waited for a moment, and taken from an earlier reader that is over.

A slot has one reader.  A server sees at once that a reader's process has ended, and after `wal_sender_timeout` (a
minute) that its machine is gone, stands still, or is cut off.  Another has taken the feed over by then.  So whoever
knows that the readers before it are over says the name that they all have (`CaptureOrder.reader_name`): the name of
their sessions, of the feed's own user, at the feed's own slot.  Such a session is ended.  Any other is left alone.
"""

from __future__ import annotations

import time
from typing import Final

from tidelock.adapters.ports.source_errors import Busy
from tidelock.adapters.postgres.logical.session import Session
from tidelock.adapters.postgres.logical.slots import Slot, find_slot

FREE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
_OURS: Final = (
    "FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s "
    "AND a.usename = current_user AND a.application_name = %s AND a.pid <> pg_backend_pid()"
)


def free(session: Session, slot: str, reader_name: str) -> None:
    """Returns once nobody uses the slot; ends an earlier reader's session, if `reader_name` is its name.  '': nobody's.

    Raises Busy, SourceError.
    """
    found = find_slot(session, slot)
    if found is None or not found.active_pid:
        return
    if reader_name:
        session.rows(f"SELECT pg_terminate_backend(a.pid) {_OURS}", slot, reader_name)
    found = unused(session, slot)
    if found is not None and found.active_pid:
        raise in_use(session, found)


def unused(session: Session, slot: str) -> Slot | None:
    """Returns the slot, once nobody uses it or `FREE_SECONDS` are over; None where there is none.  Raises SourceError.
    """
    end = time.monotonic() + FREE_SECONDS
    while (found := find_slot(session, slot)) is not None and found.active_pid and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    return found


def in_use(session: Session, slot: Slot) -> Busy:
    """Returns the error that tells who uses the slot."""
    who = session.rows(
        "SELECT coalesce(application_name, ''), coalesce(usename::text, '?'), coalesce(client_addr::text, 'a socket') "
        "FROM pg_stat_activity WHERE pid = %s",
        slot.active_pid,
    )
    told = "".join(f" of {user}, {application or 'unnamed'} from {client}" for application, user, client in who)
    return Busy(
        f"the slot {slot.name} at {session.place} is in use, by its session {slot.active_pid}{told}",
        "Another feed of this name reads there, or a run or worker that was ended or cut off a moment ago. It is asked "
        f"for again; to end that session, at the source: SELECT pg_terminate_backend({slot.active_pid});",
    )
