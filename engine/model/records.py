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

from tidelock.engine.model.origin import Origin

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


class DdlKind(enum.StrEnum):
    """Kind of statement to the barrier: it applies the first five, passes UNRELATED, halts on OTHER.

    ALTERED: tables are dropped or renamed, or their columns and keys changed in a way that the target can follow.
    SHADOW: it is about a table that the feed leaves out, and which may take the place of one that it takes: it is noted
    at the target, and changes no table there."""

    CREATE_TABLE = "create table"
    ADD_COLUMN = "add column"
    TRUNCATE = "truncate"
    ALTERED = "altered"
    SHADOW = "shadow"
    UNRELATED = "unrelated"
    OTHER = "other"


class AddedColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column that a table of a PostgreSQL source has got.  `fill`: the value that its old rows have; `spelled`: the
    same as the source spells it."""

    column: Column
    fill: Value = None
    spelled: str = ""


class ToldColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table that a PostgreSQL source has made.  `expression`: the server computes it by this, and the log
    has no values of it; '' of any other."""

    column: Column
    nullable: bool = True
    expression: str = ""


class ToldTable(msgspec.Struct, frozen=True, array_like=True):
    """A table that a PostgreSQL source has made, without rows.  `uniques`: names and columns of its unique indexes."""

    columns: tuple[ToldColumn, ...]
    primary_key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ToldUnique(msgspec.Struct, frozen=True, array_like=True):
    """A unique index that a table of a PostgreSQL source has got, lost, or has under another name.  `before`, `after`:
    its name then; '': there is none."""

    before: str
    after: str
    columns: tuple[str, ...]


class ToldChange(msgspec.Struct, frozen=True, array_like=True):
    """Changes that a PostgreSQL source's log tells of a table beside the columns that it has got, without a statement.

    `dropped`, `renamed` (from, to): columns.  `gone`: the table itself was dropped.  `name`: it has this one now.
    What only an event trigger tells: `retyped`: columns under the names that they have now, with the type of before
    and of now, where no value has changed; the same type twice: it may be NULL now.  `rekeyed`: the columns of the
    primary key before, and now.  `uniques`: in this order.  `made`: the table is new.
    """

    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    gone: bool = False
    name: TableName | None = None
    retyped: tuple[tuple[ToldColumn, ToldColumn], ...] = ()
    rekeyed: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    uniques: tuple[ToldUnique, ...] = ()
    made: ToldTable | None = None


class FormerColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of a MySQL or MariaDB source as it was at a place of the log.

    `type`: as the server spells it (COLUMN_TYPE).  `automatic`: AUTO_INCREMENT.  `generated`: the server computes it.
    A text's `charset` is '' where it is whatever the table had as its default when the column was made.
    """

    column: Column
    type: str
    nullable: bool = True
    collation: str = ""
    automatic: bool = False
    generated: bool = False


class FormerTable(msgspec.Struct, frozen=True, array_like=True):
    """A table of a MySQL or MariaDB source as it was at a place of the log.  `charset`, `collation`: its default."""

    columns: tuple[FormerColumn, ...]
    charset: str = ""
    collation: str = ""


class Ddl(msgspec.Struct, frozen=True, array_like=True):
    """A statement in the log that changes no rows; `schema` is the session's default database.

    `source`, `number`: its identity, as a transaction's.  `kind`, `tables` (source names) and `databases` (all of
    whose tables go with them): filled in by the classifier.  Neither, and not UNRELATED: it may concern any table.
    `added`: what an ADD_COLUMN or ALTERED adds, where the log tells columns and not a statement.
    `untold`: rows that were there before may hold other values since, or be others, and the log does not tell them.
    `path`: the sites by which feeds have brought it to the source, none where it was made there; behind the capture
    machine of a feed with sites the source is one of them.  `back`: so is the target: the statement has run there.
    `elsewhere`: it was made at another site than the one whose statements are taken: at which, and which one that is.
    `told`: what an ALTERED does besides, where the log tells it and not a statement.
    `sql_mode`: of the session, as MySQL's bits; None: the log does not tell.  `former`: the table of an ALTER TABLE as
    it was before that; None: that is not known.  `targets`: the target's names of `tables`, none where they are not
    known.
    `optional`: no row depends on what an ALTERED does, so that a target may go without it.
    `moment_us`: when it began at a MySQL or MariaDB source, in whole seconds, as µs since the epoch; None: not known.
    `zone`: its session's time zone; '': the log does not tell.
    """

    schema: str
    statement: str
    source: str
    number: int
    kind: DdlKind = DdlKind.OTHER
    tables: tuple[TableName, ...] = ()
    databases: tuple[str, ...] = ()
    added: tuple[AddedColumn, ...] = ()
    untold: bool = False
    path: tuple[str, ...] = ()
    back: bool = False
    elsewhere: tuple[str, str] | None = None
    told: ToldChange | None = None
    sql_mode: int | None = None
    former: FormerTable | None = None
    targets: tuple[TableName, ...] = ()
    optional: bool = False
    moment_us: int | None = None
    zone: str = ""


class LogBatch(msgspec.Struct, array_like=True):
    """The unit that moves: rows of whole or partial transactions in log order, or one DDL statement, never both.

    `prev`, `last`: positions before the first and after the last record; `prev` equals the previous batch's `last`.
    `rows`: a tuple, or PackedRows, which msgspec could not name here.
    `shapes`: tables first used in this batch, by their number.
    `end_us`: commit time of the last transaction seen, also of filtered ones (0: unknown).
    `resent`: this batch answers a resend request, so its `prev` is taken as is (design 4).
    `origins`: of transactions that came to the source from other sites.
    `seen`: a place in the *target's* log; the source had applied all before it when it made these changes.  None: that
    is not known, or the feed has no sites.
    """

    prev: Position
    last: Position
    transactions: tuple[Transaction, ...] = ()
    rows: tuple[RowChange, ...] = ()
    shapes: dict[int, Shape] = {}
    ddl: Ddl | None = None
    end_us: int = 0
    resent: bool = False
    origins: tuple[Origin, ...] = ()
    seen: Position | None = None


RECEIPT: Final = 0
CHECKPOINT: Final = 1
VERDICT: Final = 2


class SourceTransaction(msgspec.Struct, array_like=True):
    """One source transaction as an adapter decoded it, or a part of one too large to hold (`complete` False).

    `first_ordinal`: ordinal of the first row image in this part, counted before tables were filtered out;
    `ordinals`: how many row images this part spans, filtered ones included.
    `file`, `end`: where reading goes on after it.  `rows`: those of the wanted tables.
    `marks`: what feeds that write to the source have left in it, as (kind, row): receipts (`RECEIPT`, rows inserted
    into `tidelock_progress`, design 6), checkpoints (`CHECKPOINT`, rows of `tidelock_checkpoint`) and verdicts
    (`VERDICT`: the ordinal and a row of `tidelock_verdicts`).
    `verdicts`: the latter as changes: an insert of the row that stands, or a delete that tells the key alone.
    """

    source: str
    number: int
    file: str
    end: int
    rows: list[RowChange]
    first_ordinal: int = 0
    ordinals: int = 0
    complete: bool = True
    commit_us: int = 0
    ddl: Ddl | None = None
    marks: tuple[tuple[int, Row], ...] = ()
    verdicts: tuple[RowChange, ...] = ()


class SourceChunk(msgspec.Struct, array_like=True):
    """Chunk of a source's log, as a reader hands it over: about 500 rows of transactions, or exactly one with a DDL
    statement.

    `shapes`: tables first seen in this chunk, by number.  `last`: the position after it, GTIDs included.
    `server_us`: the time the source last told (also from heartbeats), microseconds since the epoch.
    """

    transactions: list[SourceTransaction]
    last: Position
    shapes: dict[int, Shape] = {}
    server_us: int = 0
