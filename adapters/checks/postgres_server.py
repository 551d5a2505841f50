"""Checks the server of a PostgreSQL source and the rights of the feed's user there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.postgres_facts import OLDEST, SourceFacts
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.schema.create_table import qualified
from tidelock.engine.model.records import TableName

KEPT_MEGABYTES: Final = 1_024
"""A slot that may hold back less of the log is lost by a feed that stands still for a short time."""
IDLE_SECONDS: Final = 86_400
_KEPT: Final = "64GB"


def check_server(feed: Feed, facts: SourceFacts) -> list[Finding]:
    """Checks versions, settings and what is free."""
    place, server = feed.source_url, facts.server
    findings = []
    if server.version < OLDEST:
        version = server.version // 10_000
        findings.append(error("source-version", f"{place} is PostgreSQL {version}", "A source is 14 or newer"))
    if server.recovering:
        findings.append(
            error(
                "source-standby",
                f"{place} is a standby, and its log is read from the primary",
                "Name the primary in the feed's `source`",
            )
        )
    if server.wal_level != "logical":
        findings.append(
            error(
                "source-wal-level",
                f"{place} has wal_level={server.wal_level!r}; the log needs 'logical'",
                "ALTER SYSTEM SET wal_level = 'logical'; then restart the server",
            )
        )
    return findings + _free(feed, facts) + _kept(feed, facts) + _left_out(facts)


def _free(feed: Feed, facts: SourceFacts) -> list[Finding]:
    server, slot, findings = facts.server, facts.slot, []
    needs = (
        ("source-slots", "max_replication_slots", server.slots, server.most_slots, slot is not None),
        ("source-senders", "max_wal_senders", server.senders, server.most_senders, bool(slot and slot.active_pid)),
    )
    for kind, setting, used, most, ours in needs:
        if used >= most and not ours:
            findings.append(
                error(
                    kind,
                    f"all {most} of {setting} at {feed.source_url} are in use, and the feed needs one",
                    f"ALTER SYSTEM SET {setting} = {most + 5}; then restart the server",
                )
            )
    return findings


def _kept(feed: Feed, facts: SourceFacts) -> list[Finding]:
    """Notes how long the server keeps its log for a feed that does not read it."""
    place, server, findings = feed.source_url, facts.server, []
    setting = f"ALTER SYSTEM SET max_slot_wal_keep_size = '{_KEPT}'; SELECT pg_reload_conf();"
    if server.keep_megabytes < 0:
        findings.append(
            warning(
                "source-slot-unlimited",
                f"{place} keeps its log for a slot without a limit (max_slot_wal_keep_size = -1): a feed that is "
                "stopped for long fills the server's disk",
                setting,
            )
        )
    elif server.keep_megabytes < KEPT_MEGABYTES:
        findings.append(
            warning(
                "source-slot-limit",
                f"{place} keeps {server.keep_megabytes} MB of its log for a slot (max_slot_wal_keep_size): a feed that "
                "is stopped while more is written loses changes",
                setting,
            )
        )
    if 0 < server.idle_seconds < IDLE_SECONDS:
        findings.append(
            warning(
                "source-slot-idle",
                f"{place} gives a slot up that is not read for {server.idle_seconds} s (idle_replication_slot_timeout):"
                " a feed that is stopped for longer loses changes",
                "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
            )
        )
    return findings


def _left_out(facts: SourceFacts) -> list[Finding]:
    """Findings of what PostgreSQL does not write to its log in a form that can be read."""
    findings = []
    if facts.sequences:
        findings.append(
            note(
                "source-sequences",
                f"values of sequences are not in the log ({facts.sequences[0]}"
                + (f" and {len(facts.sequences) - 1} more" if len(facts.sequences) > 1 else "")
                + "): before the target is written to by others, its sequences have to be set",
                "`tidelock sequences FEED` sets them",
            )
        )
    if facts.server.large_objects:
        findings.append(
            note(
                "source-large-objects",
                f"the {facts.server.large_objects} large objects of the database are not in the log",
                "Keep what is in them in bytea columns, or carry them over with pg_dump --large-objects",
            )
        )
    return findings


def check_role(feed: Feed, facts: SourceFacts, tables: Sequence[TableName]) -> list[Finding]:
    """Checks what the feed's user may do."""
    place, role, findings = feed.source_url, facts.role, []
    account = quote("postgres", role.name)
    if not role.replicates:
        findings.append(
            error("source-grant", f"{account} lacks REPLICATION at {place}", f"ALTER ROLE {account} REPLICATION;")
        )
    rows = {row.name: row for row in facts.tables}
    unusable = {name.schema for name in tables if not rows[name].usable}
    findings += [
        error(
            "source-grant",
            f"{account} may not use the schema {schema} at {place}",
            f"GRANT USAGE ON SCHEMA {quote('postgres', schema)} TO {account};",
        )
        for schema in sorted(unusable)
    ]
    findings += [
        error(
            "source-grant",
            f"{account} may not read {name} at {place}",
            f"GRANT SELECT ON {qualified('postgres', name)} TO {account};",
        )
        for name in tables
        if not rows[name].readable
    ]
    return findings + _hidden(account, (name for name in tables if rows[name].hidden))


def _hidden(account: str, tables: Iterable[TableName]) -> list[Finding]:
    return [
        error(
            "source-row-security",
            f"row security hides rows of {name} from {account}: they are in the log, and no copy or comparison sees "
            "them",
            f"ALTER ROLE {account} BYPASSRLS;",
        )
        for name in tables
    ]
