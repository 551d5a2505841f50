"""Checks the event triggers by which a PostgreSQL source tells schema changes to a feed, and plans them."""

from __future__ import annotations

from tidelock.adapters.checks.postgres_facts import SourceFacts
from tidelock.adapters.checks.source_inspection import Preparation
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.ports.target_inspection import CannotRun
from tidelock.adapters.postgres.ddl_trigger import CommandTrigger, whole

_SITES = "a feed between sites does not read what event triggers tell: its own statements would come back"
_REMOVE = "`tidelock ddl remove FEED` prints the statements that take them away"
_INSTALL = "`tidelock ddl install FEED` prints the statements"


def trigger_of(feed: Feed) -> CommandTrigger:
    """Returns the event triggers that the feed would have."""
    patterns = tuple((schema, table) for schema, _, table in (rule.source.partition(".") for rule in feed.tables))
    return CommandTrigger(slot_name(feed.name), patterns, feed.schema)


def check_commands(feed: Feed, facts: SourceFacts) -> list[Finding]:
    """Checks that the event triggers, where there are any, tell every command."""
    if not facts.trigger:
        return []
    place = feed.source_url
    if feed.sites is not None:
        return [error("commands-sites", f"{_SITES}, and {place} has its event triggers", _REMOVE)]
    if not whole(facts.trigger):
        return [
            warning(
                "commands-untold",
                f"the event triggers of {feed.name} at {place} are not all there, or not enabled ALWAYS, or not a "
                "superuser's: the feed follows schema changes as without them",
                f"{_INSTALL} that make them anew",
            )
        ]
    if any(row[2] != trigger_of(feed).body for row in facts.trigger):
        return [
            warning(
                "commands-other",
                f"the event triggers of {feed.name} at {place} were made for other `tables`, or by another version",
                f"{_INSTALL} that make them anew",
            )
        ]
    return [note("commands-told", f"event triggers at {place} tell {feed.name} of every schema change")]


def command_preparations(feed: Feed, facts: SourceFacts) -> list[Preparation]:
    """Lists the statements that make the event triggers; none where they are as they should be.  Raises CannotRun."""
    if feed.sites is not None:
        raise CannotRun(error("commands-sites", _SITES, "Leave schema changes to `ddl: {from: …}`"))
    trigger = trigger_of(feed)
    if whole(facts.trigger) and all(row[2] == trigger.body for row in facts.trigger):
        return []
    why = "what tells schema changes in the log, which PostgreSQL lets superusers make"
    return [Preparation(sql, why, not facts.role.superuser) for sql in trigger.made()]


def command_removals(feed: Feed, facts: SourceFacts) -> list[Preparation]:
    """Lists the statements that take the event triggers away; none where there are none."""
    trigger = trigger_of(feed)
    if not facts.trigger and trigger.function not in facts.functions:
        return []
    last = {*facts.functions} <= {trigger.function}
    why = "the feed's event triggers"
    return [Preparation(sql, why, not facts.role.superuser) for sql in trigger.removed(last=last)]
