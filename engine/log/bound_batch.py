"""A batch of the log bound to the target's tables.

It converts its rows to changes, which are planned, or puts them on piles, where they wait for more of their tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.packed_rows import Made, PackedRows, Pile
from tidelock.engine.model.records import RowChange, Transaction
from tidelock.engine.model.schema import Binding
from tidelock.engine.parallel.segments import Change

_SAMPLED = 4


class BoundBatch:
    """Converts a batch's rows to changes.  `bindings`: those of the batch's tables, by their numbers in it."""

    __slots__ = ("_batch", "bindings")

    def __init__(self, batch: LogBatch, bind: Callable[[Collection[int]], dict[int, Binding]]) -> None:
        """`bind`: returns the bindings of shapes with these numbers (`RelationCache.bind`)."""
        self._batch = batch
        packed = _packed(batch)
        self.bindings = bind(dict.fromkeys([row.table for row in batch.rows]) if packed is None else packed.tables)

    def changes(self) -> list[Change]:
        """Returns the changes of all rows, in log order."""
        packed = _packed(self._batch)
        if packed is not None:
            return packed.changes(Change, self.bindings, self._batch.transactions)
        changes: list[Change] = []
        for transaction, rows in self._transactions():
            changes += self._of(transaction, rows)
        return changes

    @property
    def packed(self) -> bool:
        """Tells whether its rows are packed, and no objects yet."""
        return _packed(self._batch) is not None

    def pile(self) -> Pile:
        """Returns an empty pile for rows of this batch."""
        packed = _packed(self._batch)
        return ChangePile() if packed is None else packed.pile()

    def accepts(self, pile: Pile) -> bool:
        """May rows of this batch go onto the pile?"""
        return isinstance(pile, ChangePile) is not self.packed

    def pour(self, piles: Mapping[Binding, Pile]) -> list[Change]:
        """Put each row onto the pile of its table.  Returns the changes of those that have none."""
        packed = _packed(self._batch)
        if packed is not None:
            return packed.pour(piles, Change, self.bindings, self._batch.transactions)
        rest: list[Change] = []
        for transaction, rows in self._transactions():
            for change in self._of(transaction, rows):
                pile = piles.get(change.binding)
                if pile is None:
                    rest.append(change)
                else:
                    assert isinstance(pile, ChangePile), "rows that are objects already are not packed"
                    pile.add(change)
        return rest

    def _of(self, transaction: Transaction, rows: tuple[RowChange, ...]) -> list[Change]:
        bindings, source, number = self.bindings, transaction.source, transaction.number
        return [Change(bindings[row.table], row.before, row.after, source, number, row.ordinal) for row in rows]

    def _transactions(self) -> Iterator[tuple[Transaction, tuple[RowChange, ...]]]:
        batch = self._batch
        ends = [*(transaction.first for transaction in batch.transactions[1:]), len(batch.rows)]
        for transaction, end in zip(batch.transactions, ends, strict=False):  # none where there are no rows
            yield transaction, batch.rows[transaction.first : end]


def _packed(batch: LogBatch) -> PackedRows | None:
    """Returns the rows of the batch, if they are packed."""
    return None if type(batch.rows) is tuple else cast(PackedRows, batch.rows)


class ChangePile:
    """Pile of changes, for rows that are objects already."""

    __slots__ = ("_changes", "_size", "_weighed")

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._weighed = 0
        self._size = 0

    def add(self, change: Change) -> None:
        """Put a change on the pile."""
        self._changes.append(change)

    @property
    def rows(self) -> int:
        """Number of changes on the pile."""
        return len(self._changes)

    @property
    def size(self) -> int:
        """About how many bytes its rows take, as a sample of those that came since it was asked for last tells."""
        if more := self._changes[self._weighed :]:
            some = more[:: -(-len(more) // _SAMPLED)]
            self._size += sum([change.size for change in some]) * len(more) // len(some)
            self._weighed = len(self._changes)
        return self._size

    def changes(self, make: Callable[..., Made]) -> list[Any]:
        """Returns the changes on the pile; `make` is for piles that hold none yet."""
        return self._changes
