"""Chunks of a table, and which of them a row belongs to, told by exact integers (design 8).

A table that is copied while it changes is split into chunks.  The reader at the source says with SQL which rows are in
a chunk, the ledger of the apply machine says it of the rows that come by in the log, and the two must agree to the last
row: one that both leave to the other is lost, one that both take may come back after its delete.  So nothing is
compared that two programs may order differently: no text of a language (collations), no floating point number, no time.
A row's *rank* is a tuple, its chunk is the number of bounds at or below the rank.

| by      | rank                                           | at the source                                          |
|---------|------------------------------------------------|--------------------------------------------------------|
| NUMBERS | the values of integer columns, the key's first | `a > 5 OR (a = 5 AND b >= 7)`: a range of its index    |
| ORDERED | the values of columns that have one order      | `u >= '7e…' AND …`: a range of its index               |
| BUCKET  | one number of 32 bits: CRC-32 of the columns   | `CRC32(CONCAT_WS('_', …))`: a scan, many buckets a scan |
| DIGEST  | the same, of their SHA-256 the first 32 bits   | `sha256(concat_ws('_', …))`: as BUCKET; PostgreSQL      |
| KEYS    | none: chunk 1 are the rows of a list of keys   | those rows, by key                                      |

The text that a bucket is made of joins the columns by `_`: integers as decimal digits, text and everything that
`engine.model.records` spells as text as upper-case hex of its UTF-8, binary values as upper-case hex.  A bound may be
shorter than a rank, as a tuple it is then before every rank that begins with it: `(5,)` is where the fives begin.

*Columns that have one order* are those of a PostgreSQL source whose order is their bytes' or their number's: integers;
UUIDs, whose text has the order of their bytes; texts of the collation C, which compares the bytes of UTF-8, as Python
compares code points; and numbers of up to MOST_DIGITS digits, whose rank is the number without its point.  NaN, which
such a number may be, is behind all others, as there.

A list of keys is compared as the target's key compares (`engine.model.index`).  Of a row whose key does not fold
exactly it is UNKNOWN whether it is one of them.

A key changes its chunk with its bytes: 'a' to 'A' is a move even where the source takes both for one key.  That is
exact too, since a move is a delete in one chunk and an insert in the other.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from tidelock.engine.model.index import folded_key
from tidelock.engine.model.records import Column, Kind, Row, Shape, TableName, Value
from tidelock.engine.model.schema import Equality, SchemaMismatch

Rank: TypeAlias = tuple[int | str, ...]
"""Integers; ORDERED, also texts.  Two ranks of one split have the same types at the same places."""
UNKNOWN = -1
NAN: Final = "NaN"
MOST_DIGITS: Final = 18
"""Digits of a number with a rank: it, and that of NaN, has 64 bits."""


class By(enum.StrEnum):
    """Way to split a table into chunks (the table above)."""

    NUMBERS = "numbers"
    ORDERED = "ordered"
    BUCKET = "bucket"
    DIGEST = "digest"
    KEYS = "keys"


class ChunkSplit(msgspec.Struct, frozen=True, array_like=True):
    """Split of a table into chunks: chunk n holds the ranks from `bounds[n-1]` up to, and without, `bounds[n]`.

    `table`, `columns`: as the target names them.  `bounds`: ascending; none: the table is one chunk.
    `keep`: the target may hold rows, and those stay as they are.  `empty`: it must hold none as the copy begins.
    `keys`: by KEYS, rows that are to be read again, by their `columns`, which are the target's key: chunk 1; all
    other rows are chunk 0, which is not copied.  No keys: nothing is (what a repair that was given up leaves behind).
    """

    table: TableName
    by: By = By.BUCKET
    columns: tuple[str, ...] = ()
    bounds: tuple[Rank, ...] = ()
    keep: bool = False
    keys: tuple[Row, ...] = ()
    empty: bool = False

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return 2 if self.by is By.KEYS else len(self.bounds) + 1

    @property
    def keeps_target_rows(self) -> bool:
        """Tells whether the target's rows stay when the copy begins, and changes of them take effect all the time."""
        return self.keep or self.by is By.KEYS

    @property
    def merged(self) -> tuple[int, ...]:
        """Chunks that need no copying."""
        if self.by is not By.KEYS:
            return ()
        return (0,) if self.keys else (0, 1)

    def fault(self) -> str:
        """Returns why it says nothing sensible; '' where it does."""
        if any(not low < high for low, high in pairwise(self.bounds)):
            return "its bounds do not ascend"
        if (self.bounds or self.by is By.KEYS) and not self.columns:
            return "it names no column to split by"
        return ""

    def span(self, chunk: int) -> tuple[Rank | None, Rank | None]:
        """Returns (first rank of the chunk, first rank behind it); None: it has no end on that side."""
        return (
            self.bounds[chunk - 1] if chunk else None,
            self.bounds[chunk] if chunk < len(self.bounds) else None,
        )


def chunk_of(split: ChunkSplit, shape: Shape, equality: Mapping[str, Equality] = {}) -> Callable[[Row], int]:
    """Returns the function from a row of this shape to the number of its chunk, or UNKNOWN.  `equality`: how the
    target compares a column.

    Raises SchemaMismatch where the shape lacks a column; what is returned does so for a value that has no exact rank.
    """
    if not split.bounds and split.by is not By.KEYS:
        return lambda _row: 0
    at = {column.name: i for i, column in enumerate(shape.columns)}
    missing = [name for name in split.columns if name not in at]
    if missing:
        raise SchemaMismatch(
            f"{split.table} is being copied in chunks of its column {', '.join(missing)}, which the log no longer has: "
            "`tidelock copy FEED --table DB.TABLE` begins that copy anew"
        )
    positions = [at[name] for name in split.columns]
    if split.by is By.KEYS:
        return _listed(split, positions, tuple(equality.get(column, Equality.EXACT) for column in split.columns))
    bounds, name = split.bounds, split.table
    if split.by is By.NUMBERS:
        return lambda row: bisect_right(bounds, tuple([_number(row[p], name) for p in positions]))
    if split.by is By.ORDERED:
        ranks = [(p, _rank_of(shape.columns[p], name)) for p in positions]
        return lambda row: bisect_right(bounds, tuple([rank(row[p]) for p, rank in ranks]))
    binary = [shape.columns[p].kind is Kind.BINARY for p in positions]
    columns = list(zip(positions, binary, strict=True))
    rank_of = digest if split.by is By.DIGEST else bucket
    return lambda row: bisect_right(bounds, rank_of("_".join([_spelled(row[p], b, name) for p, b in columns])))


def _listed(split: ChunkSplit, positions: list[int], equalities: tuple[Equality, ...]) -> Callable[[Row], int]:
    wanted = {folded_key(key, equalities) for key in split.keys}
    if None in wanted:  # any row may be that one
        return lambda _row: 1

    def chunk(row: Row) -> int:
        key = folded_key(tuple([row[p] for p in positions]), equalities)
        return UNKNOWN if key is None else int(key in wanted)

    return chunk


def bucket(text: str) -> Rank:
    """Returns the rank of a row by the text of its columns."""
    return (crc32(text.encode("ascii")),)


def digest(text: str) -> Rank:
    """Returns the rank of a row by the text of its columns, as PostgreSQL computes it."""
    return (int.from_bytes(sha256(text.encode("ascii")).digest()[:4], "big"),)


def number_rank(column: Column, value: str) -> int:
    """Returns the rank of a number by its canonical text.  Raises ValueError where it is none."""
    if value == NAN:
        return int(10 ** (column.precision + 1))
    whole, _, fraction = value.partition(".")
    if len(fraction) != column.scale:
        raise ValueError(value)
    return int(whole + fraction)


def _rank_of(column: Column, table: TableName) -> Callable[[Value], int | str]:
    if column.kind is Kind.INT:
        return lambda value: _number(value, table)
    if column.kind is Kind.DECIMAL:
        return lambda value: _scaled(column, value, table)
    return lambda value: _word(value, table)


def _scaled(column: Column, value: Value, table: TableName) -> int:
    try:
        return number_rank(column, value)
    except (ValueError, AttributeError, TypeError):
        raise _unranked(table, "is no number of its column's scale") from None


def _word(value: Value, table: TableName) -> str:
    if type(value) is not str:
        raise _unranked(table, "is no text")
    return value


def _number(value: Value, table: TableName) -> int:
    if type(value) is not int:
        raise _unranked(table, "is no integer")
    return value


def _spelled(value: Value, binary: bool, table: TableName) -> str:
    match value:
        case int():
            return str(value)
        case str():
            return value.encode("utf-8", "surrogatepass").hex().upper()
        case bytes() if binary:
            return value.hex().upper()
        case bytes():
            raise _unranked(table, "is text that does not decode")
        case _:
            raise _unranked(table, "has no exact spelling")


def _unranked(table: TableName, why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{table} is being copied in chunks, and a value of the columns that say which row is in which {why}: "
        "`copy: {chunk_rows: …}` above its rows and `tidelock copy FEED --table DB.TABLE` copy it in one chunk"
    )
