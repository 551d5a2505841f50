"""Checks whether a target table's unique keys refuse rows that the source's keys allow.  Pure."""

from __future__ import annotations

import re

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, error, warning
from tidelock.adapters.schema.create_table import column_type, identifier, qualified
from tidelock.adapters.schema.dialects import known_collation
from tidelock.engine.model.schema import Equality, UniqueKey

# Sorts of indexes that say equal of other rows than their columns' values do.
_SORTS = ("expression", "generated", "partial", "exclusion", "NULLS NOT DISTINCT")
_FOLDS = (Equality.FOLDED, Equality.FOLDED_PADDED)
_UTF8 = re.compile("^utf8(mb3)?_")
_PADS = (Equality.PADDED, Equality.FOLDED_PADDED)


def check_uniques(pair: CheckedTable) -> list[Finding]:
    """Lists unique keys of the target that no key of the source implies, or that take more texts as equal."""
    findings = []
    for unique in pair.target.uniques:
        covering = [u for u in pair.source.uniques if _covers(u, unique)]
        if not covering:
            place = qualified(pair.source_dialect, pair.source.name)
            columns = ", ".join(identifier(pair.source_dialect, c) for c in unique.columns)
            findings.append(
                error(
                    "unique-extra",
                    f"{pair.target.name} has the unique key {unique.name} ({', '.join(unique.columns)}), "
                    f"{pair.source.name} has none that implies it, so it may hold rows that the target refuses",
                    f"{drop_unique(pair, unique)} at the target, or at the source "
                    f"ALTER TABLE {place} ADD UNIQUE ({columns});",
                )
            )
        elif coarser := _coarser(pair, unique):
            findings.append(_takes_more(pair, unique, coarser))
    return findings


def _takes_more(pair: CheckedTable, unique: UniqueKey, column: str) -> Finding:
    """Says that texts clash which the source keeps apart: an error in the key by which rows are found, as a row then is
    written over another one and nobody is told."""
    is_key = set(unique.columns) == set(pair.target.key)
    then = "a row that clashes is written over the other one" if is_key else "a row that clashes fails and is set aside"
    return (error if is_key else warning)(
        "key-collation" if is_key else "unique-collation",
        f"{pair.target.name}.{column} takes more texts as equal in its unique key {unique.name} than "
        f"{pair.source.name} does; {then}",
        _collate(pair, column),
    )


def _covers(source: UniqueKey, target: UniqueKey) -> bool:
    """Returns whether rows that the source's key keeps apart are kept apart by the target's key too.

    A key over fewer columns, or over a prefix of one, is stricter.  What an expression or a generated column makes of
    its columns, or a condition leaves out, is not known: only a key over the same columns, of the same sort, counts.
    """
    if any(sort in key.opaque for key in (source, target) for sort in _SORTS):
        return source.opaque == target.opaque and set(source.columns) == set(target.columns)
    return set(source.columns) <= set(target.columns)


def _coarser(pair: CheckedTable, unique: UniqueKey) -> str:
    """Returns a column in which the target takes different source values as equal, or ''."""
    by_name = {c.name: c for c in pair.target.columns}
    collations = {c.name: c.collation for c in pair.source.columns}
    for name in unique.columns:
        source, column = pair.equalities.get(name), by_name[name]
        if source is None or pair.details.collations.get(name) == collations.get(name):
            continue
        target = column.equality
        if source in _FOLDS and _alike(pair, collations.get(name, ""), pair.details.collations.get(name, "")):
            continue
        if (target in _FOLDS) or (target in _PADS and source not in _PADS and pair.dialect == "mysql"):
            return name
    return ""


def _alike(pair: CheckedTable, source: str, target: str) -> bool:
    """Returns whether both collations fold alike: PostgreSQL's that are not deterministic, and those of utf8mb3 and
    utf8mb4 of one name."""
    if pair.source_dialect == pair.dialect == "postgres":
        return True
    return bool(source) and _UTF8.sub("utf8mb4_", source) == _UTF8.sub("utf8mb4_", target)


def _collate(pair: CheckedTable, name: str) -> str:
    """Returns the statement by which the target's column keeps apart what the source's does."""
    source = next(c for c in pair.source.columns if c.name == name)
    if pair.dialect == "postgres":  # a type without a collation gets the database's, which keeps all texts apart
        return f"ALTER TABLE {pair.place} ALTER COLUMN {pair.quoted(name)} TYPE {column_type(source, pair.dialect)};"
    needed = "" if source.nullable else " NOT NULL"
    if pair.crosses:
        return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(name)} {column_type(source, pair.dialect)}{needed};"
    known = known_collation(source, mariadb=pair.mariadb)
    charset = f"CHARACTER SET {known.column.charset} COLLATE {known.collation}"
    return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(name)} {source.type} {charset}{needed};"


def drop_unique(pair: CheckedTable, unique: UniqueKey) -> str:
    """Returns the statement that drops a unique key of the target."""
    if pair.dialect == "mysql":
        drop = "PRIMARY KEY" if unique.name == "PRIMARY" else f"INDEX {pair.quoted(unique.name)}"
        return f"ALTER TABLE {pair.place} DROP {drop};"
    if unique.name in pair.details.constraints:
        return f"ALTER TABLE {pair.place} DROP CONSTRAINT {pair.quoted(unique.name)};"
    return f"DROP INDEX {pair.quoted(pair.target.name.schema)}.{pair.quoted(unique.name)};"
