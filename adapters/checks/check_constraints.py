"""Checks whether a target table's CHECK constraints refuse rows that the source's allow.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, error
from tidelock.adapters.schema.not_translated import NotTranslated
from tidelock.adapters.schema.whole_table import labels_check
from tidelock.engine.model.records import Kind


def check_constraints(pair: CheckedTable) -> list[Finding]:
    """Lists CHECK constraints of the target that the source does not have, in these words or in ours."""
    if not pair.details.checks:
        return []
    known = {_plain(clause) for clause in pair.checks}
    meant = {_plain(clause) for clause in _meant(pair)}
    findings = []
    for name, clause in pair.details.checks:
        if _plain(clause) in known or _plain(_reworded(pair, clause)) in meant or "json_valid(" in clause.lower():
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


def _meant(pair: CheckedTable) -> Iterator[str]:
    """Yields the source's constraints as `init` makes them at the target."""
    from tidelock.adapters.schema.expressions import Translation  # sqlglot is slow to import

    made = {c.name: c for c in pair.source.columns}
    columns = {old: made[new] for old, new in pair.names.items() if new in made}
    equalities = {old: pair.equalities[new] for old, new in pair.names.items() if new in pair.equalities}
    translation = Translation(pair.source_dialect, pair.dialect, columns, pair.names, equalities)
    for clause in pair.checks:
        try:
            yield translation.condition(_condition(clause))
        except NotTranslated:
            continue
    for column in pair.source.columns:
        if column.column.kind is Kind.ENUM and column.column.labels:
            yield _reworded(pair, labels_check(column))


def _reworded(pair: CheckedTable, clause: str) -> str:
    """Returns a constraint of the target in our words: a server changes those that it was given."""
    from tidelock.adapters.schema.expressions import Translation  # sqlglot is slow to import

    columns = {c.name: c for c in pair.source.columns}
    translation = Translation(pair.dialect, pair.dialect, columns, {c: c for c in columns}, {})
    try:
        return translation.condition(_condition(clause))
    except NotTranslated:
        return clause


def _condition(clause: str) -> str:
    """Returns a constraint without PostgreSQL's words around it, and without MySQL's backslashes before quotes."""
    return re.sub(r"^\s*CHECK\b|\bNOT VALID\s*$|\bNO INHERIT\s*$", "", clause.replace("\\'", "'"))


def _plain(clause: str) -> str:
    """Returns an expression without what servers add or leave out: quotes, parentheses, spaces, casts, the word CHECK.
    """
    bare = re.sub(r"^\s*CHECK\b|::[\w ]+|_utf8mb\d", "", clause, flags=re.IGNORECASE)
    return re.sub(r"[\s()`\"\\]", "", bare).lower()
