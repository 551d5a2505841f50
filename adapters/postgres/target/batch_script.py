"""The statements of a batch, or of a piece of one: all that travels in one script (`session`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.statements import TableStatements
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.effects import ApplyBatch, ApplyPiece, Step, UpsertRows

PIECE = "tidelock_piece"
"""The savepoint that makes a piece one."""


class BatchScript:
    """Writes scripts for the batches of one feed and table group.

    `careful`: rows are upserted that `UpsertRows.fresh` says are not there.  Methods raise Unwritable.
    """

    def __init__(self, bookkeeping: BookkeepingSql, zero_dates: ZeroDates) -> None:
        self._bookkeeping = bookkeeping
        self._zero_dates = zero_dates
        self._tables: dict[Binding, TableStatements] = {}

    def batch(self, effect: ApplyBatch, careful: bool) -> Iterator[str | CopyCommand]:
        """Yield the statements of a whole batch, without COMMIT where it is held."""
        yield "BEGIN"
        yield from self._bookkeeping.receipt(effect.id, effect.covered)
        yield from self._steps(effect.steps, careful)
        yield from self._bookkeeping.park(effect.parked)
        yield from self._bookkeeping.unpark(effect.unparked)
        if not effect.held:
            yield "COMMIT"

    def piece(self, effect: ApplyPiece, careful: bool) -> Iterator[str | CopyCommand]:
        """Yield the statements of a piece, behind the savepoint PIECE.

        Constraints that may wait for the COMMIT do not: a row that breaks one is to be found in its piece.  After each
        piece they hold, as they held at the source after its last row.
        """
        yield f"SAVEPOINT {PIECE}"
        yield "SET CONSTRAINTS ALL IMMEDIATE"
        yield from self._steps(effect.steps, careful)
        yield from self._bookkeeping.park(effect.parked)
        if effect.covered is not None:
            yield self._bookkeeping.complete(effect.batch, effect.covered)
        yield f"RELEASE SAVEPOINT {PIECE}"

    def forget_tables(self) -> None:
        """Forget the tables as they were: a statement has changed them, or another owner may have."""
        self._tables.clear()

    def _steps(self, steps: Sequence[Step], careful: bool) -> Iterator[str | CopyCommand]:
        for step in steps:
            table = self._tables.get(step.table)
            if table is None:
                table = self._tables[step.table] = TableStatements(step.table, self._zero_dates)
            yield from table.of(step, careful)


def trusts_fresh(steps: Sequence[Step]) -> bool:
    """Tell whether a row is inserted plainly, as the log says that it is not there."""
    return any(isinstance(step, UpsertRows) and step.fresh and step.table.key for step in steps)
