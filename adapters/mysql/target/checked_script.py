"""Steps that look at the target's rows before they change them, through one session (`engine.batch.checked_steps`).

Each statement's answer is awaited, as the number of rows that it matched says whether all were as they should be;
COMMIT is not sent before.  What was matched by a batch that fails is rolled back with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.statements import TableStatements
from tidelock.adapters.mysql.target.suspect_statements import SuspectStatements
from tidelock.adapters.schema.log_spelling import NotSpelled, spelled
from tidelock.adapters.target.displaced import Displaced, displaces, moves, parted
from tidelock.engine.model.errors import DIFFERS
from tidelock.engine.model.records import Column, Row, Value
from tidelock.engine.protocol.steps import ChangeId, DeleteRows, Step, UpdateRows, UpsertRows


class Script(Protocol):
    """A batch's script, as checked steps need it (`batch_script`).  All may raise BatchError."""

    replaced: list[str]

    async def write_plainly(self, step: Step) -> None:
        """Write a step whatever the target's rows are."""
        ...

    def insert(
        self, statements: TableStatements, rows: Sequence[Row], instead: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Insert plainly; `instead`: what is done if one of the rows is there."""
        ...

    async def matched(self, statements: TableStatements, sqls: Iterable[bytes]) -> int:
        """Return how many rows the statements matched."""
        ...

    async def matched_by_join(self, statements: TableStatements, sqls: Iterable[bytes]) -> int | None:
        """Return how many rows the statements matched; None where the server cannot join rows with these keys."""
        ...

    async def rows_by_join(
        self, statements: TableStatements, sqls: Iterable[bytes]
    ) -> list[tuple[Any, ...]] | None:
        """Return the rows of the queries' answers; None where the server cannot join rows with these values."""
        ...

    async def missing(self, statements: TableStatements, rows: Sequence[Row]) -> list[Row]:
        """Return those of the rows that are not there by key."""
        ...

    def displace(self, gone: Displaced) -> None:
        """Note a row that has been deleted for another, and let its record wait for the next packet."""
        ...

    async def rows(self, statements: TableStatements, sqls: Iterable[bytes]) -> list[tuple[Any, ...]]:
        """Return the rows of the queries' answers."""
        ...


class CheckedScript:
    """Writes checked steps of one table through a batch's script."""

    def __init__(self, script: Script, statements: CheckedStatements) -> None:
        self._script = script
        self._statements = statements

    async def write(self, step: Step) -> None:
        """Write one step.  Raises BatchError, Unwritable."""
        if not isinstance(step, DeleteRows) and step.replaces:
            await self._replace(step.rows)
        if isinstance(step, UpsertRows) and step.blind:
            for part in await self._parted(step) if displaces(step) else [step]:
                if displaces(part):
                    await self._displace(part)
                await self._write_over(part)
            return
        if moves(step):
            for key, row, change in zip(step.keys, step.rows, step.displaces, strict=True):
                await self._make_room(row, change, key)
        if step.version >= 0:
            await self._versioned(step)
        elif isinstance(step, DeleteRows) and step.absent:
            await self._refuse_present(step.keys)
        elif isinstance(step, DeleteRows):
            await self._delete(step.befores or [])
        elif isinstance(step, UpdateRows) and step.befores is not None:
            await self._update(step, step.befores)
        else:
            await self._script.write_plainly(step)

    # ------------------------------------------------------------------ image

    async def _refuse_present(self, keys: Sequence[Row]) -> None:
        statements = self._statements
        pieces = [keys] if statements.joins(keys) else [[key] for key in keys]
        for piece in pieces:
            if there := await self._script.rows(statements, statements.present_keys(piece)):
                raise Unwritable(f"{DIFFERS}: {len(there)} rows are there that were not")

    async def _delete(self, befores: Sequence[Row]) -> None:
        statements = self._statements
        if statements.joins([statements.table.key_of(row) for row in befores]):
            deleted = await self._script.matched_by_join(statements, statements.delete_compared(befores))
            if deleted is not None:
                await self._all_matched(deleted, befores, gone=statements.may_be_gone)
                return
        for before in befores:
            deleted = await self._script.matched(statements, [statements.delete_one_compared(before)])
            await self._all_matched(deleted, [before], gone=statements.may_be_gone)

    async def _update(self, step: UpdateRows, befores: Sequence[Row]) -> None:
        statements = self._statements
        if not step.moves and len(befores) > 1 and statements.updates and statements.joins(step.keys):
            matched = await self._script.matched_by_join(statements, statements.update_compared(step.rows, befores))
            if matched is not None:
                await self._all_matched(matched, befores)
                return
        for before, row in zip(befores, step.rows, strict=True):
            update = statements.update_one_compared(before, row, moves=step.moves)
            await self._all_matched(await self._script.matched(statements, [update]), [before])

    async def _all_matched(self, matched: int, befores: Sequence[Row], *, gone: bool = False) -> None:
        """Refuse the batch where a row was not matched; `gone`: one that is not there does no harm."""
        if matched == len(befores):
            return
        if len(befores) > 1:
            raise Unwritable(f"{DIFFERS}: {matched} of {len(befores)} rows are")
        words = await self._difference(befores[0])
        if not (gone and not words):
            raise Unwritable(f"{DIFFERS}: {words or 'there is no row'}")

    async def _difference(self, before: Row) -> str:
        """Returns how the target's row differs from its before-image; '' where it is not there."""
        statements = self._statements
        found = await self._script.rows(statements, [statements.found(before)])
        if not found:
            return ""
        same, values, names = found[0][1::2], found[0][2::2], statements.table.shape.columns
        words = [
            f"{names[at].name} is {_spelled(value)} where {_spelled(before[at])} was expected"
            for at, is_same, value in zip(statements.compared, same, values, strict=True)
            if not is_same
        ]
        return "; ".join(words) or "it changes at this moment"

    # ------------------------------------------------------------------ version

    async def _versioned(self, step: Step) -> None:
        statements, version = self._statements, step.version
        if isinstance(step, DeleteRows):
            befores = step.befores or []
            statements.refuse_null(befores, version)
            await self._script.matched(statements, [statements.delete_not_newer(b, version) for b in befores])
            return
        statements.refuse_null(step.rows, version)
        if isinstance(step, UpsertRows) and step.fresh:
            self._script.insert(statements, step.rows, lambda: self._write_newer(step.rows, version))
        elif isinstance(step, UpsertRows) or not step.moves:
            await self._write_newer(step.rows, version)
        else:
            for before, row in zip(step.befores or [], step.rows, strict=True):
                await self._move_newer(before, row, version)

    async def _write_newer(self, rows: Sequence[Row], version: int) -> None:
        """Insert rows, and overwrite by key those whose version is below."""
        statements = self._statements
        if statements.joins([statements.table.key_of(row) for row in rows]):
            newer = statements.update_newer(rows, version)
            if await self._script.matched_by_join(statements, newer) == len(rows):
                return
        else:
            for row in rows:
                await self._script.matched(statements, [statements.update_one_newer(row, row, version)])
        if missing := await self._script.missing(statements, rows):
            self._script.insert(statements, missing, None)

    async def _move_newer(self, before: Row, row: Row, version: int) -> None:
        """Give a row another key or unique value, where both versions let it."""
        statements = self._statements
        if statements.table.key_of(before) != statements.table.key_of(row):
            if await self._script.missing(statements, [row]):
                await self._script.matched(statements, [statements.update_one_newer(before, row, version)])
            statements.refuse_null([before], version)
            await self._script.matched(statements, [statements.delete_not_newer(before, version)])
        await self._write_newer([row], version)

    # ------------------------------------------------------------------ replace

    async def _replace(self, rows: Sequence[Row]) -> None:
        statements = self._statements
        for row in rows:
            for found, delete in statements.holders(row):
                if keys := await self._script.rows(statements, [found]):
                    await self._script.matched(statements, [delete])
                    told = [", ".join(map(str, key)) for key in keys]
                    self._script.replaced += [f"{statements.table.name}: {key}" for key in told]


    # ------------------------------------------------------------------ blind

    async def _parted(self, step: UpsertRows) -> Iterable[UpsertRows]:
        """Return the step in parts, of which only single rows may need room."""
        statements, rows = self._statements, step.rows
        if len(rows) == 1:
            return [step]
        assert isinstance(statements, SuspectStatements), "such steps come to their sink's batches"
        sent = (*step.table.key, *step.table.unique_positions)
        told = [n for n, row in enumerate(rows) if statements.joins([tuple(row[i] for i in sent)])]
        held = await self._script.rows_by_join(statements, statements.held([rows[n] for n in told]))
        found = range(len(told)) if held is None else [int(n) for (n,) in held]
        return parted(step, {*range(len(rows))} - {*told} | {told[n] for n in found})

    async def _displace(self, step: UpsertRows) -> None:
        """Delete and record the rows of other keys that hold a unique value of these."""
        for row, change in zip(step.rows, step.displaces, strict=True):
            await self._make_room(row, change)

    async def _make_room(self, row: Row, change: ChangeId, key: Row | None = None) -> None:
        """`key`: the row's, before it moves."""
        statements, table = self._statements, self._statements.table
        for found, delete in statements.whole_holders(row, key):
            shown = await self._script.rows(statements, [found])
            if not shown:
                continue
            await self._script.matched(statements, [delete])
            for texts in shown:
                gone = tuple(_logged(column, text) for column, text in zip(table.shape.columns, texts, strict=True))
                self._script.displace(Displaced.holder(table, gone, change, row))

    async def _write_over(self, step: UpsertRows) -> None:
        """Insert rows, and overwrite by key those that are there, unique columns included."""
        statements, rows = self._statements, step.rows
        if step.fresh:
            self._script.insert(statements, rows, lambda: self._overwrite(rows))
        else:
            await self._overwrite(rows, step.columns)

    async def _overwrite(self, rows: Sequence[Row], columns: Sequence[int] = ()) -> None:
        statements = self._statements
        if statements.sole_unique and not columns:
            await self._script.matched(statements, statements.upsert(rows))
            return
        if not statements.has_more_than_key:
            missing = await self._script.missing(statements, rows)
        elif len(rows) > 1 and statements.joins([statements.table.key_of(row) for row in rows]):
            matched = await self._script.matched_by_join(statements, statements.overwrite(rows, columns))
            if matched == len(rows):
                return
            if matched is None:  # the server cannot join such keys
                missing = await self._overwritten_singly(rows, columns)
            else:
                missing = await self._script.missing(statements, rows)
        else:
            missing = await self._overwritten_singly(rows, columns)
        if missing:
            self._script.insert(statements, missing, None)

    async def _overwritten_singly(self, rows: Sequence[Row], columns: Sequence[int]) -> list[Row]:
        """Overwrite rows by key; returns those that are not there."""
        statements = self._statements
        return [
            row
            for row in rows
            if not await self._script.matched(statements, [statements.overwrite_one(row, columns)])
        ]


def _logged(column: Column, shown: Any) -> Value:
    """Returns the value as the log of the source has it; as the target shows it, where the source has none such."""
    try:
        return spelled(column, shown)
    except NotSpelled:
        return str(shown)


def _spelled(value: Value) -> str:
    """Spells a value as the target's are shown."""
    if value is None:
        return "NULL"
    return (value.hex().upper() if isinstance(value, bytes) else str(value))[:60]
