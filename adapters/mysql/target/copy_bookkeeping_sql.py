"""SQL of what a feed keeps of its copies: which chunks are merged, what operators want.

The methods return statements for transactions that are fenced (`bookkeeping_sql`), or the answer that their name says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tidelock.adapters.bookkeeping.moved_copies import MovedCopiesSql
from tidelock.adapters.mysql.target.fencing import Fencing
from tidelock.adapters.mysql.target.literals import blob, text
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.staging import HELD_MODES, LEFT, NOT_ASKED, staged_prefix
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.events import Copied

_KEYS_EACH = 1000
_KEY = msgspec.msgpack.Decoder(Row)
_SPLIT: Final = msgspec.msgpack.Decoder(ChunkSplit)


class CopyBookkeepingSql:
    """The rows of one feed and table group in `tidelock_chunks`, and of the feed in `tidelock_wanted`.

    Requests are the feed's: whoever asks for a table need not know in which group it is.
    """

    def __init__(self, fencing: Fencing, feed: str, group: int) -> None:
        self.prefix = staged_prefix(feed, group)
        self._feed = f"feed={text(feed)}"
        self._mine = fencing.identity
        self._values = f"{text(feed)},{group}"
        self._table = f"{fencing.schema}.tidelock_"
        self._moved = MovedCopiesSql("mysql", lambda name: f"{fencing.schema}.{name}", feed)

    def begin(self, split: ChunkSplit) -> Iterator[bytes]:
        """Store the chunks of a split in the place of what stood there for the table; and its wish is granted.

        None of them is merged but those that need no copying.
        """
        yield f"DELETE FROM {self._table}chunks WHERE {self._mine} AND {named(split.table)}".encode()
        head = f"INSERT INTO {self._table}chunks (feed,grp,table_schema,table_name,chunk,split,rows_merged) VALUES "
        mine = f"({self._values},{text(split.table.schema)},{text(split.table.table)}"
        how = blob(msgspec.msgpack.encode(split))
        rows = [
            f"{mine},{chunk:d},{'NULL' if chunk else how},{'0' if chunk in split.merged else 'NULL'})"
            for chunk in range(split.chunks)
        ]
        for first in range(0, len(rows), _KEYS_EACH):
            yield (head + ",".join(rows[first : first + _KEYS_EACH])).encode()
        yield from self._granted(split)

    def merged(self, split: ChunkSplit, chunk: int, rows: int) -> bytes:
        """Note that the chunk is merged, and how many rows it has."""
        mine = f"{self._mine} AND {named(split.table)} AND chunk={chunk:d}"
        return f"UPDATE {self._table}chunks SET rows_merged={rows:d} WHERE {mine}".encode()

    def _granted(self, split: ChunkSplit) -> Iterator[bytes]:
        """Take away what asked for this copy, and what could not be had of the table before.

        Where rows are repaired, only what asked for these rows goes.  Where those of the target are kept, nothing goes
        that asks for more than that.  What is held for another file of the feed waits for it.
        """
        head = f"DELETE FROM {self._table}wanted WHERE {self._feed} AND {named(split.table)}"
        if split.by is By.KEYS:
            keys = [blob(msgspec.msgpack.encode(key)) for key in split.keys]
            yield f"{head} AND mode IN ('refused','{LEFT}')".encode()
            for first in range(0, len(keys), _KEYS_EACH):
                listed = ",".join(keys[first : first + _KEYS_EACH])
                yield f"{head} AND mode='repair' AND row_key IN ({listed})".encode()
        else:
            granted = f"IN ('keep','refused','{LEFT}')" if split.keep else f"NOT IN ({HELD_MODES})"
            yield f"{head} AND mode {granted}".encode()

    def refuse(self, tables: Sequence[TableName], alarm: Alarm) -> bytes:
        """Mark what asks for these tables as refused, with the alarm that says why."""
        told = blob(msgspec.json.encode(alarm))
        these = " OR ".join(f"({named(table)})" for table in tables)
        mine = f"{self._feed} AND mode NOT IN ({NOT_ASKED}) AND ({these})"
        return f"UPDATE {self._table}wanted SET mode='refused',row_key={told} WHERE {mine}".encode()

    def leave(self, table: TableName, rows: Sequence[tuple[str, str]]) -> Iterator[bytes]:
        """Note rows that a repair left as they are, by their keys, and why; its own ordinals are below zero."""
        if rows:
            names = f"{text(table.schema)},{text(table.table)}"
            yield (
                f"INSERT INTO {self._table}wanted (feed,grp,ordinal,table_schema,table_name,mode,row_key) "
                f"SELECT {self._values},LEAST(COALESCE(MIN(ordinal),0),0)-1,{names},'{LEFT}',"
                f"{blob(msgspec.json.encode(rows))} FROM {self._table}wanted WHERE {self._mine}"
            ).encode()

    async def moved(self, session: TargetSession, moves: Mapping[TableName, TableName | None]) -> list[str]:
        """Give the copies of these tables, in all groups, the names that the tables have now; None: end them."""
        if not moves:
            return []
        chunks, queued = [(await session.ask(query)).rows for query in (self._moved.chunks, self._moved.queued)]
        return self._moved.moved(moves, chunks, queued)

    async def read_chunks(self, session: TargetSession) -> tuple[Copied, ...]:
        """Read which chunks of each copied table are merged."""
        rows = await session.ask(
            f"SELECT table_schema,table_name,chunk,split,rows_merged IS NOT NULL FROM {self._table}chunks "
            f"WHERE {self._mine} ORDER BY table_schema,table_name,chunk"
        )
        splits: list[tuple[ChunkSplit, list[int]]] = []
        for _, _, chunk, split, merged in rows.rows:
            if chunk == 0:
                splits.append((_SPLIT.decode(split), []))
            if merged:
                splits[-1][1].append(chunk)
        return tuple(Copied(split, tuple(merged)) for split, merged in splits)

    async def read_wanted(self, session: TargetSession) -> tuple[Wanted, ...]:
        """Read what is wanted, in the order in which it was asked for."""
        rows = await session.ask(
            f"SELECT ordinal,table_schema,table_name,mode,row_key FROM {self._table}wanted "
            f"WHERE {self._feed} AND mode NOT IN ({NOT_ASKED}) ORDER BY ordinal"
        )
        return tuple(
            Wanted(ordinal, TableName(schema, table), mode, None if key is None else _KEY.decode(key))
            for ordinal, schema, table, mode, key in rows.rows
        )


def named(table: TableName) -> str:
    """The condition that finds a table's rows in the bookkeeping."""
    return f"table_schema={text(table.schema)} AND table_name={text(table.table)}"
