"""Copies in a feed's bookkeeping: what operators want copied or repaired, and how far each table is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from tidelock.adapters.operator.store import Books
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Row, TableName

Mode: TypeAlias = Literal["copy", "keep", "repair", "resync"]
_AT_ONCE = 1000  # wishes in one statement: PostgreSQL takes 65,535 arguments
_THIS = "WHERE feed = %s"


class CopiedTable(msgspec.Struct, frozen=True):
    """How far the copy of a target table is.  `wanted`: it has not begun.  `refused`: why it will not.  `rows`: in the
    `merged` ones of its `chunks`; `seconds`: since something of it changed."""

    table: str
    chunks: int = 0
    merged: int = 0
    rows: int = 0
    seconds: float | None = None
    wanted: bool = False
    refused: str = ""

    @property
    def done(self) -> bool:
        return not self.wanted and not self.refused and self.merged == self.chunks

    def with_chunk(self, rows: int | None, seconds: float) -> CopiedTable:
        """With what the bookkeeping says of one chunk more; `rows`: None while it is not merged."""
        least = seconds if self.seconds is None else min(seconds, self.seconds)
        if rows is None:
            return msgspec.structs.replace(self, seconds=least)
        return msgspec.structs.replace(self, merged=self.merged + 1, rows=self.rows + rows, seconds=least)


async def want(book: Books, mode: Mode, wishes: Sequence[tuple[TableName, Row | None]]) -> None:
    """Ask for target tables, or for rows of them by their keys: all in one transaction, since a copy that begins takes
    away whatever asks for its tables.  What was refused of these tables before is forgotten.  Raises TargetError."""
    place, feed = book.table("tidelock_wanted"), book.feed.name
    await book.session.execute("BEGIN")
    for table in dict.fromkeys(table for table, _ in wishes):
        refused = f"DELETE FROM {place} {_THIS} AND mode = 'refused' AND table_schema = %s AND table_name = %s"
        await book.session.execute(refused, feed, table.schema, table.table)
    now = time.time_ns() // 1000  # an ordinal never comes again: who carries wishes out remembers them
    for first in range(0, len(wishes), _AT_ONCE):
        some = wishes[first : first + _AT_ONCE]
        values = list[str | int | bytes | None]()
        for ordinal, (table, key) in enumerate(some, now + first):
            packed = None if key is None else msgspec.msgpack.encode(key)
            values += (feed, ordinal, table.schema, table.table, mode, packed)
        await book.session.execute(
            f"INSERT INTO {place} (feed, grp, ordinal, table_schema, table_name, mode, row_key) "
            f"VALUES {', '.join(['(%s, 0, %s, %s, %s, %s, %s)'] * len(some))}",
            *values,
        )
    await book.session.execute("COMMIT")


async def resync_pending(book: Books) -> bool:
    """Is the copy of a resync (`adapters.app.resync`) wanted, and has not begun?  Raises TargetError."""
    wanted = f"SELECT 1 FROM {book.table('tidelock_wanted')} {_THIS} AND mode = 'resync' LIMIT 1"
    return bool(await book.session.fetch(wanted, book.feed.name))


async def copies(book: Books) -> tuple[CopiedTable, ...]:
    """Tables that are copied, were copied, or are wanted to be, by name; rows that are repaired are none of them.
    Raises TargetError."""
    seen: dict[str, CopiedTable] = {}
    chunks = await book.session.fetch(
        f"SELECT table_schema, table_name, chunk, split, rows_merged, {book.age('changed_at')} "
        f"FROM {book.table('tidelock_chunks')} {_THIS} ORDER BY 1, 2, 3",
        book.feed.name,
    )
    for schema, table, chunk, split, rows, age in chunks:
        name = f"{schema}.{table}"
        if chunk == 0:
            read = msgspec.msgpack.decode(split, type=ChunkSplit)
            if read.by is By.KEYS:
                continue
            seen[name] = CopiedTable(name, chunks=read.chunks)
        if name in seen:
            seen[name] = seen[name].with_chunk(None if rows is None else int(rows), float(age))
    wishes = await book.session.fetch(
        f"SELECT table_schema, table_name, mode, row_key FROM {book.table('tidelock_wanted')} {_THIS} "
        "AND mode <> 'repair' ORDER BY ordinal",
        book.feed.name,
    )
    for schema, table, mode, words in wishes:
        name = f"{schema}.{table}"
        refused = str(msgspec.json.decode(words, type=Alarm)) if mode == "refused" else ""
        seen[name] = CopiedTable(name, wanted=mode != "refused", refused=refused)
    return tuple(seen[name] for name in sorted(seen))
