"""The rows of a MySQL or MariaDB spoke that refer to one which its arbiter deletes (`adapters.target.referring_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelock.adapters.mysql import catalogue
from tidelock.adapters.mysql.target.checked_statements import CheckedStatements
from tidelock.adapters.mysql.target.failures import SERVER_ERRORS
from tidelock.adapters.mysql.target.fencing import Fenced, Fencing
from tidelock.adapters.mysql.target.lane import Lane
from tidelock.adapters.mysql.target.literals import Unwritable
from tidelock.adapters.mysql.target.outcomes import outcome
from tidelock.adapters.mysql.target.session import TargetSession
from tidelock.adapters.mysql.target.statements import identifier, qualified
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
from tidelock.engine.model.records import TableName
from tidelock.engine.model.schema import TargetColumn, TargetTable
from tidelock.engine.protocol.effects import ApplyBatch

_RULES: Final = {"CASCADE": Rule.FOLLOWS, "SET NULL": Rule.CLEARS, "SET DEFAULT": Rule.CLEARS}
_BYTES: Final = ("binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob")
_TEXTS: Final = ("char", "varchar", "text", "tinytext", "mediumtext", "longtext", "enum", "set", "json")
Record = Callable[[Displaced], bytes]


async def clear(
    lane: Lane, effect: ApplyBatch, tables: Mapping[TableName, TargetTable], fencing: Fencing, record: Record
) -> int | Failure:
    """Delete and record what stands in the way of a batch, as the target's own change, in a transaction of its own;
    returns how many rows, or why it failed."""
    try:
        session = await lane.ready()
        async with session.transaction():
            await fencing.fence(session)
            count = sum([await _Rows(session, row, tables, record).clear() for row in going(effect.steps)])
            await session.commit()
    except TooMany as error:
        return Failure(ErrorKind.ROW, str(error))
    except (Unwritable, Fenced, *SERVER_ERRORS) as error:
        await lane.leave()
        return outcome(error)
    return count


class _Rows(ReferringRows):
    def __init__(
        self, session: TargetSession, row: Goes, tables: Mapping[TableName, TargetTable], record: Record
    ) -> None:
        super().__init__(row, tables)
        self._session = session
        self._record = record
        keyed = CheckedStatements(row.table, session.dialect, session.packet_bytes).by_values(row.key)
        self._root = f"{qualified(row.table.name)} WHERE {keyed}"

    async def _references(self, table: TableName) -> list[Reference]:
        server = catalogue.AsyncServer(self._session.connection)
        keys = [key for key in await catalogue.foreign_keys(server, [table]) if key.parent == table]
        rules = await catalogue.rules(server, {key.child.schema for key in keys}) if keys else {}
        found = []
        for key in keys:
            on_update, on_delete = rules[key.child, key.name]
            found.append(
                Reference(key.child, key.columns, table, key.parent_columns, _rule(on_delete), _rule(on_update))
            )
        return found

    async def _locked(self, path: Path, columns: Sequence[TargetColumn], most: int) -> list[Image]:
        place = f"{qualified(path[-1].child)}" if path else qualified(self._goes.table.name)
        texts = ",".join(_text(column, place) for column in columns)
        answer = await self._session.ask(f"SELECT {texts} FROM {self._at(path)} LIMIT {most} FOR UPDATE")
        return [image(columns, row, _is_bytes) for row in answer.rows]

    async def _delete(self, path: Path, gone: Sequence[Displaced]) -> None:
        # An alias behind DELETE belongs to the session's database, and ours has none.
        await self._session.ask(f"DELETE {qualified(path[-1].child)} FROM {self._at(path)}")
        for one in gone:
            await self._session.run([self._record(one)])

    def _at(self, path: Path) -> str:
        """Write the part behind FROM that finds the rows at the end of a path, whose table has no alias."""
        if not path:
            return self._root
        last = qualified(path[-1].child)
        meets = steps_up(path, last, identifier)
        joins = [f"JOIN {qualified(path[n - 1].child)} c{n} ON {meets[n]}" for n in range(len(path) - 1, 0, -1)]
        columns = ",".join(identifier(name) for name in path[0].parent_columns)
        start = f"JOIN (SELECT {columns} FROM {self._root}) c0 ON {meets[0]}"
        return " ".join([last, *joins, start])


def _rule(word: str) -> Rule:
    return _RULES.get(word, Rule.REFUSES)


def _base(column: TargetColumn) -> str:
    return column.type.partition("(")[0].partition(" ")[0]


def _text(column: TargetColumn, place: str) -> str:
    name = f"{place}.{identifier(column.name)}"
    match _base(column):
        case base if base in _BYTES:
            return f"HEX({name})"
        case "bit":
            return f"CAST({name}+0 AS CHAR)"
        case base if base in _TEXTS:
            return f"CONVERT({name} USING utf8mb4)"
        case "geometry" | "point" | "linestring" | "polygon":
            return f"ST_AsText({name})"
        case _:
            return f"CAST({name} AS CHAR)"


def _is_bytes(column: TargetColumn) -> bool:
    return _base(column) in _BYTES
