"""Everything a machine may want done, as data.  A reply quotes the effect's `id`; a stale one is dropped."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.conflict_options import TableWords
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Ddl, LogBatch, Position, Row, Shape, TableName
from tidelock.engine.model.schema import Binding

ChangeId: TypeAlias = tuple[str, int, int]
"""A row's change as the log names it: source and number of its transaction, and ordinal."""


class EffectId(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """Id of an effect: `epoch` of the owner and `counter` within it, unique for the feed's life."""

    epoch: int
    counter: int


class DeleteRows(msgspec.Struct, gc=False):
    """Delete the rows with these keys (`Binding.key_of`, no key twice).  A key that is not there is no error.

    Without a key each entry is a whole row and deletes exactly one equal row; entries may repeat.

    `befores`: the rows' before-images, in the order of `keys`, where they are compared (`verify: image`): a row that is
    not there, or not as its before-image, is an error (ErrorKind.ROW).
    `version`: the position of the version column, else -1 (`verify: version`).  A row whose version is above that of
    its before-image stays.
    `absent`: none of these is there, as the log says, and nothing is deleted; one that is there is an error
    (ErrorKind.ROW).
    """

    table: Binding
    keys: list[Row]
    befores: list[Row] | None = None
    version: int = -1
    absent: bool = False

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        return self.befores is not None or self.absent


class UpsertRows(msgspec.Struct, gc=False):
    """Write whole rows, no key twice; a row that is there by *key* is overwritten, except that no unique column is set.

    `fresh`: the log says that none of these rows exists at the target, so the sink may try a plain insert first.
    A unique value held by a row of another key is an error (ErrorKind.ROW): never overwrite or move that row.
    Without a key: plain inserts.

    `absent`: a row that is there by key is an error (ErrorKind.ROW), with `verify: image`.
    `version`: as in `DeleteRows`.  A row that is there by key is overwritten only where its version is below that of
    the new one, unique columns included; no version (NULL) is an error (ErrorKind.ROW).
    `replaces`: a row of another key that holds a wanted unique value is deleted first (`on_conflict: replace`).
    `stamp`: where a row holds its stamp's time and site (`conflicts: stamp`).  A row is written only if its stamp is
    above that of the row there, and goes again if a tombstone has a greater one; of a table of tombstones likewise, and
    rows that are older than theirs go.
    `blind`: a row that is there by key is overwritten, unique columns included (`engine.batch.blind_steps`).
    `displaces`: the change that each row is of, where rows of other keys make room as with `replaces`, and are written
    to `tidelock_conflicts`.
    """

    table: Binding
    rows: list[Row]
    fresh: bool
    absent: bool = False
    version: int = -1
    replaces: bool = False
    stamp: tuple[int, int] | None = None
    blind: bool = False
    displaces: tuple[ChangeId, ...] = ()

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        looks = self.absent or self.version >= 0 or self.replaces
        return looks or self.blind or self.stamp is not None


class UpdateRows(msgspec.Struct, gc=False):
    """Update by key in list order: row `keys[i]` gets the values `rows[i]`, unique columns and key included where they
    differ.

    Only used when a batch runs in log order, and for rows that hold `UNKNOWN`: such a value stays as it is at the
    target, and nothing is written in its place.  A row that is not there is inserted; one that cannot be, as it holds
    `UNKNOWN`, is an error (ErrorKind.ROW).
    `keys` are whole rows (before-images) where the table has no key; then exactly one equal row changes.
    `moves`: some row's unique or key column changes, so rows must be written one after another.

    `befores`, `version` and `replaces`: as in the other steps.  A row that is compared is never inserted.  Where a row
    moves under `version` and its new key is taken, the row there is overwritten if its version is below, and the one
    under the old key goes if its own is not above that of the before-image.
    """

    table: Binding
    keys: list[Row]
    rows: list[Row]
    moves: bool
    befores: list[Row] | None = None
    version: int = -1
    replaces: bool = False

    @property
    def checks(self) -> bool:
        """True where the target's rows are looked at before they are changed."""
        return self.befores is not None or self.replaces


Step: TypeAlias = DeleteRows | UpsertRows | UpdateRows


class ParkedRow(msgspec.Struct, frozen=True, array_like=True):
    """A change set aside in `tidelock_parked`. `source`, `number`, `ordinal` name it in the log; `change`: msgpack of
    `engine.batch.parked_rows.ParkedChange`, so it can be retried without the log; `key`: a short text of its key for
    people."""

    source: str
    number: int
    ordinal: int
    schema: str
    table: str
    key: str
    error: str
    change: bytes


class DecideChange(msgspec.Struct, gc=False):
    """Decide about one change that comes from a spoke, which the target does not take as it is (`engine.two_way`).

    In the batch's transaction: the row of its key and those that hold unique values which it wants are locked and read,
    spelled as the log does; what `engine.two_way.deciding.judged` says of them is written; what lost is recorded; the
    arbiter's rows under the keys of the change are told (`RowsToTell`), unless the change stands as it came.
    Where an operator has to decide, `parked` is parked.

    `policies`: of its table.  `refused`: what was decided could not be written, for this reason, so nothing is, and the
    change is kept out; `foreign`: the reason is a foreign key.
    """

    table: Binding
    before: Row | None
    after: Row | None
    policies: TableWords
    parked: ParkedRow
    refused: str = ""
    foreign: bool = False


class RowsToTell(msgspec.Struct, gc=False):
    """Tell the rows with these keys (`Binding.key_of`), as they stand when the transaction commits, to the spoke: a
    *verdict* each, no row included."""

    table: Binding
    keys: list[Row]


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
    come back.  `end`: the position after it.
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
