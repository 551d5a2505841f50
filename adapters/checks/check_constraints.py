"""Checks whether a target table's CHECK constraints refuse rows that the source's allow.  Pure."""

from __future__ import annotations

import re

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, error


def check_constraints(pair: CheckedTable) -> list[Finding]:
    """Lists CHECK constraints of the target that the source does not have in these words."""
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
