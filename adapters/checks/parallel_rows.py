"""Checks whether changes of a target table can be applied at the same time, or why only one after another.  Pure."""

from __future__ import annotations

from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.checks.unique_keys import drop_unique
from tidelock.adapters.ports.finding import Finding, note
from tidelock.engine.parallel.lock_keys import serial_reason


def check_parallel(pair: CheckedTable) -> list[Finding]:
    """Lists why the table's rows are applied one after another, if they are, and what would free them."""
    reason = serial_reason(pair.target)
    if not reason:
        return []
    if not pair.target.key:
        free = f"A primary key would free it: ALTER TABLE {pair.place} ADD PRIMARY KEY (…);"
    elif any(u.opaque and u.columns == pair.target.key for u in pair.target.uniques):
        free = "A key over columns that are compared exactly (numbers, `_bin` text) would free it"
    else:
        free = "Without that key it would be parallel: " + " ".join(
            drop_unique(pair, u) for u in pair.target.uniques if u.opaque
        )
    serial = f"rows of {pair.target.name} are applied one after another: {reason}"
    return [note("table-serial", serial, free)]
