"""A check that the source's log is the one that a position belongs to, and that the slot keeps it from there on.

It is asked of the source at each start and each reconnect.

*Which server.*  Its system identifier is made by initdb; a base backup or a standby has the same, a restored dump
another.  *Which timeline.*  A promotion begins one, at the fork: LSNs behind the fork are used again for other
transactions.  So a place on an older timeline is one of this log where it is at or before the place at which its
timeline ended, and everything that we hold is asked for: the checkpoint, and the places of receipts.  *How far.*  A log
that ends before the place was put back from an older copy.

*Which slot.*  The server is told of no place but those that the target has stored (`reader`), so a slot that keeps the
log only from behind the checkpoint is not the one that was used: it was made anew, and what was committed in between
is lost.  PostgreSQL itself goes on from there without a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.history_words import OF_A_SPOKE
from tidelock.adapters.ports.source_errors import Busy, OtherHistory, PurgedPosition, SourceError
from tidelock.adapters.postgres.logical.positions import Identity, lsn_of, system_of, timeline_of
from tidelock.adapters.postgres.logical.session import Session, whole
from tidelock.adapters.postgres.logical.slots import Slot, drop_slot_sql, find_slot, slot_of
from tidelock.engine.model import lineage
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position, spelled_lsn

_FORK: Final = re.compile(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", re.MULTILINE)
HINT: Final = (
    "Rows may be missing between the two, so nothing is applied. If the source is the wrong one, correct `source`; if"
    f" it was put back from a backup, or a standby was promoted that was behind: {RESYNC}; {OF_A_SPOKE}"
)


def identify(session: Session) -> Identity:
    """Asks the server who it is; `session`: a replication connection.  Raises SourceError."""
    ((system, timeline, flushed, database),) = session.rows("IDENTIFY_SYSTEM")
    return Identity(str(system), whole(timeline), str(database), lsn_of(str(flushed)))


def forks(session: Session, timeline: int) -> dict[int, int]:
    """Where each older timeline ended, as `timeline` has it.  Raises SourceError."""
    if timeline <= 1:
        return {}
    ((_, content),) = session.rows(f"TIMELINE_HISTORY {timeline}")
    return {int(found[1]): lsn_of(found[2]) for found in _FORK.finditer(content or "")}


def confirm(session: Session, start: Position, further: Sequence[Position] = (), *, slot: bool = True) -> Identity:
    """Check that the log is that of `start`, and of those `further` in it; returns who the server is now.

    `slot`: the feed's slot must keep the log from `start` on.  A position without a proof passes, where its file is
    none of this server's too.  Raises OtherHistory, PurgedPosition, or any SourceError where the log cannot be asked.
    """
    identity = identify(session)
    primary(session)
    ends = forks(session, identity.timeline)
    for place in (start, *further):
        if place.file:
            _same_log(session.place, identity, ends, place)
    if slot and start.file:
        require_slot(session, start)
    return identity


def primary(session: Session) -> None:
    """Passes where the server takes writes.  Raises Busy: a standby may be about to be promoted."""
    if session.rows("SELECT pg_is_in_recovery()")[0][0] == "t":
        raise Busy(
            f"{session.place} is a standby, whose log is its primary's",
            "Name the primary in `source`, or promote this server: SELECT pg_promote();",
        )


def _same_log(server: Endpoint, identity: Identity, ends: dict[int, int], place: Position) -> None:
    found = difference(identity, ends, place)
    if not found:
        return
    problem = OtherHistory(
        f"the log of {server} is not the one that was read up to {place}: {_told(place)}; here is {found}", HINT
    )
    problem.position = str(place)
    raise problem


def _told(place: Position) -> str:
    database = _database(place) or "unknown"
    return f"that was system {system_of(place)}, database {database}, timeline {timeline_of(place)}"


def difference(identity: Identity, ends: dict[int, int], place: Position) -> str:
    """Say in words what is found in the place of this log; '' where it is the same."""
    database = _database(place)
    if system_of(place) != identity.system:
        return f"system {identity.system}"
    if database and database != identity.database:
        return f"database {identity.database}"
    timeline = timeline_of(place)
    if timeline == identity.timeline:
        if place.offset <= identity.flushed:
            return ""
        return f"a log that ends at {spelled_lsn(identity.flushed)}, as of a server that was put back from a backup"
    fork = ends.get(timeline)
    if fork is None:
        return f"timeline {identity.timeline}, which does not come from timeline {timeline}"
    if place.offset <= fork:
        return ""
    return f"timeline {identity.timeline}, which left timeline {timeline} at {spelled_lsn(fork)}, before that place"


def _database(place: Position) -> str:
    try:
        return lineage.server_of(place.proof).partition("/")[2]
    except msgspec.MsgspecError:
        return ""


def require_slot(session: Session, start: Position) -> Slot:
    """Passes where the feed's slot keeps the log from `start` on.  Raises PurgedPosition, SourceError."""
    server, name = session.place, slot_of(session.place)
    slot = find_slot(session, name)
    if slot is None:
        missing = PurgedPosition(
            f"{server} has no slot {name}, so it did not keep its log from {start} on",
            "It was dropped, or this server was promoted and had none (PostgreSQL 17 keeps slots on standbys: "
            f"`failover`). {RESYNC}; {OF_A_SPOKE}",
        )
        raise _at(start, missing)
    if not slot.is_for(server.database):
        raise SourceError(
            f"the slot {name} at {server} is not the feed's: {slot.kind}",
            f"If nobody needs it: {drop_slot_sql(name)} {RESYNC}",
        )
    if slot.lost:
        lost = PurgedPosition(
            f"the slot {name} at {server} is lost: the server has removed the log from {start} on, as it was to keep "
            "no more than max_slot_wal_keep_size",
            f"Raise max_slot_wal_keep_size if the feed stops for so long. {RESYNC}; {OF_A_SPOKE}",
        )
        raise _at(start, lost)
    if slot.confirmed > start.offset:
        other = PurgedPosition(
            f"the slot {name} at {server} keeps the log from {spelled_lsn(slot.confirmed)} on, and the feed stands at "
            f"{start}: the slot was made anew, or the target was put back from a backup",
            f"What was committed in between is not in the log any more. {RESYNC}; {OF_A_SPOKE}",
        )
        raise _at(start, other)
    return slot


def _at(start: Position, problem: PurgedPosition) -> PurgedPosition:
    problem.position = str(start)
    return problem
