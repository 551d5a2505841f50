"""Checks whether a target table takes every row that its source table may hold, and can be written in parallel.  Pure.

Anything that makes the target stricter than the source (a type, NOT NULL, a unique or foreign key, a check) would
refuse rows some day, so it is an error now.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ports.finding import Finding, error, note, warning
from tidelock.adapters.ports.target_inspection import Details
from tidelock.adapters.schema.compatibility import compatible
from tidelock.adapters.schema.create_table import (
    acting,
    column_type,
    foreign_key,
    full_identity,
    identifier,
    qualified,
)
from tidelock.adapters.schema.dialects import long_keys
from tidelock.adapters.schema.source_table import SourceColumn, SourceTable
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import (
    Binding,
    Equality,
    ForeignKey,
    SchemaMismatch,
    TargetColumn,
    TargetTable,
    UniqueKey,
)
from tidelock.engine.parallel.lock_keys import serial_reason, unseen_reason

KEY_CHARACTERS = 191
"""Characters of a text that is part of a key of MySQL or MariaDB: four such columns fit in an index of 3,072 bytes."""
# Sorts of indexes that say equal of other rows than their columns' values do.
_SORTS = ("expression", "generated", "partial", "exclusion", "NULLS NOT DISTINCT")
_FOLDS = (Equality.FOLDED, Equality.FOLDED_PADDED)
_PADS = (Equality.PADDED, Equality.FOLDED_PADDED)


class CheckedTable(msgspec.Struct, frozen=True):
    """A source table, as it is replicated (`projected`), and its target.

    `source_dialect`: in which the source is told what to do.  `equalities`: of the source's text columns.  `checks`:
    clauses of the source's check constraints.  `rules`: as in Details, of the source.  `logged`: the source logs what
    its cascades do.
    """

    source: SourceTable
    source_dialect: Dialect
    target: TargetTable
    details: Details
    dialect: Dialect
    equalities: Mapping[str, Equality]
    checks: tuple[str, ...]
    rules: Mapping[str, tuple[str, str]]
    logged: bool

    @property
    def place(self) -> str:
        """The target table's qualified and quoted name."""
        return qualified(self.dialect, self.target.name)

    @property
    def crosses(self) -> bool:
        """Tells whether a PostgreSQL source has a MySQL or MariaDB target."""
        return self.source_dialect == "postgres" and self.dialect == "mysql"

    def quoted(self, name: str) -> str:
        """Returns `name` quoted for the target."""
        return identifier(self.dialect, name)


def check_pair(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
    """Lists findings about one pair.  `target_of`: all selected source tables and their targets."""
    return [
        *pair.details.findings,
        *_columns(pair),
        *_required(pair),
        *_uniques(pair),
        *_foreign_keys(pair, target_of),
        *_cascades(pair, target_of),
        *_checks(pair),
        *_triggers(pair),
        *_parallel(pair),
    ]


def _columns(pair: CheckedTable) -> list[Finding]:
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


def _required(pair: CheckedTable) -> list[Finding]:
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


def _uniques(pair: CheckedTable) -> list[Finding]:
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
                    f"{_drop_unique(pair, unique)} at the target, or at the source "
                    f"ALTER TABLE {place} ADD UNIQUE ({columns});",
                )
            )
        elif coarser := _coarser(pair, unique):
            findings.append(
                warning(
                    "unique-collation",
                    f"{pair.target.name}.{coarser} takes more texts as equal in its unique key {unique.name} than "
                    f"{pair.source.name} does; a row that clashes fails and is set aside",
                    _collate(pair, coarser),
                )
            )
    return findings


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
        if (target in _FOLDS) or (target in _PADS and source not in _PADS and pair.dialect == "mysql"):
            return name
    return ""


def _collate(pair: CheckedTable, name: str) -> str:
    source = next(c for c in pair.source.columns if c.name == name)
    if pair.crosses:
        needed = "" if source.nullable else " NOT NULL"
        return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(name)} {column_type(source, pair.dialect)}{needed};"
    charset = f"CHARACTER SET {source.column.charset} COLLATE {source.collation}"
    return f"ALTER TABLE {pair.place} MODIFY {pair.quoted(name)} {source.type} {charset};"


def _drop_unique(pair: CheckedTable, unique: UniqueKey) -> str:
    if pair.dialect == "mysql":
        drop = "PRIMARY KEY" if unique.name == "PRIMARY" else f"INDEX {pair.quoted(unique.name)}"
        return f"ALTER TABLE {pair.place} DROP {drop};"
    if unique.name in pair.details.constraints:
        return f"ALTER TABLE {pair.place} DROP CONSTRAINT {pair.quoted(unique.name)};"
    return f"DROP INDEX {pair.quoted(pair.target.name.schema)}.{pair.quoted(unique.name)};"


def _foreign_keys(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
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


def _cascades(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
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


def _checks(pair: CheckedTable) -> list[Finding]:
    known = {_plain(clause) for clause in pair.checks}
    findings = []
    for name, clause in pair.details.checks:
        if _plain(clause) in known or "json_valid(" in clause.lower():
            continue
        findings.append(
            error(
                "check-extra",
                f"{pair.target.name} has the check constraint {name} ({clause}), {pair.source.name} has none of that "
                "text, so it may hold rows that the target refuses",
                f"ALTER TABLE {pair.place} DROP CONSTRAINT {pair.quoted(name)};",
            )
        )
    return findings


def _plain(clause: str) -> str:
    """Returns an expression without what servers add or leave out: quotes, parentheses, spaces, casts, the word CHECK.
    """
    bare = re.sub(r"^\s*CHECK\b|::[\w ]+|_utf8mb\d", "", clause, flags=re.IGNORECASE)
    return re.sub(r"[\s()`\"\\]", "", bare).lower()


def _triggers(pair: CheckedTable) -> list[Finding]:
    quoted = [pair.quoted(name) for name in pair.details.triggers]
    if pair.dialect == "postgres":
        drops = [f"ALTER TABLE {pair.place} DISABLE TRIGGER {name};" for name in quoted]
    else:
        drops = [f"DROP TRIGGER {pair.quoted(pair.target.name.schema)}.{name};" for name in quoted]
    return [
        warning(
            "trigger",
            f"the trigger {name} of {pair.target.name} fires for replicated rows too, and what the source's triggers "
            "do is in the log already",
            drop,
        )
        for name, drop in zip(pair.details.triggers, drops, strict=True)
    ]


def _parallel(pair: CheckedTable) -> list[Finding]:
    identity = _identity(pair)
    reason = serial_reason(pair.target)
    if not reason:
        return identity
    if not pair.target.key:
        free = f"A primary key would free it: ALTER TABLE {pair.place} ADD PRIMARY KEY (…);"
    elif any(u.opaque and u.columns == pair.target.key for u in pair.target.uniques):
        free = "A key over columns that are compared exactly (numbers, `_bin` text) would free it"
    else:
        free = "Without that key it would be parallel: " + " ".join(
            _drop_unique(pair, u) for u in pair.target.uniques if u.opaque
        )
    serial = f"rows of {pair.target.name} are applied one after another: {reason}"
    return [note("table-serial", serial, free), *identity]


def _identity(pair: CheckedTable) -> list[Finding]:
    """Checks what the log tells of a row before a change (PostgreSQL's REPLICA IDENTITY)."""
    source, target = pair.source, pair.target
    if source.identity != "key":
        return []
    told = {*source.identity_columns}
    full = f"At the source {full_identity(source)}"
    untold = [c for c in target.key if c not in told]
    if untold or not target.key:
        missing = ", ".join(untold) or "all of its columns, as it has no key"
        return [
            error(
                "identity-key",
                f"the log tells only {', '.join(sorted(told))} of a row of {source.name} before a change, and rows of "
                f"{target.name} are found by {missing}",
                full,
            )
        ]
    try:
        binding = Binding(0, source.shape, target)
    except SchemaMismatch:  # a column is missing, as is said elsewhere
        return []
    if not (reason := unseen_reason(binding)):
        return []
    return [
        note(
            "table-identity-serial",
            f"rows of {target.name} are applied one after another: {reason}. PostgreSQL then writes the whole old row "
            "to its WAL with each update and delete",
            full,
        )
    ]
