"""Conflicts that a change meets at the site where it is applied, by the names that PostgreSQL 18 counts them under.

PostgreSQL finds `…_origin_differs` by the origin of the row's last writer, however long ago that was.  Here it is found
exactly: only where a change that the writer had *not seen* touched a shared register (`echo.EchoIndex.concerns`), or
where the row is not what the change's before-image says.  The image alone misses a row that went away from a value and
came back to it (history 15).  `update_deleted` is PostgreSQL 19's: the row is known to have been deleted here.
`foreign_key` is ours: a row that the change refers to is not here any more, or rows here refer to what it takes away.
"""

from __future__ import annotations

import enum

import msgspec

from tidelock.engine.model.records import Row


class Conflict(enum.Enum):
    INSERT_EXISTS = "insert_exists"
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    UPDATE_EXISTS = "update_exists"
    UPDATE_MISSING = "update_missing"
    UPDATE_DELETED = "update_deleted"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"
    FOREIGN_KEY = "foreign_key"


class WrittenBy(enum.Enum):
    """ARBITER: its own writers.  SPOKE: the feed from the spoke whose change is decided about.  ANOTHER: the feed from
    another spoke.  UNKNOWN: that cannot be told."""

    ARBITER = "arbiter"
    SPOKE = "spoke"
    ANOTHER = "another"
    UNKNOWN = "unknown"


class Writer(msgspec.Struct, frozen=True, gc=False):
    """Transaction of the arbiter that wrote a row last.  `at_us`: when it was committed, microseconds since the epoch;
    0: that is not known."""

    by: WrittenBy
    at_us: int = 0


NOT_TOLD = Writer(WrittenBy.UNKNOWN)


class Holder(msgspec.Struct, frozen=True, gc=False):
    """Another row that holds a value of a unique index which the change wants.  `columns`: those of the index.
    `writer`: as of `Met`."""

    columns: tuple[int, ...]
    row: Row
    writer: Writer = NOT_TOLD


class Met(msgspec.Struct, frozen=True, gc=False):
    """Rows that a change meets.

    `row`: of the key that it had before, of an insert its key.  `unseen`: a change that its writer had not seen touched
    a shared register here, or the row is not as its before-image says.  `deleted`: the row that is not there was
    deleted.  `holders`: other rows, of which none is `row`.  `writer`: of `row`, where times of commits are compared.
    """

    row: Row | None = None
    unseen: bool = False
    deleted: bool = False
    holders: tuple[Holder, ...] = ()
    writer: Writer = NOT_TOLD


def conflict_of_row(before: Row | None, after: Row | None, met: Met) -> Conflict | None:
    """Returns the conflict of the change with the row of its key."""
    if before is None:
        return Conflict.INSERT_EXISTS if met.row is not None else None
    if after is None:
        if met.row is None:
            return Conflict.DELETE_MISSING
        return Conflict.DELETE_ORIGIN_DIFFERS if met.unseen else None
    if met.row is None:
        return Conflict.UPDATE_DELETED if met.deleted else Conflict.UPDATE_MISSING
    return Conflict.UPDATE_ORIGIN_DIFFERS if met.unseen else None


def conflict_of_values(before: Row | None, after: Row | None, met: Met) -> Conflict | None:
    """Returns the conflict of the change with other rows over unique values; for an insert, its key's row counts."""
    if after is None or not met.holders:
        return None
    if len(met.holders) + (before is None and met.row is not None) > 1:
        return Conflict.MULTIPLE_UNIQUE_CONFLICTS
    return Conflict.INSERT_EXISTS if before is None else Conflict.UPDATE_EXISTS
