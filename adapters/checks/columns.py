"""Checks whether a target table's columns hold all values that the source's columns may have, and get the values that
they need.  Pure."""

from __future__ import annotations

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import column_type, identifier, qualified
from tidelock.adapters.schema.dialects import long_keys
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Kind
from tidelock.engine.model.schema import TargetColumn, TargetTable

KEY_CHARACTERS = 191
"""Characters of a text that is part of a key of MySQL or MariaDB: four such columns fit in an index of 3,072 bytes."""


def check_columns(pair: CheckedTable) -> list[Finding]:
    """Lists the source's columns that the target lacks, or that cannot hold all of their values there."""
    findings = []
    there = {c.name: c for c in pair.target.columns}
    for column in pair.source.columns:
        target = there.get(column.name)
        if not column.logged:
            findings += _computed(pair, column, target)
        elif target is None:
            findings.append(
                error(
                    "column-missing",
                    f"{pair.target.name} has no column {column.name}, which {pair.source.name} has",
                    f"ALTER TABLE {pair.place} ADD COLUMN {pair.quoted(column.name)} "
                    f"{column_type(column, pair.dialect)}; or exclude it in the feed (columns: exclude)",
                )
            )
        elif not target.generated:
            findings += _type(pair, column, target)
    return findings


def _computed(pair: CheckedTable, column: SourceColumn, target: TargetColumn | None) -> list[Finding]:
    """Checks a column that the source computes and does not log: nothing fills it but the target's own expression."""
    if target is None or target.generated:
        return []
    place, name = pair.place, pair.quoted(column.name)
    made = f", ADD COLUMN {name} {column_type(column, pair.dialect)} GENERATED ALWAYS AS ({column.expression}) STORED"
    return [
        error(
            "column-generated",
            f"{pair.source.name}.{column.name} is computed at the source and not in its log, so nothing would fill "
            f"{pair.target.name}.{column.name}",
            f"ALTER TABLE {place} DROP COLUMN {name}{made if pair.dialect == 'postgres' else ''};",
        )
    ]


def key_length(table: SourceTable, name: str) -> Finding:
    """Returns the finding that a key column of a PostgreSQL source is text of any length, for a MySQL target."""
    type_ = next(c.type for c in table.columns if c.name == name)
    return error(
        "key-length",
        f"{table.name}.{name} is {type_} and part of a key, which is too long for an index of MySQL and MariaDB",
        f"At the source ALTER TABLE {qualified('postgres', table.name)} ALTER COLUMN "
        f"{identifier('postgres', name)} TYPE varchar({KEY_CHARACTERS});",
    )


def _type(pair: CheckedTable, column: SourceColumn, target: TargetColumn) -> list[Finding]:
    where = f"{pair.target.name}.{column.name}"
    reason = compatible(column.column, target, pair.dialect, column.type)
    if reason and pair.crosses and target.name in _indexed(pair.target) and column.name in long_keys(pair.source):
        return [key_length(pair.source, column.name)]
    if reason:
        return [
            error(
                "column-type",
                f"{where} cannot hold all values of {pair.source.name}'s {column.type}: {reason}",
                _retype(pair, column.name, column_type(column, pair.dialect), target.nullable),
            )
        ]
    findings = []
    if target.nullable is False and column.nullable and not column.generated:
        findings.append(
            error(
                "column-not-null",
                f"{where} is NOT NULL, but {pair.source.name} may hold NULL there",
                _nullable(pair, target),
            )
        )
    charset = pair.details.collations.get(column.name, "").partition("_")[0]
    source = column.column.charset
    if charset and column.column.kind is Kind.TEXT and charset not in ("utf8mb4", source) and source != "ascii":
        findings.append(
            error(
                "column-charset",
                f"{where} holds {charset} text, {pair.source.name} {source}",
                _retype(pair, column.name, f"{target.type} CHARACTER SET utf8mb4", target.nullable),
            )
        )
    return findings


def _indexed(target: TargetTable) -> set[str]:
    return {name for unique in target.uniques for name in unique.columns}


def _retype(pair: CheckedTable, name: str, type_: str, nullable: bool) -> str:
    if pair.dialect == "postgres":
        return f"ALTER TABLE {pair.place} ALTER COLUMN {pair.quoted(name)} TYPE {type_};"
    return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(name)} {type_}{' NULL' if nullable else ' NOT NULL'};"


def _nullable(pair: CheckedTable, column: TargetColumn) -> str:
    if pair.dialect == "postgres":
        return f"ALTER TABLE {pair.place} ALTER COLUMN {pair.quoted(column.name)} DROP NOT NULL;"
    return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(column.name)} {column.type} NULL;"


def check_required(pair: CheckedTable) -> list[Finding]:
    """Lists target columns that need a value and that the source does not fill."""
    filled = {c.name for c in pair.source.columns if c.logged}
    findings = []
    for column in pair.target.columns:
        if column.name in filled or column.generated or column.nullable or column.default:
            continue
        findings.append(
            error(
                "column-required",
                f"{pair.target.name}.{column.name} is NOT NULL without a default, and {pair.source.name} does "
                "not fill it",
                _nullable(pair, column),
            )
        )
    missing = [c for c in pair.target.key if c not in filled]
    if missing:
        findings.append(
            error(
                "key-missing",
                f"the key of {pair.target.name} has the column {', '.join(missing)}, which "
                f"{pair.source.name} does not fill",
                "Replicate that column, or give the target a key of replicated columns",
            )
        )
    return findings
