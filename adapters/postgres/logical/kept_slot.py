"""A feed that begins where its slot keeps the log already: at the slot's own place, or at a later one.

Somebody made publication and slot by hand, before the target was filled by other means (a base backup that was
restored, pg_dump).  The slot is used as it is: it is neither dropped nor made anew, as what it keeps would be lost.

*What is proven.*  The slot keeps the log from its confirmed place on, so `start` may not be before that.  The log is
decoded by the catalogue as it was at each place: a table that came into the publication behind the slot's place has no
changes there, and nothing says so.  So all that the publication says must be older than the slot, by the transactions
that wrote it: one before `catalog_xmin` had ended when the slot began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source import Beginning
from tidelock.adapters.ports.source_errors import PurgedPosition, UnsuitableLog
from tidelock.adapters.postgres.logical.earlier_reader import in_use
from tidelock.adapters.postgres.logical.history import identify
from tidelock.adapters.postgres.logical.overview import suitable
from tidelock.adapters.postgres.logical.session import Session, session
from tidelock.adapters.postgres.logical.slots import (
    PLUGIN,
    Slot,
    create_publication_sql,
    drop_slot_sql,
    find_publication,
    find_slot,
    require_publication,
    slot_of,
)
from tidelock.engine.model.records import TableName, spelled_lsn

_YOUNGER: Final = """
SELECT coalesce(string_agg(DISTINCT found.name, ', '), '') FROM (
    SELECT 'its options' AS name, p.xmin FROM pg_publication p WHERE p.pubname = %s
    UNION ALL
    SELECT r.prrelid::regclass::text, r.xmin FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %s{}
) AS found, pg_replication_slots s
WHERE s.slot_name = %s AND age(found.xmin) <= age(s.catalog_xmin)"""
_SCHEMAS: Final = """
    UNION ALL
    SELECT 'schema ' || n.pnnspid::regnamespace, n.xmin FROM pg_publication_namespace n
    JOIN pg_publication p ON p.oid = n.pnpubid WHERE p.pubname = %s"""
_WITH_SCHEMAS: Final = 150_000


def begin_at(place: Endpoint, tables: Sequence[TableName], lsn: int) -> Beginning:
    """Returns the place at `lsn`, from which the feed's slot must keep the log; 0: the first place from which it does.

    Raises SourceError.
    """
    with session(place, replication=True) as opened:
        suitable(opened)
        slot = _slot(opened, tables)
        identity = identify(opened)
        wanted = lsn or slot.confirmed
        if wanted < slot.confirmed:
            raise PurgedPosition(
                f"the slot {slot.name} at {place} keeps the log from {spelled_lsn(slot.confirmed)} on, and `start` is "
                f"{spelled_lsn(wanted)}, before that",
                f"`start: {spelled_lsn(slot.confirmed)}` or later; what is before is in the log no more",
            )
        if wanted > identity.flushed:
            raise UnsuitableLog(
                f"the log of {place} ends at {spelled_lsn(identity.flushed)}, before `start`, {spelled_lsn(wanted)}",
                "Name a place that the log has, or the server whose log has it",
            )
        require_publication(opened, slot.name, tables)
        _require_older_publication(opened, slot)
        return Beginning(identity.place(wanted))


def _slot(opened: Session, tables: Sequence[TableName]) -> Slot:
    place, name = opened.place, slot_of(opened.place)
    made = f"SELECT pg_create_logical_replication_slot('{name}', '{PLUGIN}');"
    if find_publication(opened, name) is None:
        made = f"{create_publication_sql(name, tables)}; then {made}"
    slot = find_slot(opened, name)
    if slot is None:
        raise PurgedPosition(
            f"{place} has kept its log for the feed from no earlier place: there is no slot {name}",
            f"`start: now` begins with this moment, `start: copy` with the rows that are there. To begin at a place, "
            f"run before it: {made}",
        )
    if not slot.is_for(place.database):
        raise UnsuitableLog(
            f"the slot {name} at {place} cannot be read by the feed: {slot.kind}",
            f"If nobody needs it: {drop_slot_sql(name)} then {made}",
        )
    if slot.lost:
        raise PurgedPosition(
            f"the slot {name} at {place} is lost: the server has removed the log that it was to keep",
            f"{drop_slot_sql(name)} then `start: now` or `start: copy`",
        )
    if slot.active_pid:
        raise in_use(opened, slot)
    return slot


def _require_older_publication(opened: Session, slot: Slot) -> None:
    """Passes where all that the publication says was so before the slot.  Raises UnsuitableLog."""
    schemas = _SCHEMAS if opened.version >= _WITH_SCHEMAS else ""
    asked = _YOUNGER.format(schemas)
    ((younger,),) = opened.rows(asked, *[slot.name] * asked.count("%s"))
    if younger:
        raise UnsuitableLog(
            f"the publication {slot.name} at {opened.place} is not known to be older than the slot ({younger}): what "
            "changed before is not in the log, and the log does not say so",
            f"{drop_slot_sql(slot.name)} then `start: now` or `start: copy`. Or make the slot again, when all "
            "transactions that were open as the publication was made have ended, and no other slot has an older "
            "`catalog_xmin` (pg_replication_slots), and fill the target from behind that",
        )
