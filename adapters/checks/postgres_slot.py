"""Checks the replication slot of a feed at a PostgreSQL source."""

from __future__ import annotations

from tidelock.adapters.checks.postgres_facts import SlotFacts, SourceFacts
from tidelock.adapters.checks.source_inspection import Preparation
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Position

PLUGIN = "pgoutput"
OURS = "tidelock"
"""How the application names of our own sessions begin."""


def check_slot(feed: Feed, facts: SourceFacts, stored: Position | None) -> list[Finding]:
    """Checks that the slot holds the place to read from.  `stored`: the target's checkpoint."""
    slot, place, name = facts.slot, feed.source_url, slot_name(feed.name)
    if slot is None:
        if stored is None:
            return []  # the first run makes it
        return [
            error(
                "slot-missing",
                f"{place} has no slot {name}, so the log behind {stored} is no longer kept",
                f"The changes since then cannot be read by the feed any more: {RESYNC}",
            )
        ]
    if slot.plugin != PLUGIN or slot.database != facts.role.database or slot.temporary:
        what = f"plugin {slot.plugin or 'none (physical)'}, database {slot.database or 'none'}"
        return [
            error(
                "slot-foreign",
                f"the slot {name} at {place} is not the feed's: {what}",
                f"If nobody needs it: {drop_slot(name)};",
            )
        ]
    if slot.wal_status == "lost" or slot.invalid:
        return [
            error(
                "slot-lost",
                f"{place} has given up the slot {name} and removed the log that it held, "
                + (f"which the feed has read up to {stored}" if stored else "before the feed read it"),
                f"The changes since then cannot be read by the feed any more: {RESYNC}"
                if stored
                else f"{drop_slot(name)};",
            )
        ]
    return [*_busy(feed, slot), *_recreated(feed, slot, stored)]


def drop_slot(name: str) -> str:
    """Returns the statement that drops a slot."""
    return f"SELECT pg_drop_replication_slot('{name}')"


def _busy(feed: Feed, slot: SlotFacts) -> list[Finding]:
    if not slot.active_pid or slot.application.startswith(OURS):
        return []
    return [
        error(
            "slot-busy",
            f"{slot.application or 'another program'} from {slot.client} reads the slot {slot.name} at "
            f"{feed.source_url} (session {slot.active_pid}): what it confirms, the feed never gets",
            f"End it, or SELECT pg_terminate_backend({slot.active_pid});",
        )
    ]


def _recreated(feed: Feed, slot: SlotFacts, stored: Position | None) -> list[Finding]:
    """A slot is never confirmed beyond what the target has stored: else it is another one of the same name."""
    if stored is None or slot.confirmed <= stored.offset:
        return []
    return [
        error(
            "slot-recreated",
            f"the slot {slot.name} at {feed.source_url} begins at {slot.confirmed_lsn}, behind {stored}, up to which "
            "the target is: it was made anew, and what was committed in between is not in it",
            f"The changes since then cannot be read by the feed any more: {RESYNC}",
        )
    ]


def slot_preparations(feed: Feed, facts: SourceFacts, stored: Position | None) -> list[Preparation]:
    """Lists the statement that makes the slot.  Not for a feed that has a checkpoint: it would begin behind that."""
    if facts.slot is not None or stored is not None:
        return []
    sql = f"SELECT pg_create_logical_replication_slot('{slot_name(feed.name)}', '{PLUGIN}')"
    why = "from where on the server keeps its log for the feed"
    return [Preparation(sql, why, administrator=False, by_start=True)]


def slot_removals(feed: Feed, facts: SourceFacts) -> list[Preparation]:
    """Lists the statement that drops the slot.  Raises CannotRun while somebody reads it."""
    slot = facts.slot
    if slot is None or slot.plugin != PLUGIN or slot.database != facts.role.database:
        return []
    if slot.active_pid:
        raise CannotRun(
            error(
                "slot-busy",
                f"{slot.application or 'another program'} from {slot.client} reads the slot {slot.name} at "
                f"{feed.source_url} (session {slot.active_pid})",
                f"End it, or SELECT pg_terminate_backend({slot.active_pid});",
            )
        )
    return [Preparation(drop_slot(slot.name), "the feed's slot, for which the server keeps its log", False)]
