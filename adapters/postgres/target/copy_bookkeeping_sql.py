"""SQL of what a feed keeps of its copies: which chunks are merged, what operators want, what lies in staging tables.

The methods return statements (texts) for transactions that are fenced (`bookkeeping_sql`), or the
answer that their name says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import asyncpg
import msgspec

from tidelock.adapters.bookkeeping.moved_copies import MovedCopiesSql
from tidelock.adapters.ports.sink import Wanted
from tidelock.adapters.ports.staging import HELD_MODES, LEFT, NOT_ASKED, staged_prefix
from tidelock.adapters.postgres.target.literals import numbers, text
from tidelock.adapters.postgres.target.staging import session_name
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.engine.model.chunk_ranges import By, ChunkSplit
from tidelock.engine.model.errors import Alarm
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.protocol.events import Copied

_KEY = msgspec.msgpack.Decoder(Row)
_SPLIT = msgspec.msgpack.Decoder(ChunkSplit)
_FILLING = "FROM pg_stat_activity WHERE datname = current_database()"


class CopyBookkeepingSql:
    """The rows of one feed and table group in `tidelock_chunks`, and of the feed in `tidelock_wanted`, in `schema`.

    Requests are the feed's: whoever asks for a table need not know in which group it is.
    """

    def __init__(self, schema: str, feed: str, group: int) -> None:
        self.schema = schema
        self.prefix = staged_prefix(feed, group)
        self._chunks, self._wanted = (f"{identifier(schema)}.tidelock_{name}" for name in ("chunks", "wanted"))
        self._moved = MovedCopiesSql("postgres", lambda name: f"{identifier(schema)}.{name}", feed)
        self._feed = f"feed = {text(feed)}"
        self._mine = f"{self._feed} AND grp = {int(group)}"
        self._values = f"{text(feed)}, {int(group)}"

    def begin(self, split: ChunkSplit) -> list[str]:
        """Store the chunks of a split in the place of what stood there for the table; and its wish is granted."""
        names = f"{text(split.table.schema)}, {text(split.table.table)}"
        packed = f"CASE n WHEN 0 THEN '\\x{msgspec.msgpack.encode(split).hex()}'::bytea END"
        merged = f"CASE WHEN n = ANY ({numbers(split.merged)}::int[]) THEN 0 END"
        insert = (
            f"INSERT INTO {self._chunks} (feed, grp, table_schema, table_name, chunk, split, rows_merged) "
            f"SELECT {self._values}, {names}, n, {packed}, {merged} FROM generate_series(0, {split.chunks - 1}) AS n"
        )
        return [
            f"DELETE FROM {self._chunks} WHERE {self._mine} AND {_of(split.table)}",
            insert,
            f"DELETE FROM {self._wanted} WHERE {self._feed} AND {_of(split.table)}{_granted(split)}",
        ]

    def merged(self, table: TableName, chunk: int, rows: str) -> str:
        """Note that the chunk is merged; `rows`: a query for how many it has."""
        return (
            f"UPDATE {self._chunks} SET rows_merged = ({rows}), changed_at = now() "
            f"WHERE {self._mine} AND {_of(table)} AND chunk = {chunk}"
        )

    def refuse(self, tables: Iterable[TableName], alarm: Alarm) -> list[str]:
        """Mark what asks for these tables as refused, with the alarm that says why."""
        words = f"'\\x{msgspec.json.encode(alarm).hex()}'"
        return [
            f"UPDATE {self._wanted} SET mode = 'refused', row_key = {words} "
            f"WHERE {self._feed} AND {_of(table)} AND mode NOT IN ({NOT_ASKED})"
            for table in tables
        ]

    def leave(self, table: TableName, rows: Sequence[tuple[str, str]]) -> list[str]:
        """Note rows that a repair left as they are, by their keys, and why; its own ordinals are below zero."""
        if not rows:
            return []
        mine = f"SELECT least(min(ordinal), 0) - 1 FROM {self._wanted} WHERE {self._mine}"
        names = f"{text(table.schema)}, {text(table.table)}"
        insert = f"INSERT INTO {self._wanted} (feed, grp, ordinal, table_schema, table_name, mode, row_key)"
        told = f"'\\x{msgspec.json.encode(rows).hex()}'"
        return [f"{insert} VALUES ({self._values}, ({mine}), {names}, '{LEFT}', {told})"]

    async def moved(
        self, connection: asyncpg.Connection[asyncpg.Record], moves: Mapping[TableName, TableName | None]
    ) -> list[str]:
        """Give the copies of these tables, in all groups, the names that the tables have now; None: end them."""
        if not moves:
            return []
        chunks, queued = [await connection.fetch(query) for query in (self._moved.chunks, self._moved.queued)]
        return self._moved.moved(moves, [tuple(row) for row in chunks], [tuple(row) for row in queued])

    async def read_chunks(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[Copied, ...]:
        """Read which chunks of each copied table are merged."""
        rows = await connection.fetch(
            f"SELECT table_schema, table_name, chunk, split, rows_merged IS NOT NULL FROM {self._chunks} "
            f"WHERE {self._mine} ORDER BY table_schema, table_name, chunk"
        )
        tables = [list(group) for _, group in groupby(rows, lambda row: (row[0], row[1]))]
        return tuple(Copied(_SPLIT.decode(table[0][3]), tuple(row[2] for row in table if row[4])) for table in tables)

    async def read_wanted(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[Wanted, ...]:
        """Read what is wanted, in the order in which it was asked for."""
        rows = await connection.fetch(
            f"SELECT ordinal, table_schema, table_name, mode, row_key FROM {self._wanted} "
            f"WHERE {self._feed} AND mode NOT IN ({NOT_ASKED}) ORDER BY ordinal"
        )
        return tuple(
            Wanted(ordinal, TableName(schema, table), mode, None if key is None else _KEY.decode(key))
            for ordinal, schema, table, mode, key in rows
        )

    async def is_done(self, connection: asyncpg.Connection[asyncpg.Record], table: TableName) -> bool:
        """Tell whether all chunks of the table are merged."""
        left = f"SELECT FROM {self._chunks} WHERE {self._mine} AND {_of(table)} AND rows_merged IS NULL"
        return bool(await connection.fetchval(f"SELECT NOT EXISTS ({left})"))

    async def staged_before(self, connection: asyncpg.Connection[asyncpg.Record], epoch: int) -> list[str]:
        """Find the staging tables of owners before this epoch, those that are still being filled included."""
        rows = await connection.fetch(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = $1 AND c.relkind = 'r' AND starts_with(c.relname::text, $2) "
            f"UNION SELECT split_part(application_name, '/', 2) {_FILLING} AND starts_with(application_name, $3)",
            self.schema,
            self.prefix,
            session_name(self.prefix),
        )
        named = [(row[0], row[0].removeprefix(self.prefix).partition("_")[0]) for row in rows]
        return [name for name, of in named if of.isascii() and of.isdigit() and int(of) < epoch]

    def drop(self, names: Sequence[str]) -> list[str]:
        """Take staging tables away, and end whoever still fills one of them."""
        sessions = ", ".join(text(session_name(name)) for name in names)
        ended = f"SELECT pg_terminate_backend(pid) {_FILLING} AND application_name IN ({sessions})"
        drops = [f"DROP TABLE IF EXISTS {qualified(TableName(self.schema, name))}" for name in names]
        return [ended, *drops] if drops else []


def _of(table: TableName) -> str:
    return f"table_schema = {text(table.schema)} AND table_name = {text(table.table)}"


def _granted(split: ChunkSplit) -> str:
    """Name the wishes for the table that the copy grants, as a condition.

    Who asks for another row meanwhile asks for a copy after this one.  What a repair that was given up leaves behind
    grants none, so why that was can still be read.  What is held for another file of the feed waits for it.
    """
    if split.by is By.KEYS:
        keys = ", ".join(f"'\\x{msgspec.msgpack.encode(key).hex()}'::bytea" for key in split.keys)
        asked = f"mode = 'repair' AND row_key IN ({keys})"
        return f" AND (mode IN ('refused', '{LEFT}') OR {asked})" if keys else " AND false"
    return f" AND mode IN ('keep', 'refused', '{LEFT}')" if split.keep else f" AND mode NOT IN ({HELD_MODES})"
