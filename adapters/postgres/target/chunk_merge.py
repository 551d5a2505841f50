"""The rows of one chunk on their way from the staging table into their own, within one transaction (`MergeChunk`)."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from msgspec.structs import replace

from tidelock.adapters.postgres.target.chunk_merge_sql import CLASHES, ChunkMergeSql
from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import TargetColumn
from tidelock.engine.protocol.effects import MergeChunk


class ChunkMerge:
    """Merges one chunk.  `place`: the staging table, and `columns` its columns.  The receipt stands, and COMMIT is the
    caller's."""

    def __init__(self, session: TargetSession, place: TableName, effect: MergeChunk, zero_dates: ZeroDates) -> None:
        self._session = session
        self._place = place
        self._effect = effect
        self._zero_dates = zero_dates
        self.columns: list[TargetColumn] = []

    async def run(self) -> str:
        """Merge, and return a query for how many rows the chunk has then.

        Raises Unwritable, one of `SERVER_ERRORS`, and LostCommits where what was staged is not all there any more.
        """
        sql = await self.prepare()
        await self.write(sql)
        return sql.rows

    async def prepare(self) -> ChunkMergeSql:
        """Make the staging table the chunk.  Raises what `run` does."""
        columns = self.columns = await self._columns()
        sql = ChunkMergeSql(self._effect, self._place, columns, self._zero_dates)
        if not columns or await self._session.connection.fetchval(sql.rows) != self._effect.rows:
            raise LostCommits
        await self._session.run(sql.prepare())
        return sql

    def leave(self, keys: Sequence[Row]) -> ChunkMergeSql:
        """Leave rows with these keys as they are, instead of writing over them."""
        left = frozenset(keys)
        self._effect = replace(self._effect, gone=[key for key in self._effect.gone if key not in left])
        return ChunkMergeSql(self._effect, self._place, self.columns, self._zero_dates)

    async def write(self, sql: ChunkMergeSql, only: str = "true") -> None:
        """Put the chunk in its place, or `only` some rows of it.  Raises one of `SERVER_ERRORS`."""
        if self._effect.split.by is not By.KEYS:
            await self._session.run([sql.insert(only)])
            return
        try:
            await self._session.run(["SAVEPOINT rows", *sql.in_place(only)])
        except asyncpg.PostgresError as error:
            if error.sqlstate not in CLASHES:
                raise
            await self._session.run(["ROLLBACK TO SAVEPOINT rows", *sql.anew(only)])

    async def _columns(self) -> list[TargetColumn]:
        """Read the columns of the staging table, in order; none where there is no such table."""
        rows = await self._session.connection.fetch(
            "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
            "WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind = 'r' ORDER BY a.attnum",
            self._place.schema,
            self._place.table,
        )
        return [TargetColumn(name, type_) for name, type_ in rows]
