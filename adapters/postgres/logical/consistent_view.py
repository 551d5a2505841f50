"""One consistent view of a table, whose place in the log is known exactly (`engine.model.snapshot`).

The server gives a new slot for logical decoding the snapshot of the place where its stream would begin: everything
committed before that place is in it, and nothing behind.  So a slot is made for that alone: it is temporary, a second
session takes its snapshot over, and the slot is gone with the session that made it.  From then on the log is not kept
for it, however long the table is read.

Making a slot waits for the transactions that were open when it began, in all databases of the server; nobody waits for
it.  It takes a free slot and a free walsender for that moment.

A snapshot of a place in the log may count a transaction as committed that the server's list still has as running
(`adapters.postgres.logical.visible`): its commit is on the disk, but whether the table of commits says so too is not
known.  So the view is read once none of those that it counts run any more.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import SourceError
from tidelock.adapters.postgres.logical.positions import lsn_of
from tidelock.adapters.postgres.logical.session import Session, connect
from tidelock.engine.model.records import TableName

WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02
_PREFIX: Final = "tidelock_view_"
_CURSOR: Final = "tidelock_view"
_NO_SLOT: Final = "53400"  # all slots are in use
_WAITED: Final = "55P03"  # a lock, for too long

# The 32 bits of a lock's transaction number, within the 64 bits of the snapshot's.
_UNSETTLED: Final = """
SELECT count(*)
FROM pg_locks l, pg_current_snapshot() s,
    LATERAL (SELECT pg_snapshot_xmax(s)::text::numeric AS top) t,
    LATERAL (SELECT t.top - mod(t.top, 4294967296) + l.transactionid::text::numeric AS near) n,
    LATERAL (SELECT CASE WHEN n.near - t.top > 2147483648 THEN n.near - 4294967296
        WHEN t.top - n.near > 2147483648 THEN n.near + 4294967296 ELSE n.near END AS number) x
WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock'
    AND x.number >= 3 AND pg_visible_in_snapshot(x.number::text::xid8, s)"""


class SessionView:
    """A view in a session's transaction (`adapters.ports.source.TableView`).  `place`: its LSN."""

    def __init__(self, session: Session, place: int) -> None:
        self.place = place
        self._session = session

    def batches(self, sql: str, size: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yields the rows of a query, so many at once, as the server spells their values.  Raises SourceError."""
        self._session.run(f"DECLARE {_CURSOR} NO SCROLL CURSOR FOR {sql}")
        while batch := self._session.rows(f"FETCH {size} FROM {_CURSOR}"):
            yield list(batch)
        self._session.run(f"CLOSE {_CURSOR}")


@contextlib.contextmanager
def view_of(place: Endpoint, table: TableName, seconds: float = WAIT_SECONDS) -> Iterator[SessionView]:
    """Opens a view of a table.  Raises SourceError, also where transactions stay open for longer than `seconds`, or no
    slot is free."""
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(contextlib.closing(connect(place)))
        with contextlib.closing(connect(place, replication=True)) as maker:
            lsn, snapshot = _slot(maker, table, min(seconds, place.read_seconds / 2))
            reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.run("SET TRANSACTION SNAPSHOT %s", snapshot)
        _settle(reader, table, seconds)
        yield SessionView(reader, lsn)


def _slot(maker: Session, table: TableName, seconds: float) -> tuple[int, str]:
    """Makes the slot.  Returns its place and the name of its snapshot."""
    maker.run(f"SET lock_timeout = {round(seconds * 1000)}")
    name = f"{_PREFIX}{uuid4().hex}"
    try:
        made = maker.rows(f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
    except SourceError as error:
        raise _waited(table, seconds, error) or _no_slot(maker, table, error) or error from error
    ((_, point, snapshot, *_),) = made
    return lsn_of(str(point)), str(snapshot)


def _waited(table: TableName, seconds: float, error: SourceError) -> SourceError | None:
    if f"({_WAITED})" not in error.message:
        return None
    return SourceError(
        f"{table} has no key, so it is read in one view, which waits for the transactions that were open when it "
        f"began; they have been for longer than {seconds:g} s",
        "It is tried again; end the transaction if it stays: SELECT pid, xact_start FROM pg_stat_activity WHERE "
        "backend_xid IS NOT NULL; or SELECT gid FROM pg_prepared_xacts",
    )


def _no_slot(maker: Session, table: TableName, error: SourceError) -> SourceError | None:
    if f"({_NO_SLOT})" not in error.message:
        return None
    return SourceError(
        f"{table} has no key, so it is read in one view, which takes a slot and a walsender of {maker.place} for a "
        f"moment: {error.message}",
        "It is tried again; drop slots that nobody needs, or raise max_replication_slots",
    )


def _settle(reader: Session, table: TableName, seconds: float) -> None:
    """Waits until nothing runs that the view counts as committed."""
    deadline = time.monotonic() + seconds
    while int(str(reader.rows(_UNSETTLED)[0][0])):
        if time.monotonic() > deadline:
            raise SourceError(
                f"{table} cannot be read in one view yet: a commit has not come to its end in {seconds:g} s",
                "It is tried again.  Does the source wait for a synchronous standby (pg_stat_replication)?",
            )
        time.sleep(_POLL_SECONDS)
