"""Messages of `pgoutput`, protocol 1 with values as text: from bytes to what they say.

| byte | message                                                                                        |
|------|------------------------------------------------------------------------------------------------|
| B, C | a transaction begins, and is committed; between them is all of it, as it was at its commit     |
| O    | the transaction came to the source by replication                                              |
| R, Y | the columns of a table whose rows follow; the name of a type that is not built in              |
| I    | a row is inserted                                                                              |
| U    | a row is updated: the new one, and before it the old one (O), its old key (K), or neither      |
| D    | a row is deleted: the old one (O), or its key (K)                                              |
| T    | tables are emptied                                                                             |
| M    | a message that somebody wrote into the log (`pg_logical_emit_message`)                         |

A row is a count of columns and for each NULL, *unchanged* (a long value that the update left alone and the log leaves
out), or a text with its length.  In an old key the columns that are not of it are NULL, whatever they are.

Everything here raises one of `damage.MALFORMED` for bytes that are no such message, trailing ones included.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

BEGIN, COMMIT, ORIGIN, RELATION, TYPE = b"BCORY"
INSERT, UPDATE, DELETE, TRUNCATE, MESSAGE = b"IUDTM"
NEW, OLD, KEY = b"NOK"
NULL, UNCHANGED, TEXT = b"nut"

_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01, from which PostgreSQL counts
_BEGIN: Final = Struct(">xQqI")
_COMMIT: Final = Struct(">xBQQq")
_MESSAGE: Final = Struct(">xBQ")
_OID: Final = Struct(">xI")
_COLUMN: Final = Struct(">Ii")
_TRUNCATE: Final = Struct(">xIB")
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_UNSIGNED: Final = Struct(">I")


class Unchanged:
    """Type of `LEFT_OUT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LEFT_OUT"


LEFT_OUT: Final = Unchanged()
"""Stands in a tuple for a long value that an update left alone: the log does not hold it."""
Text: TypeAlias = bytes | Unchanged | None
Tuple: TypeAlias = tuple[Text, ...]


class Begin(NamedTuple):
    """`commit_lsn`: where the commit will stand; `commit_us`: its time, microseconds since 1970."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """`end_lsn`: the place behind the commit, from which reading goes on."""

    commit_lsn: int
    end_lsn: int
    commit_us: int


class Origin(NamedTuple):
    commit_lsn: int
    name: str


class RelationColumn(NamedTuple):
    """`type`, `modifier`: oid and typmod.  `is_key`: of the replica identity, which is every column under FULL."""

    name: str
    type: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    """`identity`: letter of the replica identity, `d`efault, `n`othing, `f`ull or `i`ndex."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Type(NamedTuple):
    oid: int
    schema: str
    name: str


class Truncate(NamedTuple):
    oids: tuple[int, ...]
    cascades: bool
    restarts_identity: bool


class LogicalMessage(NamedTuple):
    """`transactional`: it came in the transaction that is open."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


class RowMessage(NamedTuple):
    """A row that was inserted, updated or deleted, undecoded.

    `old`: the row before, or its key (`is_key`: columns that are not of it are None, whatever they are).
    """

    kind: int
    oid: int
    old: Tuple | None
    is_key: bool
    new: Tuple | None

    @property
    def is_update(self) -> bool:
        """Is it a row that was updated?"""
        return self.kind == UPDATE


def begin(b: bytes) -> Begin:
    """Reads B."""
    lsn, when, xid = _BEGIN.unpack(b)
    if lsn >> 63 or not 0 <= when + _EPOCH_US < 1 << 63:
        raise ValueError("a commit at no place or time that there is")
    return Begin(lsn, when + _EPOCH_US, xid)


def commit(b: bytes) -> Commit:
    """Reads C."""
    flags, lsn, end, when = _COMMIT.unpack(b)
    if flags or lsn >> 63 or end >> 63:
        raise ValueError(f"a commit with flags {flags} at {lsn}, which ends at {end}")
    return Commit(lsn, end, when + _EPOCH_US)


def origin(b: bytes) -> Origin:
    """Reads O."""
    name, end = _string(b, 9)
    _finish(b, end)
    return Origin(int.from_bytes(b[1:9]), name)


def relation(b: bytes) -> Relation:
    """Reads R.  A schema without a name is `pg_catalog`."""
    (oid,) = _OID.unpack_from(b)
    schema, p = _string(b, 5)
    name, p = _string(b, p)
    identity = chr(b[p])
    if identity not in "dnfi":
        raise ValueError("a relation with a replica identity that nobody knows")
    (count,) = _SHORT.unpack_from(b, p + 1)
    p += 3
    if count < 0:
        raise ValueError(f"a relation with {count} columns")
    columns = []
    for _ in range(count):
        flags = b[p]
        if flags > 1:
            raise ValueError(f"a column with flags {flags}")
        column, p = _string(b, p + 1)
        type_, modifier = _COLUMN.unpack_from(b, p)
        p += _COLUMN.size
        columns.append(RelationColumn(column, type_, modifier, flags == 1))
    _finish(b, p)
    if len({column.name for column in columns}) < count:
        raise ValueError("a relation with two columns of one name")
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def type_(b: bytes) -> Type:
    """Reads Y."""
    (oid,) = _OID.unpack_from(b)
    schema, p = _string(b, 5)
    name, p = _string(b, p)
    _finish(b, p)
    return Type(oid, schema or "pg_catalog", name)


def truncate(b: bytes) -> Truncate:
    """Reads T."""
    count, flags = _TRUNCATE.unpack_from(b)
    if flags > 3 or len(b) != _TRUNCATE.size + 4 * count or not count:
        raise ValueError(f"a TRUNCATE of {count} tables, with flags {flags}, in {len(b)} bytes")
    oids = tuple(oid for (oid,) in _UNSIGNED.iter_unpack(b[_TRUNCATE.size :]))
    return Truncate(oids, bool(flags & 1), bool(flags & 2))


def logical_message(b: bytes) -> LogicalMessage:
    """Reads M."""
    flags, lsn = _MESSAGE.unpack_from(b)
    if flags > 1:
        raise ValueError(f"a logical message with flags {flags}")
    prefix, p = _string(b, _MESSAGE.size)
    (size,) = _UNSIGNED.unpack_from(b, p)
    _finish(b, p + 4 + size)
    return LogicalMessage(flags == 1, lsn, prefix, b[p + 4 :])


def row_oid(b: bytes) -> int:
    """Reads whose row an I, U or D is."""
    (oid,) = _OID.unpack_from(b)
    return int(oid)


def row(b: bytes) -> RowMessage:
    """Reads I, U or D."""
    kind, oid, p = b[0], row_oid(b), 5
    old: Tuple | None = None
    new: Tuple | None = None
    mark = b[p]
    if mark in (OLD, KEY) and kind != INSERT:
        old, p = _tuple(b, p + 1)
        if LEFT_OUT in old:
            raise ValueError("an old row without a value that it has")
    elif mark != NEW or kind == DELETE:
        raise ValueError(f"a row that begins with {mark:#04x}")
    if kind != DELETE:
        if b[p] != NEW:
            raise ValueError(f"a new row that begins with {b[p]:#04x}")
        new, p = _tuple(b, p + 1)
        if kind == INSERT and LEFT_OUT in new:
            raise ValueError("an inserted row without a value that it has")
    _finish(b, p)
    return RowMessage(kind, oid, old, mark == KEY, new)


def _tuple(b: bytes, p: int) -> tuple[Tuple, int]:
    """Reads a row at `p`; returns where it ends, too."""
    (count,) = _SHORT.unpack_from(b, p)
    p += 2
    if count < 0:
        raise ValueError(f"a row of {count} columns")
    values: list[Text] = []
    for _ in range(count):
        kind = b[p]
        p += 1
        if kind == TEXT:
            (size,) = _INT.unpack_from(b, p)
            p += 4
            if not 0 <= size <= len(b) - p:
                raise ValueError(f"a value of {size} bytes where {len(b) - p} are left")
            values.append(b[p : p + size])
            p += size
        elif kind == NULL:
            values.append(None)
        elif kind == UNCHANGED:
            values.append(LEFT_OUT)
        else:
            raise ValueError(f"a value of kind {kind:#04x}")
    return tuple(values), p


def _string(b: bytes, p: int) -> tuple[str, int]:
    """Reads a text that a zero byte ends; returns where the next field begins, too."""
    end = b.index(0, p)
    return b[p:end].decode(), end + 1


def _finish(b: bytes, p: int) -> None:
    if p != len(b):
        raise ValueError(f"{len(b)} bytes, of which its fields take {p}")
