"""Checks the publication of a feed at a PostgreSQL source, and makes the statements that mend it.

A table without a replica identity is never published: PostgreSQL would refuse every UPDATE and DELETE of it, whoever
runs them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.postgres_facts import PublicationFacts, SourceFacts
from tidelock.adapters.checks.postgres_tables import quoted_tables, without_identity
from tidelock.adapters.checks.source_inspection import Preparation
from tidelock.adapters.config.feed import Feed
from tidelock.adapters.config.slot_name import slot_name
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import TableName

_OPERATIONS = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"


def check_publication(feed: Feed, facts: SourceFacts, tables: Mapping[TableName, SourceTable]) -> list[Finding]:
    """Checks that every change of these tables is in the publication."""
    found, name = facts.publication, slot_name(feed.name)
    wanted = published(tables)
    if found is None:
        if facts.slot is None or not wanted:
            return []  # the first run makes both
        return [
            error(
                "publication-missing",
                f"{feed.source_url} has no publication {name}, so nothing of the feed's tables is in its log",
                f"{create_publication(name, wanted)};",
            )
        ]
    return [*_options(feed, found), *_lacking(feed, found, wanted), *_cut(found, wanted), *_breaking(found)]


def published(tables: Mapping[TableName, SourceTable]) -> list[TableName]:
    """Lists tables that may be published."""
    return [name for name, table in tables.items() if table.identity != "nothing"]


def create_publication(name: str, tables: list[TableName]) -> str:
    """Returns the statement that makes the publication."""
    return f"CREATE PUBLICATION {quote('postgres', name)} FOR TABLE {quoted_tables(tables)} WITH ({_OPERATIONS})"


def _options(feed: Feed, found: PublicationFacts) -> list[Finding]:
    if found.whole and found.via_root:
        return []
    lacks = "rows of partitions come under their own names" if found.whole else "it leaves kinds of changes out"
    return [
        error(
            "publication-options",
            f"the publication {found.name} at {feed.source_url} does not say all: {lacks}",
            f"ALTER PUBLICATION {quote('postgres', found.name)} SET ({_OPERATIONS});",
        )
    ]


def _lacking(feed: Feed, found: PublicationFacts, wanted: list[TableName]) -> list[Finding]:
    return [
        error(
            "publication-lacks",
            f"the publication {found.name} at {feed.source_url} has no {name}, so nothing of it is in the log",
            f"ALTER PUBLICATION {quote('postgres', found.name)} ADD TABLE {quoted_tables([name])};",
        )
        for name in wanted
        if name not in found.tables
    ]


def _cut(found: PublicationFacts, wanted: list[TableName]) -> list[Finding]:
    place = quote("postgres", found.name)
    return [
        error(
            "publication-cut",
            f"the publication {found.name} leaves rows or columns of {name} out, which the feed needs",
            f"ALTER PUBLICATION {place} DROP TABLE {quoted_tables([name])}; "
            f"ALTER PUBLICATION {place} ADD TABLE {quoted_tables([name])};",
        )
        for name in wanted
        if name in found.cut
    ]


def _breaking(found: PublicationFacts) -> list[Finding]:
    place = quote("postgres", found.name)
    return [
        error(
            "publication-breaks-writes",
            f"PostgreSQL refuses every UPDATE and DELETE of {name}, whoever runs them: it has no replica identity, and "
            f"the publication {found.name} has it",
            f"ALTER TABLE {quoted_tables([name])} REPLICA IDENTITY FULL;"
            if found.all_tables
            else f"ALTER PUBLICATION {place} DROP TABLE {quoted_tables([name])};",
        )
        for name in found.breaking
    ]


def publication_preparations(
    feed: Feed, facts: SourceFacts, tables: Mapping[TableName, SourceTable]
) -> list[Preparation]:
    """Lists the statements that make the publication whole.  What changes tables is left to who owns them."""
    found, wanted, role = facts.publication, published(tables), facts.role
    made = [
        Preparation(f.hint.rstrip(";"), f.message, True)
        for table in tables.values()
        if table.identity == "nothing"
        for f in [without_identity(table)]
    ]
    rows = {row.name: row for row in facts.tables}
    if found is None:
        if not wanted:
            return made
        may = role.superuser or (role.creates and all(rows[name].owned for name in wanted))
        why = "what the log tells: the feed's tables" + ("" if may else ", by who owns all of them")
        return [*made, Preparation(create_publication(slot_name(feed.name), wanted), why, not may)]
    for finding in check_publication(feed, facts, tables):
        may = found.owned and (finding.kind != "publication-lacks" or all(rows[name].owned for name in wanted))
        made += [Preparation(sql, finding.message, not may) for sql in finding.hint.rstrip(";").split("; ")]
    return made


def publication_removals(facts: SourceFacts) -> list[Preparation]:
    """Lists the statement that drops the publication; the feed's user may where it made it."""
    found = facts.publication
    if found is None:
        return []
    sql = f"DROP PUBLICATION {quote('postgres', found.name)}"
    return [Preparation(sql, "the feed's publication", not found.owned)]
