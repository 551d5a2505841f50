"""Protocol of a database target: the effects of the apply machine that a sink carries out.

A sink decides nothing.  Each method carries one effect out and returns the event that answers it; server errors become
`Failure`s (`engine.model.errors.ErrorKind`), never exceptions.  An exception out of a sink is a bug and stops the feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from tidelock.adapters.ports.operator_error import OperatorError
from tidelock.engine.model.errors import Alarm, Failure
from tidelock.engine.model.records import Position, Row, TableName
from tidelock.engine.protocol import effects, events

BatchAnswer: TypeAlias = events.BatchCommitted | events.BatchReady | events.BatchFailed


class Wanted(msgspec.Struct, frozen=True):
    """A row of `tidelock_wanted`: a table (as the target names it) that is to be copied, its rows to be written over
    (`copy`) or kept (`keep`), or which must be empty (`fill`); the first also where nothing may be applied without it
    (`resync`); or, with its `key`, a row that is to be read again (`repair`)."""

    ordinal: int
    table: TableName
    mode: Literal["copy", "fill", "keep", "repair", "resync"]
    key: Row | None = None


class Control(msgspec.Struct, frozen=True):
    """The requests of operators since the last look: `desired_state` ('running' | 'paused'), failed rows queued for
    retry or skip, and tables or rows queued to be read again.
    """

    desired_state: str
    wishes: tuple[events.ParkedKey, ...]
    wanted: tuple[Wanted, ...] = ()


class Sink(Protocol):
    """A target database of one feed and table group.

    Connections: one per lane (opened on first use), one for checkpoints and control.  All sessions run READ COMMITTED
    with a lock timeout.  `lane` in an effect picks the connection; effects of one lane never overlap.
    """

    async def take_over(self, tables: Sequence[TableName], start: Position | None) -> events.TakenOver:
        """Takes the feed over: raises the epoch (waiting for, then killing, older sessions), commits, then reads
        checkpoint, receipts, failed rows, chunks and the tables' catalogue in a new transaction.

        `start` becomes the checkpoint where none is stored, and is stored at once.  Clears a stored halt, and drops
        what older owners staged.  Raises TargetError for the operator, and Overtaken (`adapters.operator.runs`) where
        another run came since ours looked.
        """
        ...

    async def apply(self, effect: effects.ApplyBatch) -> BatchAnswer:
        """Applies a batch in one transaction, and commits it unless the effect says that the commit comes later."""

    async def apply_piece(self, effect: effects.ApplyPiece) -> events.BatchReady | events.BatchFailed:
        """Applies a piece under a savepoint: whatever is wrong with a row leaves the transaction as it was.

        A transaction that is not open any more is answered as TRANSIENT trouble.
        """
        ...

    async def commit(self, effect: effects.CommitBatch) -> events.BatchCommitted | events.BatchFailed:
        """Commits a batch that was applied before."""

    async def rollback(self, effect: effects.RollbackBatch) -> events.BatchRolledBack:
        """Rolls a batch back.  May arrive while `apply` of the same batch still runs: interrupts it (`apply` then
        answers nothing more).
        """
        ...

    async def save_checkpoint(self, effect: effects.SaveCheckpoint) -> events.CheckpointSaved | events.CheckpointFailed:
        """Stores the checkpoint."""

    async def settle(self) -> Failure | None:
        """Returns None where all that was reported as committed is on disk and this owner is still the owner; else
        COMMITS_LOST or FENCED, or what kept us from knowing.
        """
        ...

    async def apply_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName], votes: Mapping[int, int] = {}
    ) -> events.DdlApplied | events.DdlFailed:
        """Runs a statement.

        `votes` (group to epoch): the feed's groups, which must all be found at these epochs and stay there until the
        statement has run.  Where one has a newer owner nothing runs, and the trouble is TRANSIENT.  With them a
        TRUNCATE removes the failed rows of all groups of the feed.  A statement that is noted as passed does not run
        again.
        """
        ...

    async def pass_ddl(
        self, effect: effects.ApplyDdl, tables: Sequence[TableName]
    ) -> events.DdlApplied | events.DdlFailed:
        """Notes for good that the statement has passed without us, and reads the tables."""
        ...

    async def begin_copy(self, effect: effects.BeginCopy) -> events.CopyBegun | events.CopyFailed:
        """Begins a copy, and removes the requests for these tables from `tidelock_wanted`."""
        ...

    async def merge_chunk(self, effect: effects.MergeChunk) -> events.BatchCommitted | events.BatchFailed:
        """Merges a chunk on a session of its own: batches of all lanes go on meanwhile."""
        ...

    async def find_refused(self, effect: effects.FindRefused) -> events.RefusedFound | events.BatchFailed:
        """Finds the staged rows for which the target refuses a merge, on the session of merges."""
        ...

    async def drop_staged(self, staged: effects.EffectId) -> None:
        """Removes what is staged under this id, if anything is.  Best effort: a takeover removes the rest."""
        ...

    async def refuse(self, wanted: Sequence[TableName], alarm: Alarm) -> None:
        """Refuses requests for these tables.

        In `tidelock_wanted` their `mode` becomes `refused` and their `row_key` JSON of the alarm, for `tidelock
        status`.  `control` tells of them no more; `begin_copy` removes them.
        """
        ...

    async def record_halt(self, effect: effects.Halt) -> bool:
        """Stores the alarm (and statement) in `tidelock_owner.halt` as JSON.  Returns False where a newer owner has the
        feed.
        """
        ...

    async def control(self) -> Control:
        """Reads what operators asked for."""

    async def close(self) -> None:
        """Closes all connections."""


class TargetError(OperatorError):
    """The target cannot be used: `args[0]` says what and where, `hint` what to do.  Holds no secret.

    `passing`: the server itself says that it cannot now (too many connections, a full disk, read-only, starting).
    `unreachable`: no connection to it came about, or it was lost before the answer."""

    def __init__(self, message: str, hint: str, *, passing: bool = False, unreachable: bool = False) -> None:
        super().__init__(message, hint)
        self.passing = passing
        self.unreachable = unreachable
