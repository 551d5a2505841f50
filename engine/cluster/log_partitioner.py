"""The log partitioner: batches of the source's log → batches of the partitions, each with a chain of its own.

Rows go by the plan to the partition of their table; a transaction's rows stay in order there, as a part of it.  What
lets a reader begin anywhere, and a publisher go on from any flush:

- *A flush takes every partition to the same position*: `heartbeats` are for those that had no rows.  So the end of any
  partition is the end of all, and it alone says where to read on.
- *Every batch names the tables it uses*, not only those that are new.
- *A transaction that came in several parts ends in every partition*, also where it had no rows: which partitions got an
  earlier part need not be remembered.  A position inside a transaction says that its end is still to come.
- *A statement goes to all partitions* and ends the flush; nothing is taken until `go_on`.  One that is UNRELATED only
  moves the position.
"""

from __future__ import annotations

from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.records import Position, RowChange, Shape, TableName, Transaction
from tidelock.engine.model.schema_change import Ddl, DdlKind
from tidelock.engine.model.table_partitioning import TablePartitioning


class NoGroup(Exception):
    """A row of `table`, which the plan puts in no group, behind `position`."""

    def __init__(self, table: TableName, position: Position) -> None:
        super().__init__(
            f"behind {position} the log has rows of {table}, which is in no table group of the feed's plan"
        )
        self.table = table
        self.position = position


class LogPartitioner:
    """Parts the log of one source among partitions.

    `last`: where every partition ends.  `end_us`: source time of the last batch taken, microseconds since the epoch.
    `statement`: the one that ends the flush; None while rows flow."""

    def __init__(self, plan: TablePartitioning, last: Position) -> None:
        self.last = last
        self.end_us = 0
        self.statement: Ddl | None = None
        self._ends: list[Position] = []
        self._told: list[int] = []
        self._shapes: dict[int, Shape] = {}
        self.go_on(plan)

    def go_on(self, plan: TablePartitioning) -> None:
        """Goes on behind a statement: from here on `plan` says where rows go.  New partitions begin here."""
        self.statement = None
        self._groups = dict(plan.tables)
        self._homes = {number: self._groups.get(shape.name, -1) for number, shape in self._shapes.items()}
        fresh = plan.partitions - len(self._ends)
        self._ends += [self.last] * fresh
        self._told += [self.end_us] * fresh

    def take(self, batch: LogBatch) -> list[tuple[int, LogBatch]]:
        """Parts a batch; returns (partition, batch of it) for those that it concerns.  Raises NoGroup."""
        assert batch.prev == self.last and self.statement is None, "batches come in order, none behind a statement"
        for number, shape in batch.shapes.items():
            self._shapes[number] = shape
            self._homes[number] = self._groups.get(shape.name, -1)
        parts = self._split(batch)
        self.last = batch.last
        self.end_us = batch.end_us or self.end_us
        if batch.ddl is not None and batch.ddl.kind is not DdlKind.UNRELATED:
            self.statement = batch.ddl
            return [self._next(partition, ddl=batch.ddl) for partition in range(len(self._ends))]
        return [
            self._next(partition, tuple(transactions), tuple(rows))
            for partition, (transactions, rows) in enumerate(parts)
            if transactions
        ]

    def heartbeats(self) -> list[tuple[int, LogBatch]]:
        """Ends a flush: returns heartbeats that take all partitions to `last` and tell its time."""
        return [
            self._next(partition)
            for partition, (end, told) in enumerate(zip(self._ends, self._told, strict=True))
            if end != self.last or told != self.end_us
        ]

    def _next(
        self,
        partition: int,
        transactions: tuple[Transaction, ...] = (),
        rows: tuple[RowChange, ...] = (),
        ddl: Ddl | None = None,
    ) -> tuple[int, LogBatch]:
        prev, self._ends[partition] = self._ends[partition], self.last
        self._told[partition] = self.end_us
        shapes = {number: self._shapes[number] for number in sorted({row.table for row in rows})}
        return partition, LogBatch(prev, self.last, transactions, rows, shapes, ddl, self.end_us)

    def _split(self, batch: LogBatch) -> list[tuple[list[Transaction], list[RowChange]]]:
        """The transactions' parts and their rows, of each partition."""
        homes = self._homes_of(batch)
        parts: list[tuple[list[Transaction], list[RowChange]]] = [([], []) for _ in self._ends]
        if len(parts) == 1:
            return [(list(batch.transactions), list(batch.rows))]
        bounds = [*(transaction.first for transaction in batch.transactions), len(batch.rows)]
        continued = batch.prev.rows > 0  # the first transaction began in an earlier batch
        for transaction, end in zip(batch.transactions, bounds[1:], strict=True):
            firsts = [len(rows) for _, rows in parts]
            for row in batch.rows[transaction.first : end]:
                parts[homes[row.table]][1].append(row)
            everywhere = continued and transaction.complete
            continued = False
            for (transactions, rows), first in zip(parts, firsts, strict=True):
                if len(rows) > first or everywhere:
                    transactions.append(_part(transaction, first))
        return parts

    def _homes_of(self, batch: LogBatch) -> dict[int, int]:
        """The partitions by table number, once every table of the batch is known to have one."""
        for number in sorted({row.table for row in batch.rows}):
            if self._homes[number] < 0:
                raise NoGroup(self._shapes[number].name, batch.prev)
        return self._homes


def _part(whole: Transaction, first: int) -> Transaction:
    if first == whole.first:
        return whole
    return Transaction(whole.source, whole.number, first, whole.complete, whole.commit_us)
