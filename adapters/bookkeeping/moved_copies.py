"""Copies of tables that get other names, or go: their chunks and what is queued of them, in SQL of both databases.

What a statement changes in the bookkeeping is stored with the note that it ran, so a copy never has another name there
than its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from tidelock.adapters.config.url import Dialect
from tidelock.engine.model.chunk_ranges import ChunkSplit
from tidelock.engine.model.records import TableName

_SPLIT: Final = msgspec.msgpack.Decoder(ChunkSplit)
_CHUNK: Final = "grp, table_schema, table_name, chunk, split, rows_merged"
_EACH: Final = 500

Rows: TypeAlias = Sequence[tuple[Any, ...]]


def _text(dialect: Dialect, value: str) -> str:
    """Writes a text as every session reads it, whatever its settings, and without `%`."""
    packed = value.encode().hex()
    return f"_utf8mb4 x'{packed}'" if dialect == "mysql" else f"convert_from('\\x{packed}', 'UTF8')"


def _blob(dialect: Dialect, value: bytes) -> str:
    return f"x'{value.hex()}'" if dialect == "mysql" else f"'\\x{value.hex()}'::bytea"


class MovedCopiesSql:
    """`place`: of a table of the bookkeeping, quoted, by its name."""

    def __init__(self, dialect: Dialect, place: Callable[[str], str], feed: str) -> None:
        self._dialect = dialect
        self._chunks, self._wanted = place("tidelock_chunks"), place("tidelock_wanted")
        self._feed = _text(dialect, feed)

    @property
    def chunks(self) -> str:
        """The query of all chunks of the feed."""
        return f"SELECT {_CHUNK} FROM {self._chunks} WHERE feed = {self._feed}"

    @property
    def queued(self) -> str:
        """The query of all that is queued."""
        return f"SELECT grp, ordinal, table_schema, table_name FROM {self._wanted} WHERE feed = {self._feed}"

    def moved(self, moves: Mapping[TableName, TableName | None], chunks: Rows, queued: Rows) -> list[str]:
        """Returns what gives the copies their tables' names.  `chunks`, `queued`: what the queries found."""
        there = [(TableName(str(row[1]), str(row[2])), row) for row in chunks]
        concerned = {*moves, *(to for to in moves.values() if to is not None)}
        gone = [f"DELETE FROM {self._chunks} WHERE {self._of(name)}" for name in concerned & {one for one, _ in there}]
        kept = [self._chunk(to, row) for name, row in there if (to := moves.get(name)) is not None]
        return [*gone, *self._inserted(kept), *self._queued(moves, queued)]

    def _of(self, name: TableName) -> str:
        schema, table = self._named(name)
        return f"feed = {self._feed} AND table_schema = {schema} AND table_name = {table}"

    def _named(self, name: TableName) -> tuple[str, str]:
        return _text(self._dialect, name.schema), _text(self._dialect, name.table)

    def _chunk(self, to: TableName, row: tuple[Any, ...]) -> str:
        group, _, _, chunk, split, merged = row
        packed = "NULL"
        if split is not None:
            renamed = msgspec.structs.replace(_SPLIT.decode(split), table=to)
            packed = _blob(self._dialect, msgspec.msgpack.encode(renamed))
        schema, table = self._named(to)
        rows = "NULL" if merged is None else str(int(merged))
        return f"({self._feed}, {int(group)}, {schema}, {table}, {int(chunk)}, {packed}, {rows})"

    def _inserted(self, rows: Sequence[str]) -> Iterator[str]:
        for first in range(0, len(rows), _EACH):
            yield f"INSERT INTO {self._chunks} (feed, {_CHUNK}) VALUES {', '.join(rows[first : first + _EACH])}"

    def _queued(self, moves: Mapping[TableName, TableName | None], queued: Rows) -> Iterator[str]:
        for group, ordinal, schema, table in queued:
            name = TableName(str(schema), str(table))
            if name not in moves:
                continue
            this = f"WHERE feed = {self._feed} AND grp = {int(group)} AND ordinal = {int(ordinal)}"
            to = moves[name]
            if to is None:
                yield f"DELETE FROM {self._wanted} {this}"
            else:
                schema, table = self._named(to)
                yield f"UPDATE {self._wanted} SET table_schema = {schema}, table_name = {table} {this}"
