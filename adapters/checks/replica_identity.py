"""Checks whether what the log tells of a row before a change (PostgreSQL's REPLICA IDENTITY) suffices to find it at the
target, and to order its changes.  Pure."""

from __future__ import annotations

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, error, note
from tidelock.adapters.schema.create_table import full_identity
from tidelock.engine.model.schema import Binding, SchemaMismatch
from tidelock.engine.parallel.lock_keys import unseen_reason


def check_identity(pair: CheckedTable) -> list[Finding]:
    """Lists findings about what the log tells of the pair's rows."""
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
