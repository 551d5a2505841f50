"""Everything a machine may want done, as data.  A reply quotes the effect's `id`; a stale one is dropped."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.log_batch import LogBatch
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Position, Row, Shape, TableName
from tidelock.engine.model.schema_change import Ddl
from tidelock.engine.protocol.steps import DecideChange, ParkedRow, RowsToTell, Step


class EffectId(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """Id of an effect: `epoch` of the owner and `counter` within it, unique for the feed's life."""

    epoch: int
    counter: int


class ApplyBatch(msgspec.Struct, gc=False):
    """One target transaction: first the receipt (`INSERT … SELECT … FROM tidelock_owner … FOR SHARE`, design 6),
    then `steps` in order, then `parked` rows into and `unparked` ones (source, number, ordinal) out of
    `tidelock_parked`.

    `origin`, `seen`: what the receipt says of the changes (`engine.model.origin`, `LogBatch.seen`); None: they began at
    the source, and what that had seen is not known.

    `covered`: the receipt's bytes.  A receipt with this id that is already there means: committed before, answer
    `BatchCommitted`.  `held`: run all but COMMIT, answer `BatchReady`, wait for `CommitBatch` or `RollbackBatch`.
    `decide`: then changes to decide about, one after another, of rows that share no unique value; such a batch has no
    steps and is never held.  `told`: rows to tell, after all else.  `scan`: if a row is refused, the answer tells which
    rows are in conflict (`BatchFailed.suspects`).
    Answers: BatchCommitted, BatchFailed (after a full rollback; the connection is clean or replaced), BatchReady.
    """

    id: EffectId
    lane: int
    steps: list[Step]
    covered: bytes
    rows: int
    parked: tuple[ParkedRow, ...] = ()
    unparked: tuple[tuple[str, int, int], ...] = ()
    held: bool = False
    origin: Origin | None = None
    seen: Position | None = None
    decide: tuple[DecideChange, ...] = ()
    told: tuple[RowsToTell, ...] = ()
    scan: bool = False

    @property
    def looks(self) -> bool:
        """Tells whether it reads rows of the target before it writes or after."""
        return bool(self.decide or self.told)


class ApplyPiece(msgspec.Struct, gc=False):
    """Apply a part of a source transaction that is too large to hold, in the open transaction of the held `batch`.

    `steps` in order, then `parked` rows into `tidelock_parked`.  All of it takes effect in that transaction, or
    nothing of it.  `covered`: what the receipt of `batch` is to say from now on; None: it stays as it is.  Sent one at
    a time.
    Answers: BatchReady; BatchFailed, with ErrorKind.ROW only where the transaction is open and as it was before the
    piece.  After any other error it is rolled back, and nothing is left of `batch`.
    """

    id: EffectId
    batch: EffectId
    lane: int
    steps: list[Step]
    rows: int
    parked: tuple[ParkedRow, ...] = ()
    covered: bytes | None = None


class CommitBatch(msgspec.Struct, frozen=True, gc=False):
    """COMMIT the held batch.  Answers: BatchCommitted or BatchFailed."""

    id: EffectId


class RollbackBatch(msgspec.Struct, frozen=True, gc=False):
    """ROLLBACK the held (or still running) batch.  Answer: BatchRolledBack, once the server let go of its locks."""

    id: EffectId


class SaveCheckpoint(msgspec.Struct, frozen=True):
    """Write `position` and delete the receipts in `drop`, in one fenced transaction.  All up to `position` is
    committed.

    Answers: CheckpointSaved or CheckpointFailed.
    """

    id: EffectId
    position: Position
    drop: tuple[EffectId, ...]


class ApplyDdl(msgspec.Struct, frozen=True):
    """Run a statement that changes the schema.  All before it is committed, nothing after it runs.

    The adapter translates and runs it once the older owner's sessions are gone, then reads the tables again.  A
    TRUNCATE takes the rows that are parked for its table with it, in the same transaction: retried later they would
    come back.  `end`: the position after it.  Of one that is `back` the tables are read again and nothing runs.
    Answers: DdlApplied or DdlFailed.
    """

    id: EffectId
    ddl: Ddl
    end: Position


class BeginCopy(msgspec.Struct, frozen=True):
    """Begin the copy of some tables.  All up to `position` is committed, nothing behind it runs.

    In one fenced transaction: delete all rows of these tables (children before parents) and what is parked for them
    (neither where `ChunkSplit.keeps_target_rows`), write them to `tidelock_chunks` with no chunk merged (but
    `ChunkSplit.merged`), in the place of what stood there for them, and save the checkpoint as `SaveCheckpoint`
    does.  Doing it twice is doing it once.
    Answers: CopyBegun or CopyFailed.
    """

    id: EffectId
    splits: tuple[ChunkSplit, ...]
    position: Position
    drop: tuple[EffectId, ...] = ()


class ReadChunk(msgspec.Struct, frozen=True):
    """Read a chunk at the source (filtered and mapped as the stream is) into a staging table of its own at the target,
    named by `id`.  Reading may start only when everything up to `after` is visible to a reader there: log readers see a
    commit up to seconds before (counter-example 5).  Rows may be read at different moments.  Nothing but `id` ties what
    is staged to what the machine remembers: what another attempt staged is worth nothing.
    Answers: ChunkStaged or ChunkFailed; none after `DropStaged`."""

    id: EffectId
    split: ChunkSplit
    chunk: int
    after: Position


class MergeChunk(msgspec.Struct, gc=False):
    """Merge a staged chunk into its table, in one target transaction.  Nothing else writes to the table meanwhile.

    The transaction: the receipt `id`, which covers nothing, as the first statement of `ApplyBatch`; then the rows
    staged under `staged`, except those whose key (`key` columns) is in `without`, as `steps` make them (deletes, and
    updates of what is known of a row, concern staged rows; further rows come with upserts); then the chunk is
    marked as merged, and the checkpoint saved as `SaveCheckpoint` does: all up to `position` is committed, and no
    restart reads it again.

    No row of the chunk is there, so rows are inserted plainly: a clash is a real error.  With `split.keep` rows may be
    there, and win: what clashes with them is passed over.
    `gone`: first of all, rows with these keys are deleted; one that comes back may be overwritten in its place,
    unique columns too, as others may refer to it.
    `parked`: rows of the chunk that could not be put in place, `unparked`: changes that were parked for rows of
    `gone`, as in `ApplyBatch`.  `unrepaired`: rows that were asked for and stay as they are, by their key for people,
    and why: noted in `tidelock_wanted` in the same transaction.
    Foreign keys of the table to itself hold when all rows are in.
    `rows`: how many are staged.  If the count differs, the target has lost some: ErrorKind.COMMITS_LOST.
    Answers: BatchCommitted or BatchFailed.
    """

    id: EffectId
    staged: EffectId
    split: ChunkSplit
    chunk: int
    rows: int
    key: tuple[str, ...]
    without: list[Row]
    steps: list[Step]
    position: Position
    drop: tuple[EffectId, ...] = ()
    gone: list[Row] = []
    parked: tuple[ParkedRow, ...] = ()
    unparked: tuple[tuple[str, int, int], ...] = ()
    unrepaired: tuple[tuple[str, str], ...] = ()


class FindRefused(msgspec.Struct, gc=False):
    """Find the staged rows for which the target refuses `merge`, and leave everything as it is.

    All but COMMIT is tried as the merge does it, fence first, without the rows that were found, until the rest is
    taken; then it is rolled back.  Each row is answered in this `shape`, spelled as the log does.
    Answers: RefusedFound; BatchFailed, of kind ROW where the rows cannot be told.
    """

    id: EffectId
    merge: MergeChunk
    shape: Shape


class DropStaged(msgspec.Struct, frozen=True, gc=False):
    """Drop what is staged under this id; if it is still being read, stop.  No answer."""

    staged: EffectId


class RefuseCopy(msgspec.Struct, frozen=True):
    """Tell the operator that `tables` were to be copied and are not.  The feed goes on."""

    alarm: Alarm
    tables: tuple[TableName, ...]


class Publish(msgspec.Struct, frozen=True):
    """Capture: append the batch to the log.  Needs nothing durable before it; order is all."""

    batch: LogBatch


class RequestResend(msgspec.Struct, frozen=True):
    """Start a new reader behind `position`, in the place of the one before; its first batch is marked `resent`.

    `reader`: its number, to be told with each batch of it.  `further`: places that its log must hold too, or it is
    not the one that was read (`engine.log.receipts`); they name no GTID sets.
    """

    position: Position
    reader: int
    further: tuple[Position, ...] = ()


class Halt(msgspec.Struct, frozen=True):
    """Stop the feed and keep `alarm` where `tidelock status` finds it.  Nothing after it is applied.

    `ddl`: the statement that stopped it, for `tidelock ddl show|done|skip`.
    """

    alarm: Alarm
    ddl: Ddl | None = None


class StepDown(msgspec.Struct, frozen=True):
    """End this owner: stop at once, write nothing more.  `again`: take the feed over anew and go on; else a newer
    owner has it.

    `stream_idle_us`: the next owner's (`Options`); None: it stays.  It doubles where the end of a large transaction
    did not come in time: with the same patience every owner would meet the same, and none would end.
    """

    reason: str
    again: bool
    stream_idle_us: int | None = None


class CaughtUp(msgspec.Struct, frozen=True):
    """Tell that everything at or below the goal is committed and checkpointed."""


CopyEffect: TypeAlias = BeginCopy | ReadChunk | MergeChunk | FindRefused | DropStaged | RefuseCopy
ApplyEffect: TypeAlias = (
    ApplyBatch
    | ApplyPiece
    | CommitBatch
    | RollbackBatch
    | SaveCheckpoint
    | ApplyDdl
    | CopyEffect
    | RequestResend
    | Halt
    | StepDown
    | CaughtUp
)
CaptureEffect: TypeAlias = Publish | Halt
