"""Tells what a change of a PostgreSQL table becomes at each kind of target, by having it translated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelock.adapters.config.url import Dialect
from tidelock.adapters.ddl.translate import translate
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.postgres.logical.relation_changes import FormChange
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.schema_change import Ddl, DdlKind

PASSED: Final = ("passed", "passed", "")
_FOLLOWED: Final[dict[Dialect, str]] = {"postgres": "applied", "mysql": "translated"}


def outcomes(change: FormChange, target: Callable[[Dialect], TargetTable]) -> tuple[str, str, str]:
    """Returns what becomes of a change at PostgreSQL and at MySQL, and why it halts.  `target`: the table as it is."""
    if change.kind is DdlKind.OTHER:
        return "halts", "halts", change.statement
    ddl = Ddl("", change.statement, "", 0, change.kind, change.tables, added=change.added, told=change.told)
    why, found = "", []
    for dialect, outcome in _FOLLOWED.items():
        there = {} if change.kind is DdlKind.CREATE_TABLE else {(table := target(dialect)).name: table}
        try:
            translate(ddl, dialect, lambda name: name, there)
        except TargetError as error:
            why, outcome = str(error).partition(": ALTER")[0], "halts"
        found.append(outcome)
    return found[0], found[1], why
