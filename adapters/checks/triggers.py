"""Checks whether triggers of a target table would do again what the source's have done.  Pure."""

from __future__ import annotations

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.ports.finding import Finding, warning
from tidelock.adapters.schema.stamped_table import is_stamping


def check_triggers(pair: CheckedTable) -> list[Finding]:
    """Lists triggers of the target that fire for replicated rows; those that stamp rows do nothing then."""
    names = [name for name in pair.details.triggers if not is_stamping(pair.target.name, name)]
    quoted = [pair.quoted(name) for name in names]
    if pair.dialect == "postgres":
        drops = [f"ALTER TABLE {pair.place} DISABLE TRIGGER {name};" for name in quoted]
    else:
        drops = [f"DROP TRIGGER {pair.quoted(pair.target.name.schema)}.{name};" for name in quoted]
    return [
        warning(
            "trigger",
            f"the trigger {name} of {pair.target.name} fires for replicated rows too: it may change them or leave them "
            "out, and what the source's triggers do is in the log already",
            drop,
        )
        for name, drop in zip(names, drops, strict=True)
    ]
