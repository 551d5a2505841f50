"""Everything that can happen to a machine, as data."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm, Failure
from tidelock.engine.model.log_batch import LogBatch, SourceChunk
from tidelock.engine.model.records import Position, Row, Shape, TableName
from tidelock.engine.model.schema import TargetTable
from tidelock.engine.model.snapshot import Snapshot
from tidelock.engine.protocol.effects import EffectId


class Receipt(msgspec.Struct, frozen=True, array_like=True):
    """Row of `tidelock_progress`; `covered`: as `engine.log.receipts` encodes it."""

    id: EffectId
    covered: bytes


class ParkedKey(msgspec.Struct, frozen=True, array_like=True):
    """Row of `tidelock_parked`; `change` as in `ParkedRow`.  `wish`: '' | 'retry' | 'skip'."""

    source: str
    number: int
    ordinal: int
    table: TableName
    change: bytes
    wish: str = ""


class Copied(msgspec.Struct, frozen=True, array_like=True):
    """Table of `tidelock_chunks`: how it is split, and the numbers of the chunks that are merged."""

    split: ChunkSplit
    merged: tuple[int, ...] = ()


class TakenOver(msgspec.Struct, frozen=True):
    """The feed is ours: what the takeover read, in a new transaction after its epoch was committed (design 6).

    `ddl_passed`: (source, number) of the statement that the operator declared done or skipped.
    `log_end`: where the source's log stood after the takeover: every row that a receipt covers is before it.
    `chunks`: tables whose copying has begun, those that are done included.
    """

    epoch: int
    checkpoint: Position
    receipts: tuple[Receipt, ...] = ()
    parked: tuple[ParkedKey, ...] = ()
    tables: dict[TableName, TargetTable] = {}
    ddl_passed: tuple[str, int] | None = None
    log_end: Position | None = None
    chunks: tuple[Copied, ...] = ()


class LogArrived(msgspec.Struct, frozen=True):
    """Batches of the log in the order received, from the reader with this number (`RequestResend`); the first is 0.
    None: from the one asked for last.  `size`: the bytes that they came in, 0 if it does not matter."""

    batches: list[LogBatch]
    reader: int | None = None
    size: int = 0


class BatchReady(msgspec.Struct, frozen=True, gc=False):
    """Reply to a held `ApplyBatch`, or to an `ApplyPiece`: it is in the open transaction, which waits."""

    id: EffectId


class Decided(msgspec.Struct, frozen=True, array_like=True):
    """Decision about a change of a batch (`DecideChange`): is it parked, and the types of its conflicts, each
    with its outcome (`engine.two_way`)."""

    parked: bool
    conflicts: tuple[tuple[str, str], ...] = ()


class BatchCommitted(msgspec.Struct, frozen=True, gc=False):
    """Reply to `ApplyBatch`, `CommitBatch` and `MergeChunk`: it is committed, its receipt with it.

    `replaced`: rows of the target that were deleted, as others were to have their unique values.  `decided`: of a batch
    that decides, in the order of its questions."""

    id: EffectId
    replaced: int = 0
    decided: tuple[Decided, ...] = ()


class BatchRolledBack(msgspec.Struct, frozen=True, gc=False):
    """Reply to `RollbackBatch`: nothing is left of it, its locks included."""

    id: EffectId


class BatchFailed(msgspec.Struct, frozen=True):
    """Reply to `ApplyBatch`, `ApplyPiece`, `CommitBatch`, `MergeChunk` and `FindRefused`: it is rolled back, or its
    COMMIT is in doubt (`failure.kind`).

    `suspects`: tables and keys of rows that were in conflict just afterwards, where that was asked (`ApplyBatch.scan`).
    It is a hint: some may be missing, and some too many."""

    id: EffectId
    failure: Failure
    suspects: tuple[tuple[TableName, Row], ...] = ()


class CheckpointSaved(msgspec.Struct, frozen=True, gc=False):
    """Reply to `SaveCheckpoint`: it is committed."""

    id: EffectId


class CheckpointFailed(msgspec.Struct, frozen=True):
    """Reply to `SaveCheckpoint`: it is rolled back, or its COMMIT is in doubt."""

    id: EffectId
    failure: Failure


class DdlApplied(msgspec.Struct, frozen=True):
    """Reply to `ApplyDdl`: the statement took effect.

    `tables`: all selected tables of the target as they are now.  `emptied`: those that a TRUNCATE emptied; what was
    parked for them is gone with their rows.  `copied`: tables whose copying has begun, by their names of now; None: the
    statement left them as they were.
    """

    id: EffectId
    tables: dict[TableName, TargetTable]
    emptied: tuple[TableName, ...] = ()
    copied: tuple[Copied, ...] | None = None


class DdlFailed(msgspec.Struct, frozen=True):
    """Reply to `ApplyDdl`: the statement did not take effect, or not surely."""

    id: EffectId
    failure: Failure


class ChunksPlanned(msgspec.Struct, frozen=True):
    """Tables that are to be copied, from their first row on; what the target holds of them will go."""

    splits: tuple[ChunkSplit, ...]


class CopyBegun(msgspec.Struct, frozen=True, gc=False):
    """Reply to `BeginCopy`: it is committed."""

    id: EffectId


class CopyFailed(msgspec.Struct, frozen=True):
    """Reply to `BeginCopy`: it is rolled back, or its COMMIT is in doubt."""

    id: EffectId
    failure: Failure


class RefusedRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a chunk that the target refuses, in the shape that the log would give it, and why.

    `code`: the server's, where it is known (`Failure.code`)."""

    shape: Shape
    row: Row
    error: str
    code: str = ""


class ChunkStaged(msgspec.Struct, frozen=True):
    """Reply to `ReadChunk`: the chunk stands at the target, `rows` of them.

    `high`: where the source's log ended when the last of them had been read, or later: DBLog's high
    watermark.  `refused`: rows that are not among them.  `view`: all were read in this one view of the source.
    `shape`: of all these rows, as the log would give it.
    """

    id: EffectId
    high: Position
    rows: int
    refused: tuple[RefusedRow, ...] = ()
    view: Snapshot | None = None
    shape: Shape | None = None


class RefusedFound(msgspec.Struct, frozen=True):
    """Reply to `FindRefused`: without these staged rows the target takes the merge; none: it takes all by now."""

    id: EffectId
    rows: tuple[RefusedRow, ...]


class ChunkFailed(msgspec.Struct, frozen=True):
    """Reply to `ReadChunk`: the chunk could not be read or staged; it may be asked for again."""

    id: EffectId


class ParkedWished(msgspec.Struct, frozen=True):
    """The operator asked (`tidelock rows retry|skip`) for these rows, now read from the target with their `wish`."""

    rows: tuple[ParkedKey, ...]


class GoalSet(msgspec.Struct, frozen=True):
    """Somebody waits until everything at or below `position` is committed (`--until-caught-up`): emit CaughtUp then."""

    position: Position


class Paused(msgspec.Struct, frozen=True):
    """The operator's desired state changed: `paused` plans nothing new, what is in flight finishes."""

    paused: bool


class SourceFailed(msgspec.Struct, frozen=True):
    """The reader ended. `retryable`: a connection's error; else the log cannot be read on (purged, unknown event)."""

    alarm: Alarm
    retryable: bool


class Tick(msgspec.Struct, frozen=True):
    """Time has passed: `step`'s `now` says how much."""


class SourceRead(msgspec.Struct, frozen=True):
    """Capture: chunks from the source's log in order."""

    chunks: list[SourceChunk]


ApplyEvent: TypeAlias = (
    TakenOver
    | LogArrived
    | BatchReady
    | BatchCommitted
    | BatchRolledBack
    | BatchFailed
    | CheckpointSaved
    | CheckpointFailed
    | DdlApplied
    | DdlFailed
    | ChunksPlanned
    | CopyBegun
    | CopyFailed
    | ChunkStaged
    | RefusedFound
    | ChunkFailed
    | ParkedWished
    | GoalSet
    | Paused
    | SourceFailed
    | Tick
)
CaptureEvent: TypeAlias = SourceRead | Tick
