"""Finds the staged rows for which PostgreSQL refuses the merge of a chunk (`FindRefused`), in a transaction of ours.

The whole chunk is tried.  Where it is refused, rows are found and taken away, and the rest is tried again:

- of a foreign key that is broken, the rows whose parent is neither in its table nor among the staged;
- else by halves, each tried alone behind a savepoint, down to single rows: nothing is paid for rows that are taken.

Rows of one chunk may need each other: a child its parent, a row the unique value that another one gives up.  Tried
alone they are refused though they are right.  So of what the halves show, those go first that are refused for
themselves, as by a CHECK constraint; only where none is left go those that are refused for other rows.  Of rows that
are read again, which may trade unique values, each of a few is first tried as the only cause.

A row is addressed by its place in the staging table (`ctid`), in which nothing moves meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

import asyncpg
import msgspec

from tidelock.adapters.postgres.target.chunk_merge import ChunkMerge
from tidelock.adapters.postgres.target.chunk_merge_sql import CLASHES, ChunkMergeSql
from tidelock.adapters.postgres.target.failures import failure_of
from tidelock.adapters.postgres.target.read_back import asked, reader
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import ForeignKey
from tidelock.engine.protocol.effects import FindRefused
from tidelock.engine.protocol.events import RefusedRow

MOST: Final = 10_000
"""So many refused rows of one chunk are set aside; more are a table that does not fit."""
MOST_CAUSES: Final = 20
"""So many rows are tried as the only cause."""

_BROKEN: Final = "23503"


class Untold(Exception):
    """Raised where the rows cannot be told; the text is the target's, or says how many there are."""


class _Bad(msgspec.Struct, frozen=True):
    """A staged row that is refused, by its place."""

    place: str
    failure: Failure


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
        found = list[RefusedRow]()
        while (failure := await self._try("true")) is not None:
            bad = await self._orphans(failure) if failure.code == _BROKEN else []
            bad = bad or await self._singled_out()
            if not bad:
                raise Untold(failure.message)
            found += await self._taken_away(bad)
            if len(found) > MOST:
                raise Untold(f"{MOST:,} rows and more, the first of which: {found[0].error}")
        return tuple(found)

    async def _try(self, only: str) -> Failure | None:
        """Write and take it back; returns why it is refused."""
        await self._session.run(["SAVEPOINT trial"])
        try:
            await self._merge.write(self._sql, only)
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

    async def _orphans(self, failure: Failure) -> list[_Bad]:
        found = dict[str, _Bad]()
        for key in self._foreign_keys:
            pairs = [(identifier(c), identifier(p)) for c, p in zip(key.columns, key.parent_columns, strict=True)]
            given = " AND ".join(f"s.{child} IS NOT NULL" for child, _ in pairs)
            same = " AND ".join(f"p.{parent} = s.{child}" for child, parent in pairs)
            there = [qualified(key.parent), *([self._staged] if key.parent == self._table else [])]
            lacking = " AND ".join(f"NOT EXISTS (SELECT FROM {place} AS p WHERE {same})" for place in there)
            rows = await self._session.connection.fetch(
                f"SELECT s.ctid::text FROM {self._staged} AS s WHERE {given} AND {lacking} LIMIT {MOST + 1}"
            )
            why = f"{self._table}, constraint {key.name}: a row refers to none of {key.parent}"
            for (place,) in rows:
                found.setdefault(place, _Bad(place, Failure(ErrorKind.ROW, why, failure.code)))
        return list(found.values())

    async def _singled_out(self) -> list[_Bad]:
        places = [place for (place,) in await self._session.connection.fetch(f"SELECT ctid::text FROM {self._staged}")]
        bad = await self._halved(places)
        own = [row for row in bad if row.failure.code not in CLASHES]
        return own or await self._only_cause(bad) or bad

    async def _only_cause(self, bad: Sequence[_Bad]) -> list[_Bad]:
        """Returns the one of some rows that are read again without which all others are taken; empty: there is none."""
        by_key = self._split.by is By.KEYS
        for row in bad if by_key and len(bad) <= MOST_CAUSES else ():
            before = self._merge, self._sql
            await self._session.run(["SAVEPOINT cause"])
            self._merge = copy(self._merge)
            await self._taken_away([row])
            failure = await self._try("true")
            await self._session.run(["ROLLBACK TO SAVEPOINT cause", "RELEASE SAVEPOINT cause"])
            self._merge, self._sql = before
            if failure is None:
                return [row]
        return []

    async def _halved(self, places: Sequence[str]) -> list[_Bad]:
        failure = await self._try(_among(places)) if places else None
        if failure is None:
            return []
        if len(places) == 1:
            return [_Bad(places[0], failure)]
        half = len(places) // 2
        found = await self._halved(places[:half])
        return found if len(found) > MOST else [*found, *await self._halved(places[half:])]

    async def _taken_away(self, bad: Sequence[_Bad]) -> list[RefusedRow]:
        """Take these rows out of the staging table; returns them."""
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
