"""Staging a chunk in PostgreSQL, on whatever machine has read it.

The table is UNLOGGED, as its rows are worth nothing after a crash of the server, which empties it: the merge counts
them.  `LIKE` gives it the target's types, collations, NOT NULL and CHECK constraints, so what it takes the target takes
too, but for keys; columns that the feed does not write are dropped again.  Nothing reads its statistics.

Rows come and go by column, a batch at a time, each a COPY behind a savepoint.  Where a batch is refused its halves are
tried, down to the rows that are the cause: nothing is paid for that while all is well, two COPYs a halving where not.
Halved too is a batch with more characters than a COPY should hold in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelock.adapters.ports.staging import Columns, Staged, Staging
from tidelock.adapters.postgres.target.copy_text import CopyCommand, lines
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS, failure_of
from tidelock.adapters.postgres.target.session import SessionSettings, TargetSession
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.adapters.postgres.target.values import Unwritable, renderer
from tidelock.engine.model.errors import ErrorKind
from tidelock.engine.model.records import Kind, TableName
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.events import RefusedRow

if TYPE_CHECKING:
    from tidelock.adapters.postgres.target.values import ZeroDates

LOCK_TIMEOUT_SECONDS = 10.0
COPY_CHARACTERS = 16 << 20
SHORT_VALUE = 1_000
_UNBOUNDED = frozenset((Kind.TEXT, Kind.BINARY, Kind.JSON, Kind.GEOMETRY, Kind.VECTOR, Kind.OTHER))
_NEXT = ("RELEASE SAVEPOINT batch", "SAVEPOINT batch")


def session_name(table: str) -> str:
    """The application that fills a staging table, so that it can be ended by name."""
    return f"tidelock/{table}"


def stage(place: Staging, batches: Iterable[Columns]) -> Staged:
    """Make and fill the table in one transaction; what an attempt of this name has left is gone.

    Raises one of `SERVER_ERRORS` where the target cannot be reached or cannot be written to, SchemaMismatch where
    the rows do not fit the table, and what `batches` raises: then nothing is staged.  Holds one batch at a time.
    """
    return asyncio.run(_stage(place, batches))


async def _stage(place: Staging, batches: Iterable[Columns]) -> Staged:
    stager = _Stager(place)
    settings = SessionSettings(place.endpoint, session_name(place.name), False, LOCK_TIMEOUT_SECONDS)
    session = await TargetSession.open(settings)
    try:
        await session.run(["BEGIN", *stager.make(), "SAVEPOINT batch"])
        for batch in batches:
            await stager.add(session, batch)
        await session.run(["COMMIT"])
    finally:
        session.connection.terminate()
    return Staged(stager.rows, tuple(stager.refused))


class _Stager:
    """Makes and fills one staging table.  `rows`, `refused`: so far."""

    def __init__(self, place: Staging) -> None:
        binding = Binding(0, place.shape, place.table)
        zero_dates: ZeroDates = "null" if place.zero_dates == "null" else "dead_letter"
        self.rows = 0
        self.refused: list[RefusedRow] = []
        self._place = place
        self._staged = qualified(TableName(place.schema, place.name))
        self._written = [
            (i, column.name, renderer(place.shape.columns[i], column.type, zero_dates))
            for i, column in enumerate(binding.columns)
            if column is not None
        ]
        self._names = [name for _, name, _ in self._written]
        self._large = [
            i for i, _, _ in self._written
            if place.shape.columns[i].kind in _UNBOUNDED and not 0 < place.shape.columns[i].length <= SHORT_VALUE
        ]  # fmt: skip
        self._copy = f"COPY {self._staged} ({', '.join(map(identifier, self._names))}) FROM STDIN"

    def make(self) -> list[str]:
        others = [column.name for column in self._place.table.columns if column.name not in self._names]
        drops = ", ".join(f"DROP COLUMN {identifier(name)} CASCADE" for name in others)
        like = f"LIKE {qualified(self._place.table.name)} INCLUDING CONSTRAINTS"
        return [
            f"DROP TABLE IF EXISTS {self._staged}",
            f"CREATE UNLOGGED TABLE {self._staged} ({like}) WITH (autovacuum_enabled = off)",
            *([f"ALTER TABLE {self._staged} {drops}"] if drops else ()),
        ]

    async def add(self, session: TargetSession, batch: Columns) -> None:
        """Add rows, or find those that are refused.  Raises one of `SERVER_ERRORS`."""
        rows = len(batch[0])
        if rows == 0:
            return
        error = "" if rows > 1 and self._is_too_large(batch) else await self._refusal(session, batch)
        if error is None:
            self.rows += rows
        elif rows == 1:
            self.refused.append(RefusedRow(self._place.shape, tuple(values[0] for values in batch), error))
        else:
            await self.add(session, [values[: rows // 2] for values in batch])
            await self.add(session, [values[rows // 2 :] for values in batch])

    def _is_too_large(self, batch: Columns) -> bool:
        return sum(len(v) for i in self._large for v in batch[i] if v is not None) > COPY_CHARACTERS

    async def _refusal(self, session: TargetSession, batch: Columns) -> str | None:
        """Returns why the target does not take these rows, of which it then has none; None: it has them."""
        try:
            data = lines(self._names, [render(batch[i]) for i, _, render in self._written])
        except Unwritable as error:
            return f"{self._place.table.name}: {error}"
        try:
            await session.run([*_NEXT, CopyCommand(self._copy, data)])
        except SERVER_ERRORS as error:
            failure = failure_of(error, tables=str(self._place.table.name))
            if failure.kind is not ErrorKind.ROW:
                raise
            await session.run(["ROLLBACK TO SAVEPOINT batch"])
            return self._for_people(failure.message)
        return None

    def _for_people(self, message: str) -> str:
        """The target's table, where the server names the staging table."""
        name = self._place.table.name
        return message.replace(f"{self._place.schema}.{self._place.name}", str(name)).replace(
            self._place.name, name.table
        )
