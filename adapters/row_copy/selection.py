"""Selects the rows of a chunk by SQL at the source, in agreement with `engine.model.chunk_ranges` to the last row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.mysql.charsets import is_utf8
from tidelock.adapters.row_copy import postgres_selection
from tidelock.adapters.row_copy.columns import asked
from tidelock.adapters.schema.source_table import SourceColumn
from tidelock.engine.model.chunk_ranges import By, ChunkSplit, Rank
from tidelock.engine.model.records import Kind

_TEXTS: Final = (Kind.DECIMAL, Kind.DATE, Kind.DATETIME, Kind.TIMESTAMP, Kind.TIME, Kind.UUID, Kind.INET4)
_WHOLE: Final = (Kind.INT, Kind.YEAR, Kind.BIT)
# Every text of these can be written in Unicode: what the server cannot write it and the ledger would spell differently.
_CHARSETS: Final = ("latin1", "ucs2", "utf16", "utf16le", "utf32")

SCANNED: Final = (By.BUCKET, By.DIGEST)
"""Ways to split that cost a scan of the table, whichever of its chunks are read."""

SourceOf: TypeAlias = Callable[[str], SourceColumn]
"""The source's column by the target's name."""


def is_spelled(column: SourceColumn) -> bool:
    """Returns whether a bucket can be computed from this column, at the source as in the log."""
    if column.column.type:  # PostgreSQL's
        return postgres_selection.is_spelled(column.column)
    kind, charset = column.column.kind, column.column.charset
    if kind in (Kind.TEXT, Kind.ENUM, Kind.SET):
        return is_utf8(charset) or charset in _CHARSETS
    return kind is Kind.BINARY or kind in _TEXTS or kind in _WHOLE


def condition(split: ChunkSplit, chunk: int, source: SourceOf) -> str:
    """Returns a condition over the source table `t`.  Chunks by KEYS have none: `adapters.row_copy.keyed` reads them.
    """
    if not split.bounds:
        return "1 = 1"
    low, high = split.span(chunk)
    columns = [] if split.by in SCANNED else [source(name) for name in split.columns]
    names, written = [name_of(column) for column in columns] or [_rank(split, source)], writer(columns)
    parts = [at_or_behind(names, written(low))] if low is not None else []
    parts += [before(names, written(high))] if high is not None else []
    return " AND ".join(parts)


def writer(columns: Sequence[SourceColumn]) -> Callable[[Rank], list[str]]:
    """Returns the function that writes a rank, or the begin of one, as literals of these columns."""
    if not any(column.column.type for column in columns):
        return _plain
    return lambda rank: [postgres_selection.literal(c.column, part) for c, part in zip(columns, rank, strict=False)]


def _plain(rank: Rank) -> list[str]:
    return [str(part) for part in rank]


def place(split: ChunkSplit, source: SourceOf) -> str:
    """Returns SQL for the number of a row's chunk, by BUCKET or DIGEST."""
    bounds = ", ".join(str(rank) for (rank,) in split.bounds)
    if split.by is By.DIGEST:
        return f"width_bucket({_rank(split, source)}, ARRAY[{bounds}]::bigint[])::bigint"
    return f"INTERVAL({_rank(split, source)}, {bounds})"


def at_or_behind(names: Sequence[str], low: Sequence[str]) -> str:
    """Returns (names) >= (low), spelled so that the server reads a range of its index."""
    return _beside(names, low, ">", ">=")


def behind(names: Sequence[str], place: Sequence[str]) -> str:
    """Returns (names) > (place), spelled alike."""
    return _beside(names, place, ">", ">")


def before(names: Sequence[str], high: Sequence[str]) -> str:
    """Returns (names) < (high), spelled alike."""
    return _beside(names, high, "<", "<")


def _beside(names: Sequence[str], place: Sequence[str], side: str, last: str) -> str:
    """`side`: on which side of the place, `<` or `>`.  `last`: how the last column is compared."""
    first, value = names[0], place[0]
    if len(place) == 1:
        return f"{first} {last} {value}"
    return f"{first} {side}= {value} AND ({first} {side} {value} OR ({_beside(names[1:], place[1:], side, last)}))"


def _rank(split: ChunkSplit, source: SourceOf) -> str:
    if split.by is By.DIGEST:
        return postgres_selection.digest([(source(name).column, name_of(source(name))) for name in split.columns])
    return f"CRC32(CONCAT_WS('_', {', '.join(_spelled(source(name)) for name in split.columns)}))"


def _spelled(column: SourceColumn) -> str:
    kind = column.column.kind
    if kind in _WHOLE:
        return f"({name_of(column)} + 0)"
    if kind is Kind.BINARY:
        return f"HEX({name_of(column)})"
    if kind is Kind.DECIMAL:
        return f"HEX({asked(column).sql})"
    if kind in _TEXTS:
        return f"HEX(CAST({name_of(column)} AS CHAR CHARACTER SET utf8mb4))"
    return f"HEX(CONVERT({name_of(column)} USING utf8mb4))"


def name_of(column: SourceColumn) -> str:
    """Returns the quoted name of a column of `t`."""
    return f"t.{quote('postgres' if column.column.type else 'mysql', column.name)}"


def listed(columns: Sequence[SourceColumn]) -> str:
    """Returns the select list, named `c0`, `c1`, …."""
    return ", ".join(f"{asked(column).sql} AS c{n}" for n, column in enumerate(columns))
