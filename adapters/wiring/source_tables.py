"""A source's tables as bulk reads ask for them, whichever server it is: its catalogue, and how large they are.

It is one session, which a thread uses at a time.  What is read of a log is `adapters.ports.source`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import TableName

if TYPE_CHECKING:
    from tidelock.adapters.mysql.catalogue import BlockingServer

Sizes = Mapping[TableName, tuple[int, int]]
"""About how many rows a table has, and how many bytes each."""


class SourceTables(Protocol):
    """A session with a source.  All raise SourceError."""

    dialect: Dialect

    def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, `%s` standing for each of `args`."""
        ...

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the same, asked in a thread."""
        ...

    async def shapes(self, wanted: Callable[[TableName], bool]) -> dict[TableName, SourceTable]:
        """Returns the tables that are wanted, as the catalogue has them now, in order of their names."""
        ...

    async def sizes(self, names: Sequence[TableName]) -> Sizes:
        """Returns sizes by the server's statistics."""
        ...

    async def is_encrypted(self) -> bool:
        """Tells whether the session is."""
        ...

    def close(self) -> None: ...


class MySqlTables:
    """Tables of MySQL and MariaDB."""

    dialect: Dialect = "mysql"

    def __init__(self, server: BlockingServer) -> None:
        self.server = server

    def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return self.server.rows(sql, *args)

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return await self.server.ask(sql, *args)

    async def shapes(self, wanted: Callable[[TableName], bool]) -> dict[TableName, SourceTable]:
        from tidelock.adapters.mysql.schema import read_shapes

        return await read_shapes(self.server, wanted)

    async def sizes(self, names: Sequence[TableName]) -> Sizes:
        from tidelock.adapters.mysql.catalogue import condition

        where, args = condition(names)
        found = await self.ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COALESCE(TABLE_ROWS, 0), COALESCE(AVG_ROW_LENGTH, 0) "
            f"FROM information_schema.TABLES WHERE {where}",
            *args,
        )
        return {TableName(schema, table): (int(count), int(size)) for schema, table, count, size in found}

    async def is_encrypted(self) -> bool:
        return bool((await self.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))[0][1])

    def close(self) -> None:
        self.server.close()


def connect(place: Endpoint) -> SourceTables:
    """Opens a session.  Waits for the server.  Raises SourceError."""
    if place.dialect == "postgres":
        from tidelock.adapters.wiring.postgres_tables import PostgresTables

        return PostgresTables(place)
    from tidelock.adapters.mysql.catalogue import BlockingServer
    from tidelock.adapters.mysql.connection import connect as opened
    from tidelock.adapters.mysql.connection import reader_endpoint

    address = reader_endpoint(place)
    return MySqlTables(BlockingServer(opened(address), address))


@contextmanager
def tables_of(place: Endpoint) -> Iterator[SourceTables]:
    """Opens a session, and closes it.  Raises SourceError."""
    with contextlib.closing(connect(place)) as session:
        yield session


@asynccontextmanager
async def tables_at(place: Endpoint) -> AsyncIterator[SourceTables]:
    """Opens a session without waiting in this thread.  Raises SourceError."""
    session = await asyncio.to_thread(connect, place)
    try:
        yield session
    finally:
        await asyncio.to_thread(session.close)
