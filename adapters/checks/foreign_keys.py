"""Checks whether a target table's foreign keys refuse rows that the source's allow, and cascade where the source's do
so unseen.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.schema.create_table import acting, foreign_key, qualified
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey


def check_foreign_keys(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
    """Lists foreign keys that may refuse rows of the source, or change rows of tables that are not replicated."""
    extra = [
        error(
            "foreign-key-extra",
            f"{pair.target.name} has the foreign key {key.name} to {key.parent}, {pair.source.name} has no such key, "
            "so it may hold rows that the target refuses",
            f"ALTER TABLE {pair.place} DROP {_foreign_word(pair.dialect)} {pair.quoted(key.name)};",
        )
        for key in pair.target.foreign_keys
        if not any(_same_key(own, key, target_of) for own in pair.source.foreign_keys)
    ]
    extra += [
        error(
            "foreign-key-deferrable",
            f"{pair.source.name} may break its foreign key {own.name} until a transaction ends, and rows come to "
            f"{pair.target.name} in the order of the log: {key.name} refuses a child that comes before its parent",
            f"ALTER TABLE {pair.place} DROP {_foreign_word(pair.dialect)} {pair.quoted(key.name)};",
        )
        for key in pair.target.foreign_keys
        for own in pair.source.foreign_keys
        if own.name in pair.source.deferrable and _same_key(own, key, target_of)
    ]
    chosen = set(target_of.values()) if pair.target.references else ()
    outside = [
        warning(
            "foreign-key-outside",
            f"{key.child}, which is not replicated, refers to {pair.target.name} by {key.name}: "
            + ("deletes and key changes change its rows" if key.cascades else "it may refuse deletes"),
            f"Replicate it too, or ALTER TABLE {qualified(pair.dialect, key.child)} DROP "
            f"{_foreign_word(pair.dialect)} {pair.quoted(key.name)};",
        )
        for key in pair.target.references
        if key.child not in chosen
    ]
    return extra + outside


def _foreign_word(dialect: Dialect) -> str:
    return "CONSTRAINT" if dialect == "postgres" else "FOREIGN KEY"


def _same_key(source: ForeignKey, target: ForeignKey, target_of: Mapping[TableName, TableName]) -> bool:
    pairs = set(zip(source.columns, source.parent_columns, strict=True))
    return target_of.get(source.parent) == target.parent and pairs == set(
        zip(target.columns, target.parent_columns, strict=True)
    )


def check_cascades(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
    """Checks that cascades which the source does not log fire at the target."""
    if pair.logged:
        return []
    findings = []
    for key in pair.source.foreign_keys:
        if not key.cascades or key.parent not in target_of:
            continue
        wanted = acting(pair.rules.get(key.name, ("", "")))
        found = [k for k in pair.target.foreign_keys if _same_key(key, k, target_of)]
        if any(acting(pair.details.rules.get(k.name, ("", ""))) == wanted for k in found):
            continue
        drops = "".join(f"DROP {_foreign_word(pair.dialect)} {pair.quoted(k.name)}, " for k in found)
        added = foreign_key(pair.dialect, key, target_of[key.parent], wanted)
        findings.append(
            error(
                "cascade-missing",
                f"the source changes rows of {pair.source.name} by the foreign key {key.name} (cascade) without "
                f"logging it, so {pair.target.name} needs the same foreign key",
                f"ALTER TABLE {pair.place} {drops}ADD {added};",
            )
        )
    return findings
