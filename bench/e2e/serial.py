"""The baseline: row by row, as the log has it, over one connection, in the source's transactions.

This is what a replica without lanes, batches or merges does, made as well as it can be: the same decoder as ours, one
prepared statement for each kind of change, no wait for the disk, and no explicit transaction around a single row.  It
takes PostgreSQL targets and tables with a primary key, in benchmarks only: it keeps no position and survives nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg
import uvloop

from bench.harness.decode import read
from bench.harness.servers import Server
from tidelock.adapters.mysql import connection as server
from tidelock.adapters.mysql.binlog import log_ends
from tidelock.adapters.mysql.connection import Address
from tidelock.engine.model.log_batch import SourceChunk
from tidelock.engine.model.records import Position, Row, RowChange, Shape, TableName

KEY: Final = "id"


def apply(source: Server, start: str, target_url: str, schema: str) -> None:
    """Everything of `schema` from `start` (`FILE:OFFSET`) to the source's end of now, into tables of the same names."""
    endpoint = Address(source.host, source.port, source.user, source.password)
    connection = server.connect(endpoint)
    end = log_ends.current_position(connection)
    connection.close()
    file, _, offset = start.rpartition(":")

    def wanted(table: TableName) -> bool:
        return table.schema == schema

    uvloop.run(_apply(read(endpoint, Position(file, int(offset)), end, wanted=wanted), target_url))


async def _apply(chunks: Iterable[SourceChunk], target_url: str) -> None:
    connection = await asyncpg.connect(target_url, ssl=False, server_settings={"synchronous_commit": "off"})
    try:
        applier, shapes = Applier(connection), dict[int, Shape]()
        for chunk in chunks:
            shapes.update(chunk.shapes)
            for transaction in chunk.transactions:
                if transaction.rows:
                    await applier.transaction(transaction.rows, shapes)
    finally:
        await connection.close()


class Applier:
    """Writes changes one by one.  Values travel as text and the server reads them, as each column's type wants."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._prepared: dict[tuple[TableName, str], Any] = {}

    async def transaction(self, rows: Sequence[RowChange], shapes: dict[int, Shape]) -> None:
        if len(rows) == 1:
            await self._change(rows[0], shapes[rows[0].table])
            return
        async with self._connection.transaction():
            for row in rows:
                await self._change(row, shapes[row.table])

    async def _change(self, change: RowChange, shape: Shape) -> None:
        key = next(place for place, column in enumerate(shape.columns) if column.name == KEY)
        if change.before is None:
            await self._run(shape, "insert", change.after or ())
        elif change.after is None:
            await self._run(shape, "delete", (change.before[key],))
        else:
            await self._run(shape, "update", (*change.after, change.before[key]))

    async def _run(self, shape: Shape, kind: str, values: Row) -> None:
        statement = self._prepared.get((shape.name, kind))
        if statement is None:
            statement = await self._connection.prepare(await self._sql(shape, kind))
            self._prepared[shape.name, kind] = statement
        await statement.fetch(*(None if value is None else str(value) for value in values))

    async def _sql(self, shape: Shape, kind: str) -> str:
        table = f"{shape.name.schema}.{shape.name.table}"
        types = await self._column_types(table)
        names = [column.name for column in shape.columns]
        places = [f"${number}::text::{types[name]}" for number, name in enumerate(names, 1)]
        match kind:
            case "insert":
                return f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join(places)})"
            case "delete":
                return f"DELETE FROM {table} WHERE {KEY}=$1::text::{types[KEY]}"
            case _:
                assignments = ",".join(map("{}={}".format, names, places))
                return f"UPDATE {table} SET {assignments} WHERE {KEY}=${len(names) + 1}::text::{types[KEY]}"

    async def _column_types(self, table: str) -> dict[str, str]:
        records = await self._connection.fetch(
            "SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute"
            " WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
            table,
        )
        return {record["attname"]: record["type"] for record in records}
