"""Rows of a PostgreSQL spoke that make room for those of its arbiter, in the transaction of a batch.

One query for each unique index tells which rows of a step want a value that another row holds; all others are written
together.  The holder of a value that is wanted is locked and read, deleted, and written to `tidelock_conflicts`, before
the row that wants it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.read_back import asked, reader
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.suspect_statements import SuspectStatements
from tidelock.adapters.postgres.target.values import ZeroDates
from tidelock.adapters.schema.log_spelling import NotSpelled
from tidelock.adapters.target.displaced import Displaced, parted
from tidelock.adapters.target.statements_by_table import StatementsByTable
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import Column, Row, Value
from tidelock.engine.model.schema import Binding
from tidelock.engine.protocol.steps import UpdateRows, UpsertRows


class Displacement:
    """Makes room in one transaction of `session`.  `origin`: of the changes that are to be written."""

    def __init__(
        self, session: TargetSession, bookkeeping: BookkeepingSql, zero_dates: ZeroDates, origin: Origin | None
    ) -> None:
        self._session = session
        self._bookkeeping = bookkeeping
        self._zero_dates = zero_dates
        self._origin = origin
        self._statements = StatementsByTable(SuspectStatements)

    async def parted(self, step: UpsertRows) -> Iterable[UpsertRows]:
        """Return the step in parts, of which only single rows may need room.  Raises Unwritable, and what the server
        does."""
        if len(step.rows) == 1:
            return [step]
        fetch = self._session.connection.fetch
        queries = self._statements.of(step.table, self._zero_dates).held(step.rows)
        return parted(step, {int(n) for query in queries for (n,) in await fetch(query)})

    async def make_room(self, step: UpsertRows | UpdateRows) -> int:
        """Delete and record the rows that hold a unique value of these; returns how many.  Raises Unwritable, and what
        the server does."""
        table = step.table
        statements = self._statements.of(table, self._zero_dates)
        count = 0
        keys = step.keys if isinstance(step, UpdateRows) else [table.key_of(row) for row in step.rows]
        for key, row, change in zip(keys, step.rows, step.displaces, strict=True):
            for holds in statements.held_by_others(row, key):
                if found := await self._locked(table, f"FROM {statements.table} AS t WHERE {holds}"):
                    gone = [Displaced.holder(table, one, change, row) for one in found]
                    records = self._bookkeeping.record_displaced(gone, self._origin)
                    await self._session.run([f"DELETE FROM {statements.table} AS t WHERE {holds}", *records])
                    count += len(gone)
        return count

    async def _locked(self, table: Binding, source: str) -> list[Row]:
        types = {column.name: column.type for column in table.target.columns}
        columns = table.shape.columns
        texts = ", ".join(asked(column, types[column.name], "t") for column in columns)
        rows = await self._session.connection.fetch(f"SELECT {texts} {source} FOR UPDATE OF t")
        return [_row(columns, [types[column.name] for column in columns], row) for row in rows]


def _row(columns: Sequence[Column], types: Sequence[str], shown: Sequence[str | None]) -> Row:
    return tuple(_value(*one) for one in zip(columns, types, shown, strict=True))


def _value(column: Column, type: str, shown: str | None) -> Value:
    """Returns the value as the log of the source has it; as the target shows it, where the source has none such."""
    try:
        return reader(column, type)(shown)
    except NotSpelled:
        return shown
