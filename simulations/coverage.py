"""Coverage that a campaign must reach: counters of `World.coverage` that none may leave at zero."""

from __future__ import annotations

from tidelock.engine.model.schema_change import DdlKind
from tidelock.simulations.plan import FAULTS

_MERGES = ("insert, update", "insert, delete", "update, update", "update, delete", "delete, insert")
_EFFECTS = (
    "ApplyBatch", "CommitBatch", "RollbackBatch", "SaveCheckpoint", "ApplyDdl", "RequestResend", "Halt", "StepDown",
    "ApplyPiece", "CaughtUp", "BeginCopy", "ReadChunk", "MergeChunk", "DropStaged", "RefuseCopy",
)  # fmt: skip
_COPIES = ("BeginCopy", "ReadChunk", "MergeChunk", "DropStaged")
_DEATHS = (
    "ApplyBatch", "ApplyPiece", "CommitBatch", "RollbackBatch", "SaveCheckpoint", "ApplyDdl", "RequestResend", "Halt",
)  # fmt: skip

EXPECTED: tuple[str, ...] = (
    *(f"fault: {name}" for name in FAULTS),
    *(f"merged: {pair}" for pair in _MERGES),
    *(f"waits in a chain of {n}" for n in range(2, 10)),
    "waits in a chain of 10 or more",
    "a lane has a table whole",
    "waits for a lane that has its table whole",
    *(f"effect: {name}" for name in _EFFECTS),
    *(f"crash before {name}" for name in (*_DEATHS, *_COPIES)),
    *(f"taken over with a batch {stage}" for stage in ("queued", "open", "committing", "rolling")),
    *(f"taken over during {name}" for name in ("SaveCheckpoint", "ApplyDdl", "RollbackBatch")),
    *(f"source: ddl {kind}" for kind in DdlKind),
    *(f"halted: {kind}" for kind in ("ddl", "gap", "purged", "unreadable", "target", "copy", "OtherHistory")),
    *(
        f"log: {what}, {than}"
        for what in ("reset", "put back", "put back behind the checkpoint")
        for than in ("shorter", "longer")
    ),
    *(f"log: {how}" for how in ("disk", "replica", "expired")),
    "source: unique values handed over",
    "source: unique values of two rows swapped",
    "source: keys of two rows traded",
    "source: keys changed",
    "source: cascade logged",
    "source: tables emptied with the one that they refer to",
    "source: cascade not logged",
    "source: from the target's side",
    "source: from a third node",
    "source: row enters the filter",
    "source: row leaves the filter",
    "source: row without a column of a unique index",
    "source: row goes from one of two tables to the other",
    "key moved",
    "parked: the target refuses the row",
    "parked: an earlier change of its row is",
    "parked: a constraint refuses it",
    "parked, then applied",
    "parked, then given up",
    "parked, then emptied with the table",
    "operator: retry",
    "operator: skip",
    "zombie rejected",
    "receipt answers a batch that was in doubt",
    "committed without an answer",
    "not committed, without an answer",
    "checkpoint stored without an answer",
    "statement took effect without an answer",
    "target forgot commits",
    "owner of a target that forgot is told so",
    "target's own column written",
    "streamed: committed",
    "streamed: a row parked",
    "streamed: pieces after a parked row",
    "streamed: cut off amid a piece",
    "streamed: rolled back as its end does not come",
    "streamed: taken over anew",
    "copy: chunk merged",
    "copy: begun again",
    "copy: begun without an answer",
    "copy: refused, since another is about to begin",
    "copy: refused, since the table is being copied",
    "copy: chunk merged where rows are kept",
    "copy: row parked that the target refuses",
    "copy: last image parked to be tried by itself",
    "copy: rows that a merge is refused for are found",
    "repair: row of the target changed by others",
    "repair: begun",
    "repair: chunk merged",
    "repair: row touched meanwhile",
    "repair: parked change overtaken",
    "repair: given up",
    "image: a row is not as before",
    "copy: a chunk could not be read",
    "copy: a reader waits for what the stream has taken",
    "copy: a table without a key was read in one view",
    "copy: change of a pending chunk dropped",
    "copy: row touched while its chunk was open",
    "copy: row deleted while its chunk was open",
    "copy: half of a move between chunks applied",
    "copy: unique value moved between chunks",
    "copy: what was staged is lost",
    *(f"copy: taken over with a chunk {state}" for state in ("pending", "reading", "staged", "merged")),
    "copy: taken over during a merge or a beginning",
    *(f"copy: merge failed, {trouble}" for trouble in ("transient", "in_doubt", "row", "fenced", "rewound", "target")),
)
