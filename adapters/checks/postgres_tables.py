"""Checks which tables of a PostgreSQL source have rows in the log, and what the log tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.checks.postgres_facts import SourceFacts
from tidelock.adapters.config.feed import Feed, TableRule
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.postgres.schema import TableRow, is_replicated
from tidelock.adapters.postgres.silent_partitions import what_to_do
from tidelock.adapters.schema.create_table import full_identity, qualified
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.capture.pattern import Pattern
from tidelock.engine.model.records import TableName

IDENTITY_COST = (
    "REPLICA IDENTITY FULL makes PostgreSQL write the whole old row to its WAL with each update and delete; a primary "
    "key costs less"
)


def check_patterns(feed: Feed, facts: SourceFacts, tables: Mapping[TableName, SourceTable]) -> list[Finding]:
    """Checks that each rule matches a table that the log has rows of."""
    rows = [row for row in facts.tables if row.schema != feed.schema]
    unmatched = [rule for rule in feed.tables if not any(feed.select(name) is rule for name in tables)]
    silent = [row for row in rows if not is_replicated(row) and feed.select(row.name) is not None]
    exact = {rule.source for rule in feed.tables if "*" not in rule.source}
    told = [_not_logged(row, str(row.name) in exact) for row in silent if not (row.partition and _named(feed, row))]
    explained = {str(row.name) for row in silent}
    taken = {str(name) for name in tables}
    parts = [_untold(row) for row in rows if row.partition and str(row.root) in taken and not _is_told(row)]
    return [*parts, *told, *(_unmatched(feed, facts, rule) for rule in unmatched if rule.source not in explained)]


def _is_told(row: TableRow) -> bool:
    return row.kind != "f" and row.persistence == "p"


def _untold(row: TableRow) -> Finding:
    """Says why the log has nothing of a partition, though it has its table's other rows."""
    root = TableName(*str(row.root).split(".", 1))
    what, hint = what_to_do(root, row.name, foreign=row.kind == "f")
    return error("partition-untold", f"{what}, so the log has nothing of its rows", hint)


def _named(feed: Feed, row: TableRow) -> bool:
    """Returns whether a pattern takes the partition along with the table that it is a partition of."""
    rule = feed.select(row.name)
    return rule is not None and "*" in rule.source and _is_told(row)


def _not_logged(row: TableRow, exact: bool) -> Finding:
    """Says why the log has no rows under a table's name; a pattern may take one along without meaning it."""
    say, place = error if exact else warning, qualified("postgres", row.name)
    if row.kind == "f":
        return say(
            "table-foreign",
            f"{row.name} is a foreign table, whose rows are in the log of another server",
            "Leave it out of `tables`, and replicate the table that it stands for from its own server",
        )
    if row.persistence == "u":
        return say(
            "table-unlogged",
            f"{row.name} is UNLOGGED: its changes are in no log",
            f"ALTER TABLE {place} SET LOGGED;",
        )
    return error(
        "table-partition",
        f"{row.name} is a partition of {row.root}, under whose name its rows are in the log",
        f"Name {row.root} in `tables`",
    )


def _unmatched(feed: Feed, facts: SourceFacts, rule: TableRule) -> Finding:
    message = f"no table at {feed.source_url} matches {rule.source}"
    pattern = Pattern.of(rule.source)
    if any(rule.matches(row.name) for row in facts.tables):
        message += " that an earlier rule does not take, and that the log has rows of"
    elif "*" in pattern.table and ("*" in pattern.schema or any(pattern.schema == r.schema for r in facts.tables)):
        later = "A table that is made later comes into the feed by `tidelock init --apply`"
        return warning("table-unmatched", f"{message} yet", later)
    return error("table-unmatched", message, "Correct `tables` in the feed, or make the table")


def check_tables(feed: Feed, facts: SourceFacts, tables: Mapping[TableName, SourceTable]) -> list[Finding]:
    """Checks what the log tells of the rows of each table."""
    rows, findings = {row.name: row for row in facts.tables}, list[Finding]()
    for name, table in tables.items():
        if table.identity == "nothing":
            findings.append(without_identity(table))
        if rows[name].inherited:
            findings.append(
                note(
                    "table-inherited",
                    f"other tables inherit from {name}; each is a table of its own in the log, and rows of all of them "
                    f"show in a query of {name}",
                    "Name them in `tables` too",
                )
            )
        findings += [
            note(
                "column-computed",
                f"{name}.{column.name} is computed at the source and not in its log",
                "Let the target compute it too: `tidelock init` makes it so in PostgreSQL",
            )
            for column in table.columns
            if not column.logged
        ]
    later = [rule.source for rule in feed.tables if "*" in rule.source]
    if later:
        findings.append(
            note(
                "publication-later",
                f"a table that is made later and matches {later[0]} is not in the publication, so the log has nothing "
                "of it",
                "Run `tidelock init --apply` after it is made, and before it is written to",
            )
        )
    return findings


def without_identity(table: SourceTable) -> Finding:
    """Returns the finding that the log cannot tell which row an update or delete means."""
    key = next((u for u in table.uniques if u.name == "PRIMARY"), None)
    if table.partitions:
        why = "has partitions without a replica identity, or with different ones:"
    elif key is None:
        why = "has no primary key and no other replica identity:"
    else:
        why = f"has a primary key that is no replica identity ({key.opaque or 'REPLICA IDENTITY NOTHING'}):"
    return error(
        "table-identity",
        f"{table.name} {why} the log has its inserts alone, and once it is published, "
        f"PostgreSQL refuses every UPDATE and DELETE of it. {IDENTITY_COST}",
        full_identity(table),
    )


def quoted_tables(names: list[TableName]) -> str:
    """Returns tables as a statement lists them."""
    return ", ".join(f"{quote('postgres', n.schema)}.{quote('postgres', n.table)}" for n in names)
