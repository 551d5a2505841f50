"""Splits tables to be copied into chunks (`engine.model.chunk_ranges`), by what the source knows of them.

| a table                                              | is split by                                                  |
|------------------------------------------------------|--------------------------------------------------------------|
| whose key at the source begins with integers         | NUMBERS: these, its bounds found by walking the key, so that |
|                                                      | chunks are even where the key is skewed                      |
| of PostgreSQL, whose key begins with columns that    | ORDERED: the same                                            |
| have one order (`adapters.row_copy.one_order`)       |                                                              |
| with another key, each column spelled exactly        | BUCKET (of PostgreSQL DIGEST): few, large ones, as reading   |
|                                                      | any of them is a scan                                        |
| without a key, or that refers to itself              | nothing: it is one chunk                                     |

Where many rows share the integers that a key begins with, as those of one tenant do, the walk finds few chunks for many
rows, and buckets are the better ones.

What a chunk is told by need be neither unique nor the target's key; but a column that may be NULL has no rank, and one
that the feed leaves out is not in the ledger's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.row_copy.one_order import bytewise, has_one_order, rank_of
from tidelock.adapters.row_copy.selection import at_or_behind, behind, is_spelled, name_of, writer
from tidelock.adapters.row_copy.source import CopySource, NotCopied, sources
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.model.chunk_ranges import By, ChunkSplit, Rank
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import TargetTable

BUCKET_CHUNKS: Final = 10  # a chunk of buckets has the rows of so many others
MOST_BUCKETS: Final = 16
_POOR: Final = 2  # the walk found less than half of the bounds that so many rows should have
_RANKS: Final = 1 << 32


async def splits(
    feed: Feed, server: SourceTables, wanted: Sequence[Wanted], tables: Mapping[TableName, TargetTable]
) -> tuple[ChunkSplit, ...]:
    """Splits the queued tables or rows, all of one mode.  Raises NotCopied, SourceError."""
    targets = list(dict.fromkeys(wish.table for wish in wanted))
    if missing := [str(name) for name in targets if name not in tables]:
        raise NotCopied(f"{', '.join(missing)}: the target has no such table", "`tidelock init` makes it; see `check`")
    found = await sources(feed, server, targets)
    if wanted[0].mode == "repair":
        return tuple(_listed(found[name], tables[name], wanted) for name in targets)
    keep = wanted[0].mode == "keep"
    made = [await _split(found[name], tables[name], server, feed.copy.chunk_rows, keep) for name in targets]
    return tuple(replace(split, empty=wanted[0].mode == "fill") for split in made)


def _listed(source: CopySource, table: TargetTable, wanted: Sequence[Wanted]) -> ChunkSplit:
    if not table.key:
        raise NotCopied(f"rows of {table.name} cannot be repaired: it has no key", "`tidelock copy` copies it anew")
    if unread := [name for name in table.key if name not in source.columns]:
        raise NotCopied(
            f"rows of {table.name} cannot be repaired: the feed does not write {', '.join(unread)} of its key",
            "Correct `columns` in the feed",
        )
    keys = tuple(wish.key for wish in wanted if wish.table == table.name and wish.key is not None)
    return ChunkSplit(table.name, By.KEYS, table.key, keys=keys)


async def _split(source: CopySource, table: TargetTable, server: SourceTables, rows: int, keep: bool) -> ChunkSplit:
    whole = ChunkSplit(table.name, keep=keep)
    if not table.key or any(key.parent == table.name for key in table.foreign_keys):
        return whole
    leading = await _leading(source, server)
    if leading:
        bounds = await _walk(source, server, leading, rows)
        if len(leading) == len(source.key) or _POOR * len(bounds) >= source.rows / rows:
            numbers = all(source.columns[name].column.kind is Kind.INT for name in leading)
            return ChunkSplit(table.name, By.NUMBERS if numbers else By.ORDERED, leading, bounds, keep)
    columns = _bucketed(source, table)
    count = min(-(-source.rows // (rows * BUCKET_CHUNKS)), MOST_BUCKETS) if columns else 1
    bounds = tuple((_RANKS * n // count,) for n in range(1, count))
    by = By.DIGEST if source.dialect == "postgres" else By.BUCKET
    return ChunkSplit(table.name, by, columns, bounds, keep) if bounds else whole


async def _leading(source: CopySource, server: SourceTables) -> tuple[str, ...]:
    """Returns the columns to walk that the source's key begins with, as the target names them."""
    names = {column.name: name for name, column in source.columns.items()}
    texts = await bytewise(server, source.table.name) if source.dialect == "postgres" else frozenset[str]()
    found = list[str]()
    for column in source.key:
        name = names.get(column)
        if name is None or not has_one_order(source.columns[name], texts):
            break
        found.append(name)
    return tuple(found)


def _bucketed(source: CopySource, table: TargetTable) -> tuple[str, ...]:
    """Returns the source's key, else the target's, as the target names it; empty where no bucket can be computed from
    it.
    """
    names = {column.name: name for name, column in source.columns.items()}
    for key in (tuple(names.get(column, "") for column in source.key), table.key):
        columns = [source.columns.get(name) for name in key]
        if columns and all(column is not None and not column.nullable and is_spelled(column) for column in columns):
            return key
    return ()


async def _walk(source: CopySource, server: SourceTables, names: tuple[str, ...], rows: int) -> tuple[Rank, ...]:
    """Returns where chunks of `rows` rows begin, except the first; all rows that share a rank are in one chunk."""
    columns = [source.columns[name] for name in names]
    places, written = [name_of(column) for column in columns], writer(columns)
    text = "::text" if source.dialect == "postgres" else ""
    listed, order = ", ".join(f"{place}{text}" for place in places), ", ".join(places)
    bounds, where = list[Rank](), ""
    while True:
        found = await server.ask(f"SELECT {listed} FROM {source.place} t{where} ORDER BY {order} LIMIT 1 OFFSET {rows}")
        if found and bounds and rank_of(columns, found[0]) == bounds[-1]:
            after = behind(places, written(bounds[-1]))
            found = await server.ask(f"SELECT {listed} FROM {source.place} t WHERE {after} ORDER BY {order} LIMIT 1")
        if not found:
            return tuple(bounds)
        bounds.append(rank_of(columns, found[0]))
        where = f" WHERE {at_or_behind(places, written(bounds[-1]))}"
