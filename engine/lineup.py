"""Rows of the log lined up with the target's tables: the shapes that a reader numbers, and their bindings.

Each reader numbers shapes anew, so a binding is known by its shape too: what is planned and what comes next of one
table must share it, as locks, folds and statements go by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.records import LogBatch, Shape, TableName
from engine.schema import Binding, SchemaMismatch, TargetTable
from engine.segments import Change


class Lineup:
    """`tables`: the target's.  `bound`: called with each new binding."""

    def __init__(self, tables: Mapping[TableName, TargetTable], bound: Callable[[Binding], None]) -> None:
        self._tables = tables
        self._bound = bound
        self._shapes: dict[int, Shape] = {}
        self._bindings: dict[int, Binding] = {}
        self._known: dict[Shape, Binding] = {}  # each reader numbers shapes anew

    def retable(self, tables: Mapping[TableName, TargetTable]) -> None:
        """The target's tables are these from now on, or their locks are others."""
        self._tables = tables
        self._bindings.clear()
        self._known.clear()

    def learn(self, batch: LogBatch) -> None:
        """The shapes that the batch tells of."""
        self._shapes.update(batch.shapes)
        for number in batch.shapes:
            self._bindings.pop(number, None)

    def changes(self, batch: LogBatch) -> list[Change]:
        """Raises SchemaMismatch where a row cannot be lined up."""
        rows = batch.rows
        if not rows:
            return []
        bindings = self._bindings
        for number in {row.table: None for row in rows}:
            if number not in bindings:
                bindings[number] = self._binding(number)
        ends = [transaction.first for transaction in batch.transactions[1:]] + [len(rows)]
        changes: list[Change] = []
        for transaction, end in zip(batch.transactions, ends, strict=True):
            source, number, first = transaction.source, transaction.number, transaction.first
            if end - first == 1:
                row = rows[first]
                changes.append(Change(bindings[row.table], row.before, row.after, source, number, row.ordinal))
            else:
                changes += [
                    Change(bindings[row.table], row.before, row.after, source, number, row.ordinal)
                    for row in rows[first:end]
                ]
        return changes

    def _binding(self, number: int) -> Binding:
        shape = self._shapes[number]
        table = self._tables.get(shape.name)
        if table is None:
            raise SchemaMismatch(f"the target has no table {shape.name}; `tidelock init --apply FEED` makes it")
        binding = self._known.get(shape)
        if binding is None:
            binding = self._known[shape] = Binding(number, shape, table)
            self._bound(binding)
        return binding
