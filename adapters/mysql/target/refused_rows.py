"""Finds the staged rows for which MySQL or MariaDB refuses the merge of a chunk (`FindRefused`).

The whole chunk is tried.  Where it is refused, rows are found and taken away, and the rest is tried again:

- of a foreign key that is broken, the rows whose parent is neither in its table nor among the staged;
- else by halves, each tried alone behind a savepoint, down to single rows: nothing is paid for rows that are taken.

Rows of one chunk may need each other: a child its parent, a row the unique value that another one gives up.  Tried
alone they are refused though they are right.  So of what the halves show, those go first that are refused for
themselves, as by a CHECK constraint; only where none is left go those that are refused for other rows.  Of rows that
are read again, which may trade unique values, each of a few is first tried as the only cause.

Halves are ranges of numbers.  Rows without a key are staged with theirs; for those with a key a table of keys and
numbers is made, before the transaction, as that commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
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
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, TargetTable
from tidelock.engine.protocol.effects import FindRefused
from tidelock.engine.protocol.events import RefusedRow

MOST: Final = 10_000
"""So many refused rows of one chunk are set aside; more are a table that does not fit."""
MOST_CAUSES: Final = 20
"""So many rows are tried as the only cause."""

_BROKEN: Final = "1452"
_REFERRING: Final = frozenset(map(str, CLASHES))


class Untold(Exception):
    """Raised where the rows cannot be told; the text is the target's, or says how many there are."""


class _Bad(msgspec.Struct, frozen=True):
    """A staged row that is refused, by its number."""

    number: int
    failure: Failure


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
        found = list[RefusedRow]()
        while (failure := await self._try(None)) is not None:
            bad = await self._orphans(failure) if failure.code == _BROKEN else []
            bad = bad or await self._singled_out()
            if not bad:
                raise Untold(failure.message)
            found += await self._taken_away(bad)
            if len(found) > MOST:
                raise Untold(f"{MOST:,} rows and more, the first of which: {found[0].error}")
        return tuple(found)

    def _merge(self) -> ChunkMerge:
        batch = BatchScript(self._session, self._statements)
        return ChunkMerge(batch, self._session, self._table, self._staged, self._effect.merge)

    async def _ask(self, query: str) -> Sequence[tuple[Any, ...]]:
        return (await self._session.ask(query)).rows

    async def _try(self, part: Part | None) -> Failure | None:
        """Write and take it back; returns why it is refused."""
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

    async def _orphans(self, failure: Failure) -> list[_Bad]:
        found = dict[int, _Bad]()
        for key in self._table.foreign_keys:
            pairs = [(identifier(c), identifier(p)) for c, p in zip(key.columns, key.parent_columns, strict=True)]
            given = " AND ".join(f"tide_new.{child} IS NOT NULL" for child, _ in pairs)
            same = " AND ".join(f"tide_parent.{parent}=tide_new.{child}" for child, parent in pairs)
            there = [key.parent, *([self._staged] if key.parent == self._table.name else [])]
            lacking = " AND ".join(
                f"NOT EXISTS (SELECT 1 FROM {qualified(place)} tide_parent WHERE {same})" for place in there
            )
            why = f"{self._table.name}: a row refers to none of {key.parent} (foreign key {key.name})"
            for (number,) in await self._ask(
                f"SELECT {NUMBER} FROM {self._rows} WHERE {given} AND {lacking} LIMIT {MOST + 1}"
            ):
                found.setdefault(number, _Bad(number, Failure(ErrorKind.ROW, why, failure.code)))
        return list(found.values())

    async def _singled_out(self) -> list[_Bad]:
        ((first, last),) = await self._ask(f"SELECT MIN({NUMBER}),MAX({NUMBER}) FROM {self._rows}")
        bad = await self._halved(first, last) if first is not None else []
        own = [row for row in bad if row.failure.code not in _REFERRING]
        return own or await self._only_cause(bad) or bad

    async def _only_cause(self, bad: Sequence[_Bad]) -> list[_Bad]:
        """Returns the one of some rows that are read again without which all others are taken; empty: there is none."""
        by_key = self._effect.merge.split.by is By.KEYS
        for row in bad if by_key and len(bad) <= MOST_CAUSES else ():
            before = self._effect
            await self._ask("SAVEPOINT cause")
            await self._taken_away([row])
            failure = await self._try(None)
            await self._ask("ROLLBACK TO SAVEPOINT cause")
            self._effect = before
            if failure is None:
                return [row]
        return []

    async def _halved(self, first: int, last: int) -> list[_Bad]:
        failure = await self._try(Part(self._numbers, first, last))
        if failure is None:
            return []
        if first == last:
            return [_Bad(first, failure)]
        half = (first + last) // 2
        found = await self._halved(first, half)
        return found if len(found) > MOST else [*found, *await self._halved(half + 1, last)]

    async def _taken_away(self, bad: Sequence[_Bad]) -> list[RefusedRow]:
        """Take these rows out of the staging table; returns them."""
        shape = self._effect.shape
        columns = [column for column in shape.columns if column.name in self._columns]
        texts = ",".join(asked(column, "tide_new") for column in columns)
        listed = f"{NUMBER} IN ({','.join(str(row.number) for row in bad)})"
        rows = await self._ask(f"SELECT {NUMBER},{texts} FROM {self._rows} WHERE {listed}")
        by_number = {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}
        doomed = staged_rows(self._staged, self._table, self._numbers, alias="")
        await self._ask(f"DELETE {qualified(self._staged)} FROM {doomed} WHERE {listed}")
        found = [
            RefusedRow(
                shape,
                tuple(spelled(column, by_number[one.number].get(column)) for column in shape.columns),
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
