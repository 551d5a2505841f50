"""The statements around the steps of a batch, or of a piece of one: all that makes a transaction of them.

They travel in one script with those of the steps (`session`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.stamped_statements import StampedStatements
from tidelock.adapters.postgres.target.statements import StepStatements
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position
from tidelock.engine.protocol.effects import EffectId
from tidelock.engine.protocol.steps import ParkedRow, Step, UpsertRows

PIECE = "tidelock_piece"
"""The savepoint that makes a piece one."""


class BatchScript:
    """Frames the batches of one feed and table group.  `steps`: writes what is between `before` and `after`."""

    def __init__(self, bookkeeping: BookkeepingSql, zero_dates: ZeroDates) -> None:
        self._bookkeeping = bookkeeping
        self.steps = StepStatements(zero_dates, StampedStatements)

    def before(self, id_: EffectId, covered: bytes, origin: Origin | None, seen: Position | None) -> list[str]:
        """Return the beginning of a batch, with its receipt; the arguments as `ApplyBatch` has them."""
        return ["BEGIN", *self._bookkeeping.receipt(id_, covered, origin, seen)]

    def after(self, parked: Sequence[ParkedRow], unparked: Sequence[tuple[str, int, int]], *, held: bool) -> list[str]:
        """Return the end of a batch, without COMMIT where it is held."""
        end = [] if held else ["COMMIT"]
        return [*self._bookkeeping.park(parked), *self._bookkeeping.unpark(unparked), *end]

    def before_piece(self) -> list[str]:
        """Return the beginning of a piece: the savepoint PIECE.

        Constraints that may wait for the COMMIT do not: a row that breaks one is to be found in its piece.  After each
        piece they hold, as they held at the source after its last row.
        """
        return [f"SAVEPOINT {PIECE}", "SET CONSTRAINTS ALL IMMEDIATE"]

    def after_piece(self, batch: EffectId, parked: Sequence[ParkedRow], covered: bytes | None) -> list[str]:
        """Return the end of a piece of `batch`; `covered`: the whole batch's receipt, with its last piece."""
        complete = [] if covered is None else [self._bookkeeping.complete(batch, covered)]
        return [*self._bookkeeping.park(parked), *complete, f"RELEASE SAVEPOINT {PIECE}"]


def trusts_fresh(steps: Sequence[Step]) -> bool:
    """Tell whether a row is inserted plainly, as the log says that it is not there."""
    return any(isinstance(s, UpsertRows) and s.fresh and not s.absent and s.table.key for s in steps)
