"""The staged rows of a chunk at PostgreSQL, among which those that are refused are looked for in a transaction of ours
(`adapters.target.refused_search`).

A row's place is the one in the staging table (`ctid`), in which nothing moves meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from copy import copy
from typing import Final

import asyncpg

from tidelock.adapters.postgres.target.chunk_merge import ChunkMerge
from tidelock.adapters.postgres.target.chunk_merge_sql import CLASHES, ChunkMergeSql
from tidelock.adapters.postgres.target.failures import failure_of
from tidelock.adapters.postgres.target.read_back import asked, reader
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.adapters.target.refused_search import BadRow, find_refused
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey
from tidelock.engine.protocol.effects import FindRefused
from tidelock.engine.protocol.events import RefusedRow

_BROKEN: Final = "23503"


class RefusedRows:
    """`staged`: the staging table.  `foreign_keys`: the table's.  `merge`: the one that is refused."""

    def __init__(
        self,
        session: TargetSession,
        staged: TableName,
        effect: FindRefused,
        foreign_keys: Sequence[ForeignKey],
        merge: ChunkMerge,
    ) -> None:
        self._session = session
        self._split, self._key = effect.merge.split, effect.merge.key
        self._table = effect.merge.split.table
        self._shape = effect.shape
        self._foreign_keys = foreign_keys
        self._merge = merge
        self._staged = qualified(staged)

    async def find(self) -> tuple[RefusedRow, ...]:
        """Find them; the caller rolls back.  Raises Untold, NotSpelled, Unwritable, LostCommits, `SERVER_ERRORS`."""
        self._sql: ChunkMergeSql = await self._merge.prepare()
        return await find_refused(self, rereads=self._split.by is By.KEYS)

    async def places(self) -> Sequence[str]:
        """As `StagedRows` has it."""
        return [place for (place,) in await self._session.connection.fetch(f"SELECT ctid::text FROM {self._staged}")]

    async def attempt(self, places: Sequence[str] | None) -> Failure | None:
        """As `StagedRows` has it."""
        await self._session.run(["SAVEPOINT trial"])
        try:
            await self._merge.write(self._sql, "true" if places is None else _among(places))
            await self._session.run(["SET CONSTRAINTS ALL IMMEDIATE"])
        except asyncpg.PostgresError as error:
            failure = failure_of(error, tables=str(self._table))
            if failure.kind is not ErrorKind.ROW:
                raise
            return failure
        finally:
            if self._session.alive:
                await self._session.run(["ROLLBACK TO SAVEPOINT trial", "RELEASE SAVEPOINT trial"])
        return None

    async def orphans(self, failure: Failure, most: int) -> list[BadRow[str]]:
        """As `StagedRows` has it."""
        found = dict[str, BadRow[str]]()
        for key in self._foreign_keys if failure.code == _BROKEN else ():
            pairs = [(identifier(c), identifier(p)) for c, p in zip(key.columns, key.parent_columns, strict=True)]
            given = " AND ".join(f"s.{child} IS NOT NULL" for child, _ in pairs)
            same = " AND ".join(f"p.{parent} = s.{child}" for child, parent in pairs)
            there = [qualified(key.parent), *([self._staged] if key.parent == self._table else [])]
            lacking = " AND ".join(f"NOT EXISTS (SELECT FROM {place} AS p WHERE {same})" for place in there)
            rows = await self._session.connection.fetch(
                f"SELECT s.ctid::text FROM {self._staged} AS s WHERE {given} AND {lacking} LIMIT {most}"
            )
            why = f"{self._table}, constraint {key.name}: a row refers to none of {key.parent}"
            for (place,) in rows:
                found.setdefault(place, BadRow(place, Failure(ErrorKind.ROW, why, failure.code)))
        return list(found.values())

    def is_for_others(self, failure: Failure) -> bool:
        """As `StagedRows` has it."""
        return failure.code in CLASHES

    @contextlib.asynccontextmanager
    async def without(self, row: BadRow[str]) -> AsyncIterator[None]:
        """As `StagedRows` has it."""
        before = self._merge, self._sql
        await self._session.run(["SAVEPOINT cause"])
        self._merge = copy(self._merge)
        await self.take_away([row])
        yield
        await self._session.run(["ROLLBACK TO SAVEPOINT cause", "RELEASE SAVEPOINT cause"])
        self._merge, self._sql = before

    async def take_away(self, bad: Sequence[BadRow[str]]) -> list[RefusedRow]:
        """As `StagedRows` has it."""
        types = {column.name: column.type for column in self._merge.columns}
        known = [column.name in types for column in self._shape.columns]
        columns = [column for column in self._shape.columns if column.name in types]
        texts = ", ".join(asked(column, types[column.name], "s") for column in columns)
        readers = [reader(column, types[column.name]) for column in columns]
        among = _among([row.place for row in bad])
        rows = await self._session.connection.fetch(
            f"SELECT s.ctid::text, {texts} FROM {self._staged} AS s WHERE {among}"
        )
        await self._session.run([f"DELETE FROM {self._staged} AS s WHERE {among}"])
        by_place = {row[0]: [read(text) for read, text in zip(readers, row[1:], strict=True)] for row in rows}
        found = list[RefusedRow]()
        for one in bad:
            values = iter(by_place[one.place])
            row = tuple(next(values) if is_staged else None for is_staged in known)
            found.append(RefusedRow(self._shape, row, one.failure.message, one.failure.code))
        at = {column.name: i for i, column in enumerate(self._shape.columns)}
        keys = [tuple(refused.row[at[name]] for name in self._key) for refused in found]
        self._sql = self._merge.leave(keys)
        return found


def _among(places: Sequence[str]) -> str:
    """A condition on `s` that holds for these rows."""
    listed = ",".join(f'"{place}"' for place in places)
    return f"s.ctid = ANY ('{{{listed}}}'::tid[])"
