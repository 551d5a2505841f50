"""Checks whether a target table takes every row that its source table may hold, and can be written in parallel.  Pure.

Anything that makes the target stricter than the source (a type, NOT NULL, a unique or foreign key, a check) would
refuse rows some day, so it is an error now.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelock.adapters.checks.check_constraints import check_constraints
from tidelock.adapters.checks.checked_table import CheckedTable
from tidelock.adapters.checks.columns import check_columns, check_required
from tidelock.adapters.checks.foreign_keys import check_cascades, check_foreign_keys
from tidelock.adapters.checks.parallel_rows import check_parallel
from tidelock.adapters.checks.replica_identity import check_identity
from tidelock.adapters.checks.triggers import check_triggers
from tidelock.adapters.checks.unique_keys import check_uniques
from tidelock.adapters.ports.finding import Finding
from tidelock.engine.model.records import TableName


def check_pair(pair: CheckedTable, target_of: Mapping[TableName, TableName]) -> list[Finding]:
    """Lists findings about one pair.  `target_of`: all selected source tables and their targets."""
    return [
        *pair.details.findings,
        *check_columns(pair),
        *check_required(pair),
        *check_uniques(pair),
        *check_foreign_keys(pair, target_of),
        *check_cascades(pair, target_of),
        *check_constraints(pair),
        *check_triggers(pair),
        *check_parallel(pair),
        *check_identity(pair),
    ]
