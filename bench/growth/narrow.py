"""*narrow*: a backlog that is quick to make: one small table, many rows a statement.

Sixty in a hundred changes are inserts, thirty updates, ten deletes, in transactions of 500.  A cycle updates and
deletes rows of the cycle before, so that nothing folds away within a batch, and the table grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.harness.workload.tables import Table
from bench.harness.workload.workload import Change, Kind, Transaction, Workload

TRANSACTION_ROWS: Final = 500
PLAN: Final = (*(Kind.INSERT,) * 12, *(Kind.UPDATE,) * 6, *(Kind.DELETE,) * 2)
INSERTED: Final = PLAN.count(Kind.INSERT) * TRANSACTION_ROWS
LEDGER: Final = "ledger"
NOTE_BYTES: Final = 20


class Narrow(Workload):
    """The model is three marks: the next new id, and the next ones to update and to delete.

    `note_bytes`: the length of each row's text; more of them only where memory is to be seen filling quickly.
    """

    name = "narrow"

    def __init__(self, note_bytes: int = NOTE_BYTES) -> None:
        columns = (
            ("id", "bigint", False),
            ("amount", "decimal(12,2)", False),
            ("note", f"varchar({note_bytes})", False),
        )
        self.specs = (Table(LEDGER, columns),)
        self._note = "'" + "note" * (note_bytes // 4) + "'"
        self._new = self._next_update = self._next_delete = 1
        self._step = 0
        super().__init__()

    def changes(self) -> Iterator[Change]:
        """One row at a time, a new one."""
        while True:
            yield Kind.INSERT, self._insert(1)

    def transactions(self, changes: int, seed: int) -> Iterator[Transaction]:
        """Yield transactions of exactly `changes` row changes in all; the same for every seed."""
        while changes > 0:
            size = min(TRANSACTION_ROWS, changes)
            changes -= size
            kind = self._turn()
            yield Transaction([self._statement(kind, size)], [kind] * size)

    def _turn(self) -> Kind:
        """The first cycle has no earlier rows to change: it inserts."""
        cycle, turn = divmod(self._step, len(PLAN))
        self._step += 1
        if turn == 0 and cycle:
            self._next_update = self._next_delete = self._new - INSERTED
        return PLAN[turn] if cycle else Kind.INSERT

    def _statement(self, kind: Kind, rows: int) -> str:
        if kind is Kind.INSERT:
            return self._insert(rows)
        if kind is Kind.UPDATE:
            first = self._next_update
            self._next_update += rows
            return f"UPDATE {LEDGER} SET amount = amount + 1 WHERE id BETWEEN {first} AND {first + rows - 1}"
        first = self._next_delete
        self._next_delete += rows
        return f"DELETE FROM {LEDGER} WHERE id BETWEEN {first} AND {first + rows - 1}"

    def _insert(self, rows: int) -> str:
        first, self._new = self._new, self._new + rows
        values = [f"({id_},{id_ % 9973}.25,{self._note})" for id_ in range(first, self._new)]
        return f"INSERT INTO {LEDGER} VALUES {','.join(values)}"
