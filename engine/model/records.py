"""The records that travel from a source log to a target: plain data, no behaviour.

Every value in a row is one of five primitives (`int`, `float`, `str`, `bytes`,
`None`), in one canonical form per `Kind`, so that a row can be compared, hashed,
put on a wire (msgspec) and written to any target without a second look at where
it came from:

| kind                         | value                                                        |
|------------------------------|--------------------------------------------------------------|
| INT, YEAR, BIT               | `int`                                                        |
| FLOAT, DOUBLE                | `float` (FLOAT: the exact 32-bit value widened)              |
| DECIMAL                      | `str`, all digits of the scale, `-12.30`; never an exponent  |
| DATE                         | `str` `YYYY-MM-DD`; zero dates keep their zeros              |
| DATETIME, TIMESTAMP          | `str` `YYYY-MM-DD HH:MM:SS[.f{scale}]`; TIMESTAMP in UTC     |
| TIME                         | `str` `[-]HH[H]:MM:SS[.f{scale}]`                            |
| TEXT                         | `str`; `bytes` where the bytes do not decode in the charset  |
| BINARY, GEOMETRY, VECTOR     | `bytes` (GEOMETRY: 4-byte SRID + WKB; BINARY(n) padded to n) |
| ENUM                         | `str` label, `''` for the error value (index 0)              |
| SET                          | `str`, labels joined by `,`                                  |
| JSON                         | `str`, the text of the document                              |
| UUID, INET4, INET6           | `str` in the server's own spelling                           |
| BOOL                         | `int`, 0 or 1                                                |
| OTHER                        | `str` in PostgreSQL's own spelling                           |

SQL NULL is `None` everywhere.  A value that the source's log does not tell is `UNKNOWN`, which is no value at all.

A PostgreSQL source has values that no kind above holds: NaN and the infinities of numbers, infinite moments, years
before 1 or after 9999.  Each is a `str` in PostgreSQL's own spelling (`NaN`, `-Infinity`, `infinity`, `0044-03-15 BC`,
`10000-01-01 00:00:00+00`), in a FLOAT column too.  A PostgreSQL target takes it as it is; for another target the row
fails, and the reason names the column.
"""

from __future__ import annotations

import enum
from typing import Any, Final, Literal, TypeAlias

import msgspec

_UNKNOWN_CODE: Final = 1  # MessagePack extension type


class Unknown(enum.Enum):
    """Type of `UNKNOWN`, which msgspec encodes as what its member holds."""

    UNKNOWN = msgspec.msgpack.Ext(_UNKNOWN_CODE, b"")

    def __repr__(self) -> str:
        return "UNKNOWN"

    __str__ = __repr__


UNKNOWN: Final = Unknown.UNKNOWN
"""Stands in a row for a value that the source's log does not tell.

PostgreSQL leaves out a long value that an update did not change, and all but the key of the row before; it does so
where a table has not REPLICA IDENTITY FULL, so only rows of a `Shape` that says so hold it.  It is equal to itself and
to no value: two of them say nothing of the values, so whoever compares rows asks for it first.  Nothing writes it to a
target.  There is one in a process: `value is UNKNOWN`.  An encoder of msgspec needs nothing for it; a decoder of rows
has `ext_hook=read_extension`.
"""

# int | float | str | bytes | None | Unknown; spelled Any because msgspec decodes no union of str and bytes.
Value: TypeAlias = Any
Row: TypeAlias = tuple[Value, ...]


def filled(row: Row, earlier: Row) -> Row:
    """Returns a row with the values of an earlier image of the same row where it does not tell its own."""
    return tuple([old if new is UNKNOWN else new for old, new in zip(earlier, row, strict=True)])


ReplicaIdentity: TypeAlias = Literal["full", "key", "nothing"]


def read_extension(code: int, data: memoryview) -> Unknown:
    """Returns the value of a MessagePack extension, for decoders of rows (`ext_hook`).  Raises ValueError."""
    if code == _UNKNOWN_CODE and not data:
        return UNKNOWN
    raise ValueError(f"a MessagePack extension of type {code} and {len(data)} bytes, which no row holds")


class Kind(enum.StrEnum):
    """Kind of a column's values, independent of how either database spells the type."""

    INT = "int"
    YEAR = "year"
    BIT = "bit"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    TEXT = "text"
    BINARY = "binary"
    ENUM = "enum"
    SET = "set"
    JSON = "json"
    GEOMETRY = "geometry"
    VECTOR = "vector"
    UUID = "uuid"
    INET4 = "inet4"
    INET6 = "inet6"
    BOOL = "bool"
    OTHER = "other"


class Column(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Column as the source log describes it.

    `length`: characters (TEXT), bytes (BINARY, INT width 1, 2, 3, 4 or 8) or bits (BIT); 0 where it says nothing.
    `precision`, `scale`: DECIMAL digits; `scale` is also the number of fractional second digits.
    `charset`: the logged charset of a TEXT, ENUM or SET column (`utf8mb4`, `latin1`, …).
    `labels`: the labels of an ENUM or SET.
    `type`: the type as PostgreSQL spells it, of a column of a PostgreSQL source; '' of any other.
    """

    name: str
    kind: Kind
    unsigned: bool = False
    length: int = 0
    precision: int = 0
    scale: int = 0
    charset: str = ""
    labels: tuple[str, ...] = ()
    type: str = ""


class TableName(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True, cache_hash=True):
    """Name of a table; `schema` is the MySQL database or the PostgreSQL schema."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """The columns of a table's rows, in row order, and the names of its primary key columns (empty: none logged).

    `identity`: which values of a row the log tells when it is updated or deleted (PostgreSQL's REPLICA IDENTITY).
    `full`: all, of both images; such rows never hold `UNKNOWN`.  `key`: the before-image has the key's values alone and
    `UNKNOWN` for the rest (an update that leaves the key alone has those of its new row), and a long value that an
    update did not change is `UNKNOWN` in its after-image.  `nothing`: the log has inserts alone.
    `primary_key`: under `key` the columns of the identity, which an index named by USING INDEX may say.
    """

    name: TableName
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    identity: ReplicaIdentity = "full"


class Position(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place between two transactions of a source log, or inside one.

    `file`, `offset`: the byte after the last transaction that is wholly before this place (where to read from).  Of
    PostgreSQL the file is `SYSTEM_IDENTIFIER/TIMELINE` and the offset an LSN.
    `rows`: how many row images of the transaction that starts at `offset` are before this place.  `gtids`: the GTID set
    wholly before this place, in the server's own spelling; empty without GTIDs.  `proof`: which log this is a place of
    (`engine.model.lineage`); empty where nobody knows.  Positions are equal where they name the same place.
    """

    file: str
    offset: int
    rows: int = 0
    gtids: str = ""
    proof: str = ""

    def __eq__(self, other: object) -> bool:
        if type(other) is not Position:
            return NotImplemented
        return (self.offset, self.rows, self.file, self.gtids) == (other.offset, other.rows, other.file, other.gtids)

    def __hash__(self) -> int:
        return self.offset << 16 ^ self.rows

    @property
    def order(self) -> tuple[int, int, int]:
        """Comparable within one server's log: (number of the file, byte offset, row).

        PostgreSQL's log is one file: a place that a timeline has lost is compared by its offset, and a check of the
        history tells it apart (`adapters.postgres.logical.history`).
        """
        number = 0 if "/" in self.file else int(self.file.rpartition(".")[2] or 0)
        return (number, self.offset, self.rows)

    def __str__(self) -> str:
        rows = f"+{self.rows}" if self.rows else ""
        offset = spelled_lsn(self.offset) if "/" in self.file else self.offset
        return f"{self.file}:{offset}{rows}"


def spelled_lsn(offset: int) -> str:
    """Spells an offset in PostgreSQL's log as its server does: `0/16B3748`."""
    return f"{offset >> 32:X}/{offset & 0xFFFFFFFF:X}"


class Transaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One source transaction, or the part of it that a log batch holds.

    `source`, `number`: its identity, the same after a failover or a re-read: the GTID without its sequence
    number (`0-101`, a server UUID) and that number; without GTIDs the log file and the transaction's offset.
    `first`: index of its first row in `LogBatch.rows`; its rows end where the next transaction's begin.
    `complete`: its commit is in this batch (a large transaction spans several batches).
    `commit_us`: source commit time, microseconds since the epoch (0: unknown).
    `origin`: n, where the n-th of `LogBatch.origins` is where it has been; 0: it began at the source.
    """

    source: str
    number: int
    first: int
    complete: bool = True
    commit_us: int = 0
    origin: int = 0


class RowChange(msgspec.Struct, array_like=True, gc=False):
    """One row's change: insert (`before` None), delete (`after` None) or update (both).

    `table`: number of its `Shape` in the stream (`LogBatch.shapes`).
    `ordinal`: index among all row images of its transaction, counted before any table is filtered out.
    """

    table: int
    before: Row | None
    after: Row | None
    ordinal: int
