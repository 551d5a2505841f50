"""The staged rows of a chunk at MySQL or MariaDB, among which those that are refused are looked for
(`adapters.target.refused_search`).

Places are numbers.  Rows without a key are staged with theirs; for those with a key a table of keys and numbers is
made, before the transaction, as that commits.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript
from tidelock.adapters.mysql.target.chunk_merge import ChunkMerge, LostStaging, Orphaned
from tidelock.adapters.mysql.target.chunk_merge_sql import NUMBER, Part, staged_rows
from tidelock.adapters.mysql.target.failures import CLASHES
from tidelock.adapters.mysql.target.outcomes import outcome
from tidelock.adapters.mysql.target.read_back import asked
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.statements import TableStatements, identifier, qualified
from tidelock.adapters.schema.log_spelling import spelled
from tidelock.adapters.target.refused_search import BadRow, find_refused
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.protocol.effects import FindRefused
from tidelock.engine.protocol.events import RefusedRow

_BROKEN: Final = "1452"
_REFERRING: Final = frozenset(map(str, CLASHES))


def numbers_of(staged: TableName) -> TableName:
    """The table that numbers the keys of this staging table."""
    return TableName(staged.schema, f"{staged.table}_n")


class RefusedRows:
    """`table`: the chunk's.  `staged`: the staging table.  `statements`: as of a `BatchScript`."""

    def __init__(
        self,
        session: TargetSession,
        table: TargetTable,
        staged: TableName,
        effect: FindRefused,
        statements: Callable[[Binding], TableStatements],
    ) -> None:
        self._session = session
        self._table = table
        self._staged = staged
        self._effect = effect
        self._statements = statements
        self._numbers = numbers_of(staged) if table.key else None
        self._rows = staged_rows(staged, table, self._numbers)

    async def number(self) -> None:
        """Number the staged rows; it commits."""
        if self._numbers is not None:
            key = ",".join(map(identifier, self._table.key))
            await self.forget()
            await self._session.ask(
                f"CREATE TABLE {qualified(self._numbers)} ({NUMBER} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT "
                f"PRIMARY KEY) ENGINE=InnoDB SELECT {key} FROM {qualified(self._staged)}"
            )

    async def forget(self) -> None:
        """Drop the numbers; it commits."""
        if self._numbers is not None:
            await self._session.ask(f"DROP TABLE IF EXISTS {qualified(self._numbers)}")

    async def find(self) -> tuple[RefusedRow, ...]:
        """Find them behind the receipt; the caller rolls back.

        Raises Untold, NotSpelled, LostStaging, and as `BatchScript`.
        """
        merge = self._merge()
        self._columns = await merge.columns()
        taken = await merge.take_away()
        ((left,),) = await self._ask(f"SELECT COUNT(*) FROM {qualified(self._staged)}")
        if taken + left != self._effect.merge.rows:
            raise LostStaging(f"{taken + left} of {self._effect.merge.rows} rows are left for {self._table.name}")
        return await find_refused(self, rereads=self._effect.merge.split.by is By.KEYS)

    def _merge(self) -> ChunkMerge:
        batch = BatchScript(self._session, self._statements)
        return ChunkMerge(batch, self._session, self._table, self._staged, self._effect.merge)

    async def _ask(self, query: str) -> Sequence[tuple[Any, ...]]:
        return (await self._session.ask(query)).rows

    async def places(self) -> Sequence[int]:
        """As `StagedRows` has it."""
        ((first, last),) = await self._ask(f"SELECT MIN({NUMBER}),MAX({NUMBER}) FROM {self._rows}")
        return range(first, last + 1) if first is not None else ()

    async def attempt(self, places: Sequence[int] | None) -> Failure | None:
        """As `StagedRows` has it; places follow each other."""
        part = None if places is None else Part(self._numbers, places[0], places[-1])
        await self._session.ask("SAVEPOINT trial")
        failure = None
        try:
            await self._merge().write(self._columns, part)
        except Orphaned as error:
            failure = Failure(ErrorKind.ROW, str(error), _BROKEN)
        except BatchError as error:
            failure = outcome(error)
            if failure.kind is not ErrorKind.ROW:
                raise
        await self._session.run([b"ROLLBACK TO SAVEPOINT trial", b"SET SESSION foreign_key_checks=1"])
        return failure

    async def orphans(self, failure: Failure, most: int) -> list[BadRow[int]]:
        """As `StagedRows` has it."""
        found = dict[int, BadRow[int]]()
        for key in self._table.foreign_keys if failure.code == _BROKEN else ():
            pairs = [(identifier(c), identifier(p)) for c, p in zip(key.columns, key.parent_columns, strict=True)]
            given = " AND ".join(f"tide_new.{child} IS NOT NULL" for child, _ in pairs)
            same = " AND ".join(f"tide_parent.{parent}=tide_new.{child}" for child, parent in pairs)
            there = [key.parent, *([self._staged] if key.parent == self._table.name else [])]
            lacking = " AND ".join(
                f"NOT EXISTS (SELECT 1 FROM {qualified(place)} tide_parent WHERE {same})" for place in there
            )
            why = f"{self._table.name}: a row refers to none of {key.parent} (foreign key {key.name})"
            for (number,) in await self._ask(
                f"SELECT {NUMBER} FROM {self._rows} WHERE {given} AND {lacking} LIMIT {most}"
            ):
                found.setdefault(number, BadRow(number, Failure(ErrorKind.ROW, why, failure.code)))
        return list(found.values())

    def is_for_others(self, failure: Failure) -> bool:
        """As `StagedRows` has it."""
        return failure.code in _REFERRING

    @contextlib.asynccontextmanager
    async def without(self, row: BadRow[int]) -> AsyncIterator[None]:
        """As `StagedRows` has it."""
        before = self._effect
        await self._ask("SAVEPOINT cause")
        await self.take_away([row])
        yield
        await self._ask("ROLLBACK TO SAVEPOINT cause")
        self._effect = before

    async def take_away(self, bad: Sequence[BadRow[int]]) -> list[RefusedRow]:
        """As `StagedRows` has it."""
        shape = self._effect.shape
        columns = [column for column in shape.columns if column.name in self._columns]
        texts = ",".join(asked(column, "tide_new") for column in columns)
        listed = f"{NUMBER} IN ({','.join(str(row.place) for row in bad)})"
        rows = await self._ask(f"SELECT {NUMBER},{texts} FROM {self._rows} WHERE {listed}")
        by_number = {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}
        doomed = staged_rows(self._staged, self._table, self._numbers, alias="")
        await self._ask(f"DELETE {qualified(self._staged)} FROM {doomed} WHERE {listed}")
        found = [
            RefusedRow(
                shape,
                tuple(spelled(column, by_number[one.place].get(column)) for column in shape.columns),
                one.failure.message,
                one.failure.code,
            )
            for one in bad
        ]
        self._leave([refused.row for refused in found])
        return found

    def _leave(self, rows: Sequence[Row]) -> None:
        """Leave these rows as they are, instead of writing over them."""
        merge = self._effect.merge
        at = {column.name: i for i, column in enumerate(self._effect.shape.columns)}
        left = {tuple(row[at[name]] for name in merge.key) for row in rows}
        gone = [key for key in merge.gone if key not in left]
        self._effect = replace(self._effect, merge=replace(merge, gone=gone))
