"""The rows of a PostgreSQL spoke that refer to one which its arbiter deletes (`adapters.target.referring_rows`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelock.adapters.postgres.catalogue import AsyncServer, foreign_keys, foreign_rules
from tidelock.adapters.postgres.target.bookkeeping_sql import BookkeepingSql
from tidelock.adapters.postgres.target.checked_statements import CheckedStatements
from tidelock.adapters.postgres.target.commit_audit import LostCommits
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS
from tidelock.adapters.postgres.target.lane import Lane
from tidelock.adapters.postgres.target.outcomes import outcome
from tidelock.adapters.postgres.target.session import TargetSession
from tidelock.adapters.postgres.target.statements import identifier, qualified
from tidelock.adapters.postgres.target.values import Unwritable, ZeroDates
from tidelock.adapters.target.displaced import Displaced
from tidelock.adapters.target.referring_rows import (
    Goes,
    Image,
    Path,
    Reference,
    ReferringRows,
    Rule,
    TooMany,
    going,
    image,
    steps_up,
)
from tidelock.engine.model.errors import ErrorKind, Failure
from tidelock.engine.model.origin import Origin
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.engine.protocol.effects import ApplyBatch

REFUSED: Final = ("23503", "23001")
"""A row is referred to."""
_RULES: Final = {"c": Rule.FOLLOWS, "n": Rule.CLEARS, "d": Rule.CLEARS}


async def clear(
    lane: Lane,
    effect: ApplyBatch,
    tables: Mapping[TableName, TargetTable],
    bookkeeping: BookkeepingSql,
    zero_dates: ZeroDates,
) -> int | Failure:
    """Delete and record what stands in the way of a batch, as the target's own change, in a transaction of its own;
    returns how many rows, or why it failed."""
    count = 0
    try:
        session = await lane.ready()
        lane.left_open = True
        await session.run(["BEGIN", *bookkeeping.fence(effect.id.epoch)])
        for row in going(effect.steps):
            count += await _Rows(session, row, tables, bookkeeping, zero_dates, effect.origin).clear()
        await session.run(["COMMIT"])
    except TooMany as error:
        await lane.leave()
        return Failure(ErrorKind.ROW, str(error))
    except (LostCommits, Unwritable, *SERVER_ERRORS) as error:
        await lane.leave()
        return outcome(error, committing=False)
    lane.left_open = False
    return count


class _Rows(ReferringRows):
    def __init__(
        self,
        session: TargetSession,
        row: Goes,
        tables: Mapping[TableName, TargetTable],
        bookkeeping: BookkeepingSql,
        zero_dates: ZeroDates,
        origin: Origin | None,
    ) -> None:
        super().__init__(row, tables)
        self._session = session
        self._bookkeeping = bookkeeping
        self._origin = origin
        self._root = f"{qualified(row.table.name)} AS t WHERE {CheckedStatements(row.table, zero_dates).keyed(row.key)}"

    async def _references(self, table: TableName) -> list[Reference]:
        server = AsyncServer(self._session.connection)
        rules = await foreign_rules(server, table)
        return [
            Reference(key.child, key.columns, key.parent, key.parent_columns, *map(_rule, rules[key.child, key.name]))
            for key in await foreign_keys(server, [table])
            if key.parent == table
        ]

    async def _locked(self, path: Path, columns: Sequence[TargetColumn], most: int) -> list[Image]:
        texts = ", ".join(_text(column) for column in columns)
        query = f"SELECT {texts} FROM {self._at(path)} LIMIT {most} FOR UPDATE OF t"
        found = await self._session.connection.fetch(query)
        return [image(columns, row, _is_bytes) for row in found]

    async def _delete(self, path: Path, gone: Sequence[Displaced]) -> None:
        *joined, last = path
        others = ", ".join([self._start(path), *(f"{qualified(one.child)} AS c{n}" for n, one in enumerate(joined, 1))])
        met = " AND ".join(steps_up(path, "t", identifier))
        delete = f"DELETE FROM {qualified(last.child)} AS t USING {others} WHERE {met}"
        await self._session.run([delete, *self._bookkeeping.record_displaced(gone, self._origin)])

    def _at(self, path: Path) -> str:
        """Write the part behind FROM that finds the rows at the end of a path, as `t`."""
        if not path:
            return self._root
        meets = steps_up(path, "t", identifier)
        joins = [f"JOIN {qualified(path[n - 1].child)} AS c{n} ON {meets[n]}" for n in range(len(path) - 1, 0, -1)]
        return " ".join([f"{qualified(path[-1].child)} AS t", *joins, f"JOIN {self._start(path)} ON {meets[0]}"])

    def _start(self, path: Path) -> str:
        columns = ", ".join(f"t.{identifier(name)}" for name in path[0].parent_columns)
        return f"(SELECT {columns} FROM {self._root}) AS c0"


def _rule(letter: str) -> Rule:
    return _RULES.get(letter, Rule.REFUSES)


def _text(column: TargetColumn) -> str:
    name = f"t.{identifier(column.name)}"
    return f"encode({name}, 'hex')" if _is_bytes(column) else f"{name}::text"


def _is_bytes(column: TargetColumn) -> bool:
    return column.type == "bytea"
