"""The error catalogue: what can go wrong outside, and the one policy that says what happens then."""

from __future__ import annotations

import enum
from typing import Final, assert_never

import msgspec

RESYNC: Final = "`tidelock resync FEED` lets it go on behind that place and copies its tables anew"
"""The way out where a log cannot be read on; `it` is the feed."""
UNLOGGED: Final = "What it left out so far is not in the log"
"""Words of a halt at a source that did not log all: once that is put right, nothing tells of it any more."""


DIFFERS: Final = "a row is not as the log has it before the change"
"""Words for a row that `verify: image` has found to be another; what was found and what was expected follows."""

IN_CONFLICT: Final = "in conflict with what stands at the arbiter; `tidelock conflicts list FEED` has both"
"""Words for a change that was decided about as its target said so of its row, before it was tried."""

MISSING: Final = (
    "a row that an update changed is not there, and it cannot be inserted, as the source's log lacks the long values "
    "that the update left alone; `tidelock verify FEED --report FILE`, then `tidelock repair FEED --from-report FILE`, "
    "write the row; ALTER TABLE … REPLICA IDENTITY FULL at the source has later updates logged whole"
)
"""Words for a row that holds `records.UNKNOWN` and that the target does not have; the table comes before them."""


class ErrorKind(enum.StrEnum):
    """Kind of error of a batch that did not commit, as a sink reports it.

    TRANSIENT: deadlock, serialisation failure, lock timeout, connection lost before COMMIT was sent; and what the
    server lacks for now: connections, disk, memory, the right to write.
    IN_DOUBT: COMMIT was sent and its answer was lost.
    ROW: a constraint, a type or a data error: some row of the batch is the cause.
    FENCED: a newer owner has taken the feed over.
    COMMITS_LOST: the target no longer holds commits that it had reported (a crash with asynchronous commit, a
    failover); what this owner remembers is worth nothing, but the target's own checkpoint and receipts are still
    exact.
    CHANGED: a table of the target has got columns that this owner does not know, and must tell of.
    TARGET: permission, missing table: the target itself must be mended.
    """

    TRANSIENT = "transient"
    IN_DOUBT = "in_doubt"
    ROW = "row"
    FENCED = "fenced"
    COMMITS_LOST = "rewound"
    CHANGED = "changed"
    TARGET = "target"


class Policy(enum.StrEnum):
    """Policy for a batch that failed: RETRY it identically; SPLIT it, to find the bad row; HALT the feed; STEP_DOWN,
    this owner is over."""

    RETRY = "retry"
    SPLIT = "split"
    HALT = "halt"
    STEP_DOWN = "stand_down"


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Failure of a batch.  `message`: the server's words with the table; no value of a secret.  `code`: SQLSTATE or
    errno."""

    kind: ErrorKind
    message: str
    code: str = ""


class Hindrance(msgspec.Struct, frozen=True, array_like=True):
    """Trouble that is tried again and again: the words of the last failure, and since when (microseconds)."""

    since: int
    message: str

    @classmethod
    def after(cls, before: Hindrance | None, now: int, message: str) -> Hindrance:
        """Returns the hindrance after another failure; `before`: the one so far, `now`: microseconds."""
        return cls(now if before is None else before.since, message)


class Alarm(msgspec.Struct, frozen=True, array_like=True):
    """Reason why the feed stopped, and what the operator should do.  `kind` is a stable word for scripts."""

    kind: str
    message: str
    hint: str
    position: str = ""
    table: str = ""

    def __str__(self) -> str:
        where = f" at {self.position}" if self.position else ""
        return f"{self.message}{where}. {self.hint}"


def lacks_parent(failure: Failure) -> bool:
    """Was a row refused because a row that it refers to is not there?

    PostgreSQL's SQLSTATE, MySQL's and MariaDB's numbers tell.  PostgreSQL says the same where a parent still has
    children.
    """
    return failure.kind is ErrorKind.ROW and failure.code in ("23503", "1216", "1452")


def breaks_foreign_key(failure: Failure) -> bool:
    """Was a row refused for a foreign key, as a parent or as a child?"""
    return lacks_parent(failure) or (failure.kind is ErrorKind.ROW and failure.code in ("23001", "1217", "1451"))


def policy(failure: Failure) -> Policy:
    """Returns the policy for a failed batch.  One that is in doubt is retried identically: its receipt's key answers
    (design 6)."""
    match failure.kind:
        case ErrorKind.TRANSIENT | ErrorKind.IN_DOUBT:
            return Policy.RETRY
        case ErrorKind.ROW:
            return Policy.SPLIT
        case ErrorKind.FENCED | ErrorKind.COMMITS_LOST | ErrorKind.CHANGED:
            return Policy.STEP_DOWN
        case ErrorKind.TARGET:
            return Policy.HALT
        case _:
            assert_never(failure.kind)
