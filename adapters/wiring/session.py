"""Opens one short session with a target database, for `tidelock status`, `rows`, `ddl` and the like.

SQL is written once for both dialects, with `%s` for each argument; every statement commits by itself.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tidelock.adapters.config.url import Dialect, Endpoint
from tidelock.adapters.ports.sink import TargetError

if TYPE_CHECKING:
    import asyncpg
    import pymysql

    from tidelock.adapters.mysql import connection as reader

STREAMED_ROWS = 100


class RowStream(Protocol):
    """Reads rows as they come."""

    def __call__(self, sql: str) -> AsyncIterator[tuple[Any, ...]]:
        """Yields the rows, as they come.  Raises SourceError, TargetError."""
        ...


class TargetSession(Protocol):
    """A session with a target."""

    dialect: Dialect

    async def fetch(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows.  Raises TargetError."""
        ...

    async def execute(self, sql: str, *args: Any) -> int:
        """Returns how many rows changed.  Raises TargetError."""
        ...


@asynccontextmanager
async def session(target: Endpoint) -> AsyncIterator[TargetSession]:
    """Opens a session.  Raises TargetError when the target cannot be reached or refuses us."""
    if target.scheme == "hive":
        raise TargetError(f"this command has nothing to say about {target}", "Hive has `run`, `check` and `status`")
    opened = await (_open_postgres(target) if target.dialect == "postgres" else _open_mysql(target))
    try:
        yield opened
    finally:
        await opened.close()


@asynccontextmanager
async def streaming(place: Endpoint, start: str) -> AsyncIterator[RowStream]:
    """Opens a session that answers row by row, at a source or a target; `start`: its first statement.

    MySQL and MariaDB answer with text, or bytes where they take it for binary.  Raises SourceError, TargetError.
    """
    if place.dialect == "postgres":
        postgres = await _open_postgres(place)
        try:
            await postgres.execute(start)
            yield postgres.stream
        finally:
            await postgres.close()
        return
    from tidelock.adapters.mysql import connection
    from tidelock.adapters.mysql.connection import reader_endpoint

    opened = connection.connect(reader_endpoint(place))
    try:
        connection.rows(opened, start)
        yield functools.partial(_mysql_stream, opened, reader_endpoint(place))
    finally:
        opened.close()


async def _mysql_stream(
    opened: pymysql.Connection[Any], place: reader.Address, sql: str
) -> AsyncIterator[tuple[Any, ...]]:
    import pymysql
    from pymysql.cursors import SSCursor

    from tidelock.adapters.mysql.connection import explained

    opened.decoders = {}
    try:
        with opened.cursor(SSCursor) as cursor:
            cursor.execute(sql)
            for row in cursor:
                yield row
    except (pymysql.MySQLError, OSError) as error:
        raise explained(error, place) from error


class PostgresSession:
    """A session with PostgreSQL."""

    dialect: Dialect = "postgres"

    def __init__(self, connection: asyncpg.Connection, target: Endpoint) -> None:
        self._connection = connection
        self._target = target

    async def fetch(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows."""

        try:
            return [tuple(row) for row in await self._connection.fetch(_numbered(sql, args), *args)]
        except _postgres_errors() as error:
            raise _refused(self._target, error) from None

    async def execute(self, sql: str, *args: Any) -> int:
        """Returns how many rows changed."""

        try:
            answer: str = await self._connection.execute(_numbered(sql, args), *args)
        except _postgres_errors() as error:
            raise _refused(self._target, error) from None
        count = answer.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def stream(self, sql: str) -> AsyncIterator[tuple[Any, ...]]:
        """Yields the rows as they come."""

        try:
            async with self._connection.transaction(readonly=True):
                async for row in self._connection.cursor(sql, prefetch=STREAMED_ROWS):
                    yield tuple(row)
        except _postgres_errors() as error:
            raise _refused(self._target, error) from None

    async def close(self) -> None:
        """Closes the connection."""
        try:
            await self._connection.close(timeout=self._target.connect_seconds)
        except (OSError, TimeoutError):
            self._connection.terminate()


class MySqlSession:
    """A session with MySQL or MariaDB: PyMySQL in a thread, one statement at a time, with the reader's rules for TLS.
    """

    dialect: Dialect = "mysql"

    def __init__(self, connection: pymysql.Connection[Any], target: Endpoint) -> None:
        self._connection = connection
        self._target = target

    async def fetch(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Returns the rows."""
        return (await asyncio.to_thread(self._run, sql, args))[0]

    async def execute(self, sql: str, *args: Any) -> int:
        """Returns how many rows changed."""
        return (await asyncio.to_thread(self._run, sql, args))[1]

    def _run(self, sql: str, args: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], int]:
        import pymysql

        try:
            with self._connection.cursor() as cursor:
                changed = cursor.execute(sql, args or None)
                return list(cursor.fetchall()), changed
        except (pymysql.MySQLError, OSError) as error:
            raise _refused(self._target, error) from None

    async def close(self) -> None:
        """Closes the connection."""
        if self._connection.open:
            self._connection.close()


async def _open_postgres(target: Endpoint) -> PostgresSession:
    import asyncpg

    try:
        connection = await asyncpg.connect(
            host=target.host,
            port=target.port,
            user=target.user,
            password=target.password or None,
            database=target.database,
            ssl="prefer" if target.ssl_mode == "prefer" else target.ssl_context() or False,
            timeout=target.connect_seconds,
            command_timeout=target.read_seconds,
            statement_cache_size=0,  # poolers in transaction mode know no prepared statements
            server_settings={"application_name": "tidelock operator", "quote_all_identifiers": "off"},
        )
    except _postgres_errors() as error:
        raise _unreachable(target, error) from None
    return PostgresSession(connection, target)


async def _open_mysql(target: Endpoint) -> MySqlSession:
    from tidelock.adapters.mysql import connection
    from tidelock.adapters.ports.source_errors import Busy, SourceError, Unreachable

    place = connection.Address(
        host=target.host,
        port=target.port,
        user=target.user,
        password=target.password,
        database=target.database,
        sslmode=target.ssl_mode,  # type: ignore[arg-type]  # checked when the URL was read
        sslrootcert=target.options.get("sslrootcert", ""),
        connect_seconds=target.connect_seconds,
        read_seconds=target.read_seconds,
    )
    try:
        return MySqlSession(await asyncio.to_thread(connection.connect, place), target)
    except SourceError as error:
        raise TargetError(
            error.message,
            "Check the target's URL in the feed, its user and password",
            passing=isinstance(error, Busy),
            unreachable=isinstance(error, Unreachable),
        ) from None


def _postgres_errors() -> tuple[type[Exception], ...]:
    """Returns whatever a statement to PostgreSQL may raise.  asyncpg calls it an internal error where a server has said
    farewell and the end of the connection is still on its way."""
    from tidelock.adapters.postgres.target.failures import SERVER_ERRORS

    return SERVER_ERRORS


def _numbered(sql: str, args: tuple[Any, ...]) -> str:
    """Returns SQL with PostgreSQL's `$1` for each `%s`; without arguments every `%` is only itself, as in PyMySQL."""
    if not args:
        return sql
    numbers = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", sql)


def _unreachable(target: Endpoint, error: Exception) -> TargetError:
    reason = "no answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return TargetError(
        f"{target} cannot be reached: {reason}",
        "Check the target's URL in the feed, its user, password and TLS",
        passing=_passes(error),
        unreachable=_unheard(error),
    )


def _refused(target: Endpoint, error: Exception) -> TargetError:
    code = getattr(error, "sqlstate", None) or (error.args[0] if error.args else "")
    text = str(error.args[-1] if error.args else error)
    if isinstance(error, TimeoutError):
        words = f"{target} gave no answer in {target.read_seconds:.0f} s"
        return TargetError(words, "See what the server is at", unreachable=True)
    return TargetError(
        f"{target} answered: {text} ({code})", "Check the rights of the feed's user at the target",
        passing=_passes(error), unreachable=_unheard(error),
    )  # fmt: skip


def _unheard(error: Exception) -> bool:
    """Returns whether no connection came about, or it was lost before the answer."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        from tidelock.adapters.postgres.target.failures import connection_lost

        return connection_lost(error)
    from tidelock.adapters.mysql.error_numbers import meaning

    number = error.args[0] if error.args else 0
    return isinstance(error, OSError) or not isinstance(number, int) or meaning(number, str(error)).lost


def _passes(error: Exception) -> bool:
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        from tidelock.adapters.postgres.target.failures import passes

        return passes(error)
    from tidelock.adapters.mysql.error_numbers import meaning

    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    return meaning(number, str(error)).passes
