"""The rows of one chunk on their way from the staging table into their own, within one transaction (`MergeChunk`).

First the staging table becomes the chunk: without the rows that the stream has touched, with the last images of those.
Then it is put in place by one INSERT.

Rows that are read again (`gone`) are rather updated in place than deleted and inserted, as rows of other tables may
refer to them; those that do not come back are deleted last, when nothing of the chunk refers to them any more.  Where
they stand in each other's way (a swap of unique values, a parent behind its child) all are deleted and inserted, which
undoes what was done before, with foreign keys unchecked: a cascade would take children along that nobody brings back.

A table that refers to itself is filled unchecked, too, as its rows come in the order of their keys.  Whatever ran
unchecked is looked over for rows without their parents before COMMIT.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence

from tidelock.adapters.mysql.target.batch_script import BatchError, BatchScript
from tidelock.adapters.mysql.target.chunk_merge_sql import (
    NUMBER,
    ChunkMergeSql,
    KeyStatements,
    Part,
    orphans,
    staged_table,
)
from tidelock.adapters.mysql.target.failures import CLASHES, UNCOMPARABLE, code_of
from tidelock.adapters.mysql.target.literals import Unwritable, text
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.engine.model.chunk_ranges import By
from tidelock.engine.model.records import Row, TableName
from tidelock.engine.model.schema import Binding, ForeignKey, TargetTable
from tidelock.engine.protocol.effects import MergeChunk
from tidelock.engine.protocol.steps import DeleteRows, UpdateRows, UpsertRows


class LostStaging(Exception):
    """Raised where what was staged is not all there any more."""


class Orphaned(Exception):
    """Raised where a row of `key.child` has no parent."""

    def __init__(self, key: ForeignKey) -> None:
        super().__init__(f"{key.child}: a row refers to none of {key.parent} (foreign key {key.name})")


class ChunkMerge:
    """`place`: the staging table.  The receipt stands, and COMMIT is the caller's."""

    def __init__(
        self, batch: BatchScript, session: TargetSession, table: TargetTable, place: TableName, effect: MergeChunk
    ) -> None:
        self._batch = batch
        self._session = session
        self._table = table
        self._place = place
        self._effect = effect

    async def run(self) -> int:
        """Merge, and return the chunk's number of rows.  Raises LostStaging, Orphaned, and as `BatchScript`."""
        columns = await self.columns()
        taken = await self.take_away()
        touched = await self._stage_images()
        written = await self.write(columns)
        if (left := taken + written - touched) != self._effect.rows:
            raise LostStaging(f"{left} of {self._effect.rows} rows are left of what was staged for {self._table.name}")
        return written

    async def take_away(self) -> int:
        """Delete staged rows that do not come to the table; returns how many."""
        taken = await self._delete(self._keys(self._place), self._effect.without)
        return taken + await self._delete_unkeyed()

    async def write(self, columns: Sequence[str], part: Part | None = None) -> int:
        """Put the chunk in its place, or only `part` of it; returns how many rows.  Raises Orphaned, and as
        `BatchScript`."""
        chunk = ChunkMergeSql(self._place, columns, self._table, part)
        if self._effect.split.by is not By.KEYS:
            return await self._write(chunk)
        return await (self._write_again(chunk) if part is None else self._write_part(chunk))

    async def _stage_images(self) -> int:
        """Put the last images of touched rows among the staged; returns how many.  One that does not tell every value
        is written over the staged row."""
        touched = 0
        for step in self._effect.steps:
            if isinstance(step, UpdateRows):
                await self._batch.update_partly(self._statements(step.table), step.rows)
            if isinstance(step, UpsertRows):
                touched += await self._count(self._statements(step.table).insert(step.rows))
        return touched

    async def _delete_unkeyed(self) -> int:
        """Take away staged rows that have no key and are gone; returns how many."""
        deleted = 0
        for step in self._effect.steps:
            if isinstance(step, DeleteRows):
                deleted += await self._count(self._statements(step.table).delete(step.keys))
        return deleted

    def _statements(self, table: Binding) -> TableStatements:
        binding = Binding(table.number, table.shape, staged_table(self._table, self._place))
        return TableStatements(binding, self._session.dialect, self._session.packet_bytes)

    async def columns(self) -> list[str]:
        """Read the columns of the staging table, in order.  Raises LostStaging."""
        found = await self._session.ask(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS "
            f"WHERE TABLE_SCHEMA={text(self._place.schema)} AND TABLE_NAME={text(self._place.table)} "
            "ORDER BY ORDINAL_POSITION"
        )
        if not found.rows:
            raise LostStaging(f"what was staged for {self._table.name} is gone")
        return [name for (name,) in found.rows if name != NUMBER]

    async def _write(self, chunk: ChunkMergeSql) -> int:
        insert = chunk.insert_beside() if self._effect.split.keep else chunk.insert()
        if not refers_to_itself(self._table):
            return await self._count([insert])
        async with unchecked(self._batch, self._table):
            return await self._count([insert])

    async def _write_again(self, chunk: ChunkMergeSql) -> int:
        target = self._keys()
        staged = await self._staged()
        if staged is not None:
            try:
                written = await self._count([chunk.update(), chunk.insert_missing()])
                await self._delete(target, [key for key in self._effect.gone if key not in staged])
                return written
            except BatchError as error:
                if code_of(error.error) not in CLASHES:
                    raise
        async with unchecked(self._batch, self._table):
            await self._delete(target, self._effect.gone)
            return await self._count([chunk.insert()])

    async def _write_part(self, chunk: ChunkMergeSql) -> int:
        try:
            return await self._count([chunk.update(), chunk.insert_missing()])
        except BatchError as error:
            if code_of(error.error) not in CLASHES:
                raise
        async with unchecked(self._batch, self._table):
            return await self._count([chunk.delete(), chunk.insert()])

    async def _staged(self) -> set[Row] | None:
        """Find those of `gone` that are staged again; None where the server cannot compare all of these keys."""
        gone, found = self._effect.gone, set[Row]()
        try:
            for places, query in self._keys(self._place).present(gone):
                self._batch.add(query, str(self._table.name))
                found |= {gone[places[index]] for (index,) in (await self._batch.flush())[-1].rows}
        except BatchError as error:
            if code_of(error.error) not in UNCOMPARABLE:
                raise
            return None
        return found

    async def _delete(self, of: KeyStatements, keys: Sequence[Row]) -> int:
        """Delete by key; returns how many were there.  A key that the columns cannot hold was not."""
        deleted = 0
        try:
            for sql in of.delete(keys):
                deleted += await self._count([sql])
            return deleted
        except BatchError as error:
            if code_of(error.error) not in UNCOMPARABLE:
                raise
        except Unwritable:
            pass
        half = len(keys) // 2
        for part in (keys[:half], keys[half:]) if half else ():
            deleted += await self._delete(of, part)
        return deleted

    def _keys(self, place: TableName | None = None) -> KeyStatements:
        return KeyStatements(self._table, self._session.dialect, self._session.packet_bytes, place)

    async def _count(self, sqls: Iterable[bytes]) -> int:
        """Run these statements; returns how many rows they touch."""
        touched = 0
        for sql in sqls:
            self._batch.add(sql, str(self._table.name))
            touched += (await self._batch.flush())[-1].affected
        return touched


def refers_to_itself(table: TargetTable) -> bool:
    """Tell whether a foreign key of the table refers to the table itself."""
    return any(key.parent == table.name for key in table.foreign_keys)


@contextlib.asynccontextmanager
async def unchecked(batch: BatchScript, table: TargetTable) -> AsyncIterator[None]:
    """Leave foreign keys unchecked in the block, where none cascades either; at its end look over those of the table.

    Raises Orphaned.  The session is of no further use where the block fails.
    """
    batch.add(b"SET SESSION foreign_key_checks=0", "")
    yield
    batch.add(b"SET SESSION foreign_key_checks=1", "")
    for key in dict.fromkeys((*table.foreign_keys, *table.references)):
        batch.add(orphans(key), str(key.child))
        if (await batch.flush())[-1].rows:
            raise Orphaned(key)
