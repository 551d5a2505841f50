"""Reads chunks of small tables by this process itself: a start of Spark costs more than all of their rows.

A table is small where the source has at most `spark.small_rows` rows of it.  That is asked anew for each read, as the
table changes meanwhile.  One that grows behind that question is read here to its end: rows come in batches of bounded
size, so more of them take time and no memory.

The source is asked for the same, with the same settings of the session, and its answers become values by the same
functions as with Spark (`columns`, `selection`, `task`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidelock.adapters.ports.staging import Columns
from tidelock.adapters.row_copy.job import FETCH_BYTES, MOST_ROWS, batch_rows
from tidelock.adapters.row_copy.selection import condition, listed
from tidelock.adapters.row_copy.source import CopySource
from tidelock.adapters.row_copy.task import by_column
from tidelock.adapters.spark.jdbc import MYSQL_START
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.model.chunk_ranges import ChunkSplit


async def is_small(server: SourceTables, table: CopySource, most: int) -> bool:
    """Returns whether the source has at most `most` rows of the table; with 0 no table is small.

    Raises SourceError.
    """
    if not most:
        return False
    some = f"SELECT 1 FROM {table.place} LIMIT {most + 1}"
    ((count,),) = await server.ask(f"SELECT COUNT(*) FROM ({some}) some_rows")
    return int(count) <= most


async def large(server: SourceTables, tables: Iterable[CopySource], most: int) -> list[CopySource]:
    """Returns the tables that are not small.  Raises SourceError."""
    return [one for one in tables if not await is_small(server, one, most)]


def rows_of_chunk(server: SourceTables, source: CopySource, split: ChunkSplit, chunk: int) -> Iterator[Columns]:
    """Yields batches of a chunk's rows, by column.  Raises TooLong, SourceError."""
    mapped, width = source.reading.columns(), len(source.read)
    where = condition(split, chunk, source.columns.__getitem__)
    if server.dialect == "mysql":
        server.rows(f"SET SESSION {MYSQL_START}")
    sql = f"SELECT {listed(source.read)} FROM {source.place} t WHERE {where}"
    for batch in _batches(server.stream(sql, batch_rows(source))):
        yield mapped(by_column(batch, width))


def _batches(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Cuts rows into batches of at most MOST_ROWS, and of FETCH_BYTES of text; a single row may have more."""
    batch, held = list[tuple[Any, ...]](), 0
    for row in rows:
        size = sum(len(value) for value in row if isinstance(value, str | bytes))
        if batch and (len(batch) == MOST_ROWS or held + size > FETCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(row)
        held += size
    if batch:
        yield batch
