"""A PostgreSQL source's tables as bulk reads ask for them: asyncpg on a loop in a thread of the session's own.

So a caller can wait for it in any thread, also in one whose own loop is running, as where rows are staged as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from tidelock.adapters.bookkeeping.tables import quote
from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError, Unreachable
from tidelock.adapters.postgres.column_types import READING_SETTINGS
from tidelock.adapters.postgres.schema import read_shapes
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS, connection_lost
from tidelock.adapters.schema.source_table import SourceTable
from tidelock.engine.model.records import TableName

Answer = TypeVar("Answer")
_SETTINGS: Final = {**READING_SETTINGS, "application_name": "tidelock copy"}
_CLOSE_SECONDS: Final = 2.0
_ROW_BYTES: Final = 100  # of a table that was never analysed
_DENIED: Final = ("28", "42501")

# What a partitioned table holds is in its partitions.  -1 rows: never analysed.
_SIZES: Final = """
SELECT n.nspname::text, c.relname::text, sum(pg_table_size(p.oid))::bigint, sum(CASE
    WHEN p.reltuples < 0 THEN pg_relation_size(p.oid) / $3
    WHEN p.relpages = 0 THEN p.reltuples
    ELSE p.reltuples * (pg_relation_size(p.oid) / current_setting('block_size')::float8) / p.relpages
END)::bigint
FROM unnest($1::text[], $2::text[]) AS w(schema, name)
JOIN pg_namespace n ON n.nspname = w.schema
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
JOIN pg_class p ON p.relkind = 'r' AND (
    p.oid = c.oid OR c.relkind = 'p' AND p.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
GROUP BY 1, 2"""


class PostgresTables:
    """Tables of PostgreSQL (`adapters.wiring.source_tables.SourceTables`)."""

    dialect: Dialect = "postgres"

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="source tables", daemon=True)
        self._thread.start()
        try:
            self._connection = self._run(_opened(place))
        except BaseException:
            self._end()
            raise

    def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return self._fetch(_numbered(sql, args), args)

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._fetch, _numbered(sql, args), args)

    def stream(self, sql: str, size: int) -> Iterator[tuple[Any, ...]]:
        self.rows("BEGIN READ ONLY")
        self.rows(f"DECLARE streamed NO SCROLL CURSOR FOR {sql}")
        while rows := self.rows(f"FETCH FORWARD {size} FROM streamed"):
            yield from rows
        self.rows("COMMIT")

    def interrupt(self) -> None:
        self._loop.call_soon_threadsafe(self._connection.terminate)

    async def shapes(self, wanted: Callable[[TableName], bool]) -> dict[TableName, SourceTable]:
        return await read_shapes(self, wanted)

    async def sizes(self, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
        found = await self.ask(_SIZES, [n.schema for n in names], [n.table for n in names], _ROW_BYTES)
        return {
            TableName(schema, table): (int(count or 0), int(size) // int(count) if count else 0)
            for schema, table, size, count in found
        }

    async def is_encrypted(self) -> bool:
        return bool((await self.ask("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))[0][0])

    def close(self) -> None:
        with contextlib.suppress(SourceError):
            self._run(self._connection.close(timeout=_CLOSE_SECONDS))
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _fetch(self, sql: str, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._run(self._connection.fetch(sql, *args))]

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except SERVER_ERRORS as error:
            raise _explained(self._place, error) from error


async def _opened(place: Endpoint) -> asyncpg.Connection[asyncpg.Record]:
    try:
        tls: Any = "prefer" if place.ssl_mode == "prefer" else place.ssl_context() or False
    except (OSError, ssl.SSLError) as error:
        raise AccessDenied(f"{place}: its sslrootcert cannot be read: {error}", "Correct it in the feed") from None
    return await asyncpg.connect(
        host=place.host,
        port=place.port,
        user=place.user,
        password=place.password or None,
        database=place.database,
        ssl=tls,
        timeout=place.connect_seconds,
        statement_cache_size=0,  # poolers in transaction mode know no prepared statements
        server_settings=_SETTINGS,
    )


def _explained(place: Endpoint, error: Exception) -> SourceError:
    code = str(getattr(error, "sqlstate", None) or "")
    said = " ".join(str(error).split()) or type(error).__name__
    if "row-level security" in said:
        hint = f"ALTER ROLE {quote('postgres', place.user)} BYPASSRLS; at the source, as it would read fewer rows"
        return AccessDenied(f"{place} refused us: {said} ({code})", hint)
    if code.startswith(_DENIED):
        return AccessDenied(f"{place} refused us: {said} ({code})", "`tidelock init FEED` prints what to grant")
    if isinstance(error, TimeoutError | OSError) or connection_lost(error):
        return Unreachable(f"{place} cannot be reached: {said}", "Check the source's URL in the feed, and the server")
    return SourceError(f"{place} answered: {said} ({code})", "See the server's log, and `tidelock check FEED`")


def _numbered(sql: str, args: Sequence[Any]) -> str:
    """Returns SQL with `$1` for each `%s`; a query of the catalogue's own has numbers already."""
    numbers = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", sql) if args else sql
