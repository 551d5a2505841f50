"""Rows of the log lined up with the target's tables: the shapes that a reader numbers, and their bindings.

Each reader numbers shapes anew, so a binding is known by its shape too: what is planned and what comes next of one
table must share it, as locks, folds and statements go by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.records import LogBatch, RowChange, Shape, TableName, Transaction
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
        transactions = batch.transactions
        if [tx.first for tx in transactions] == list(range(len(rows))):
            return [
                Change(bindings[row.table], row.before, row.after, tx.source, tx.number, row.ordinal)
                for row, tx in zip(rows, transactions, strict=True)
            ]
        return [
            Change(bindings[row.table], row.before, row.after, source, number, row.ordinal)
            for source, number, part in _parts(transactions, rows)
            for row in part
        ]

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


def _parts(
    transactions: Sequence[Transaction], rows: Sequence[RowChange]
) -> Iterator[tuple[str, int, Sequence[RowChange]]]:
    """(source, number, rows) of each transaction."""
    ends = [tx.first for tx in transactions[1:]] + [len(rows)]
    for tx, end in zip(transactions, ends, strict=True):
        yield tx.source, tx.number, rows[tx.first : end]
