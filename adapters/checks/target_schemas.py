"""The databases of the target in which a feed's tables may be, as a condition that spares the server all others.

MariaDB opens every table that a condition does not rule out by its schema (`adapters.mysql.catalogue`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.engine.capture.pattern import Pattern

_SYSTEM = ("pg_catalog", "information_schema", "mysql", "performance_schema", "sys")


def among(patterns: Sequence[Pattern]) -> tuple[str, tuple[str, ...]]:
    """Returns a condition on `table_schema`, and its arguments."""
    named = tuple(sorted({pattern.schema for pattern in patterns}))
    if any("*" in schema for schema in named):
        return f"table_schema NOT IN ({_marks(_SYSTEM)})", _SYSTEM
    return f"table_schema IN ({_marks(named)})", named


def _marks(names: Sequence[str]) -> str:
    return ", ".join(["%s"] * len(names))
