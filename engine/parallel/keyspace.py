"""Namespaces of lock keys: equal values of different indexes are different keys."""

from __future__ import annotations

from typing import TypeAlias

from tidelock.engine.model.records import TableName
from tidelock.engine.parallel.lock_request import LockRequest, Mode

Namespace: TypeAlias = tuple[TableName, str, tuple[str, ...]]
"""A table, what its keys are of (unique, reference or table), and the columns of the index."""


class Keyspace:
    """Numbers for namespaces, the same for every shape of a table."""

    def __init__(self) -> None:
        self._numbers: dict[Namespace, int] = {}

    def number(self, table: TableName, what: str, columns: tuple[str, ...] = ()) -> int:
        """Returns the namespace's number, a new one if it has none yet.  `what`: unique, reference or table."""
        return self._numbers.setdefault((table, what, columns), len(self._numbers))

    def named(self) -> list[Namespace]:
        """Returns the namespaces, each at its number."""
        return list(self._numbers)

    def table_lock(self, table: TableName, mode: Mode) -> LockRequest:
        """Requests one key that stands for the table: in mode X for whoever wants the table for itself, in mode S for
        rows of a table that somebody may want so."""
        return (self.number(table, "table"),), mode
