"""Reads the rows of a list of keys for a repair: they are few, so a plain connection reads them, without Spark.

The server finds the rows by its index, as its own collation compares, some perhaps twice.  Of those, the rows are taken
that the ledger counts to the list, as the target's key compares.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelock.adapters.ports.staging import Columns
from tidelock.adapters.row_copy.selection import listed, name_of
from tidelock.adapters.row_copy.source import CopySource
from tidelock.adapters.row_copy.task import by_column
from tidelock.adapters.spark.keys import SideColumn, predicates
from tidelock.adapters.wiring.source_tables import SourceTables
from tidelock.engine.model.chunk_ranges import ChunkSplit, chunk_of
from tidelock.engine.model.records import Row
from tidelock.engine.model.schema import Binding, TargetTable


def rows_of_keys(
    server: SourceTables, source: CopySource, split: ChunkSplit, table: TargetTable
) -> Iterator[Columns]:
    """Yields batches of rows, by column.  Raises SchemaMismatch, SourceError."""
    columns = [source.columns[name] for name in split.columns]
    keys = [SideColumn(column.name, column.type, column.column) for column in columns]
    names = [name_of(column) for column in columns]
    chunk = chunk_of(split, source.mapping.shape, {column.name: column.equality for column in table.columns})
    mapped = source.reading.columns()
    key = Binding(0, source.mapping.shape, table).key_of
    seen = set[Row]()
    if server.dialect == "mysql":
        server.rows("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")  # else a zero date is no literal
    start = f"SELECT {listed(source.read)} FROM {source.place} t"
    for predicate in predicates(server.dialect, keys, names, split.keys):
        came = server.rows(f"{start} WHERE {predicate}")
        rows = zip(*mapped(by_column(came, len(source.read))), strict=True)
        found = {key(row): row for row in rows if chunk(row)}
        fresh = [row for name, row in found.items() if name not in seen]
        seen.update(found)
        yield by_column(fresh, len(source.columns))
