"""Cuts a PostgreSQL table along its key, for readers of which each sees the table at a moment of its own.

Cut by blocks (`adapters.spark.read_ranges`), a row could be missed that VACUUM FULL moves between two readers, which no
log tells.  A row's key stays, or its change is in the log.  The server compares the key with literals of its own types,
so each piece ends where the next begins, whatever types and collations the key has.
"""

from __future__ import annotations

import itertools
from typing import Final

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.schema.create_table import qualified
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.adapters.spark.postgres_text import output_text
from tidelock.adapters.spark.read_ranges import Asked

_ALL: Final = "1 = 1"


async def key_pieces(server: Asked, table: SourceTable, rows: int) -> tuple[list[str], int]:
    """Returns predicates over the key's columns, named `p0`, `p1`, …, and how many rows there are.  Raises SourceError.
    """
    place = qualified("postgres", table.name)
    key, types = table.shape.primary_key, {c.name: c.column.type for c in table.columns}
    names = [quote("postgres", name) for name in key]
    columns, texts = ", ".join(names), ", ".join(map(output_text, names))
    bounds: list[str] = []
    after = ""
    while True:
        found = await server.ask(f"SELECT {texts} FROM {place}{after} ORDER BY {columns} LIMIT 1 OFFSET {rows - 1}")
        if not found:
            break
        bounds.append(", ".join(_literal(text, types[name]) for text, name in zip(found[0], key, strict=True)))
        after = f" WHERE ({columns}) > ({bounds[-1]})"
    ((rest,),) = await server.ask(f"SELECT count(*) FROM {place}{after}")
    cut = ", ".join(f"p{n}" for n in range(len(key)))
    edges = [None, *bounds, None]
    return [_between(cut, low, high) for low, high in itertools.pairwise(edges)], len(bounds) * rows + int(rest)


def _between(columns: str, low: str | None, high: str | None) -> str:
    parts = [f"({columns}) > ({low})"] if low else []
    parts += [f"({columns}) <= ({high})"] if high else []
    return " AND ".join(parts) or _ALL


def _literal(text: str, type: str) -> str:
    """Writes a value as the server has written it; no setting changes what it says."""
    escape = "E" if "\\" in text else ""
    return f"{escape}'" + text.replace("\\", "\\\\").replace("'", "''") + f"'::{type}"
