"""One synchronous session for MariaDB, MySQL and PostgreSQL, opened by URL.

Benchmarks and checks need three things of a server: send a packet of statements in one
round trip, read a small answer, and stream a large one.  Here they look the same on all
three, so that a workload or a comparison is written once.

A URL is `flavor://user:password@host:port/database` with flavor `mariadb`, `mysql` or
`postgresql`.  Wherever a URL is taken, an object with a `url` method (a private server of
`bench.harness.servers`) or an open session is taken too.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

import asyncpg
import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from bench.harness.servers.database import Server

FETCH_ROWS = 5000

Record: TypeAlias = tuple[Any, ...]


class Flavor(enum.StrEnum):
    """Dialect of SQL that a server speaks."""

    MARIADB = "mariadb"
    MYSQL = "mysql"
    POSTGRES = "postgres"


APART: Final = {Flavor.MARIADB: "utf8mb4_nopad_bin", Flavor.MYSQL: "utf8mb4_0900_bin"}
"""Collations that tell all texts apart, as PostgreSQL's own do."""


class Session(Protocol):
    """An autocommit connection; every value of an answer is text, bytes or None."""

    @property
    def flavor(self) -> Flavor: ...

    def send(self, sql: str) -> None:
        """Run statements separated by `;` in one round trip; raises the driver's error at the first that fails."""

    def rows(self, sql: str) -> list[Record]: ...

    def stream(self, sql: str) -> Iterator[Record]:
        """Rows of a large answer, `FETCH_ROWS` at a time; nothing else may use the session until it ends."""

    def close(self) -> None: ...


Endpoint: TypeAlias = "str | Server | Session"


class MySqlSession:
    """MariaDB or MySQL.  The driver's decoders are off: text stays text, binary stays bytes."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        if not connection.client_flag & CLIENT.MULTI_STATEMENTS:
            raise ValueError(
                "open the connection with client_flag=CLIENT.MULTI_STATEMENTS, or through session.connect()"
            )
        self._connection = connection
        self._connection.decoders = {}
        [(version,)] = self.rows("SELECT version()")
        self.flavor = Flavor.MARIADB if "mariadb" in version.lower() else Flavor.MYSQL

    def send(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            while cursor.nextset():
                pass

    def rows(self, sql: str) -> list[Record]:
        return list(self.stream(sql))

    def stream(self, sql: str) -> Iterator[Record]:
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(sql)
            while batch := cursor.fetchmany(FETCH_ROWS):
                yield from batch

    def close(self) -> None:
        self._connection.close()


class PostgresSession:
    """PostgreSQL through asyncpg on a private event loop; columns to read must be cast to text (or be bytea)."""

    flavor = Flavor.POSTGRES

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: asyncpg.Connection) -> None:
        self._loop = loop
        self._connection = connection

    def send(self, sql: str) -> None:
        self._loop.run_until_complete(self._connection.execute(sql))

    def rows(self, sql: str) -> list[Record]:
        return [tuple(row) for row in self._loop.run_until_complete(self._connection.fetch(sql))]

    def stream(self, sql: str) -> Iterator[Record]:
        run = self._loop.run_until_complete
        transaction = self._connection.transaction(isolation="repeatable_read", readonly=True)
        run(transaction.start())
        try:
            cursor = run(_cursor(self._connection, sql))
            while batch := run(cursor.fetch(FETCH_ROWS)):
                yield from map(tuple, batch)
        finally:
            run(transaction.rollback())

    def close(self) -> None:
        try:
            self._loop.run_until_complete(self._connection.close())
        finally:
            self._connection.terminate()
            self._loop.close()


async def _cursor(connection: asyncpg.Connection, sql: str) -> Any:
    return await connection.cursor(sql)


def connect(endpoint: Endpoint, database: str = "") -> Session:
    """Open a session; `database` is used where the endpoint names none.

    Raises `ValueError` for a URL of another kind (the message leaves the password out),
    and the driver's own error where the server cannot be reached.
    """
    if not isinstance(endpoint, str):
        if not isinstance(endpoint, Server):
            return endpoint
        endpoint = endpoint.url(database)
    url = urlsplit(endpoint)
    if url.scheme in {"mariadb", "mysql"}:
        return MySqlSession(_mysql(url, database))
    if url.scheme in {"postgresql", "postgres"}:
        return _postgres(url, database)
    raise ValueError(f"no session for {url.scheme!r} URLs: use mariadb, mysql or postgresql")


def connection(endpoint: Endpoint, database: str = "") -> tuple[Session, Callable[[], None]]:
    """A session, and what closes it: nothing where the caller already had it open."""
    session = connect(endpoint, database)
    return session, (_keep_open if session is endpoint else session.close)


def _keep_open() -> None:
    """The session belongs to the caller."""


def _mysql(url: SplitResult, database: str) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=url.hostname or "127.0.0.1",
        port=url.port or 3306,
        user=unquote(url.username or "root"),
        password=unquote(url.password or ""),
        database=url.path.strip("/") or database or None,
        charset="utf8mb4",
        autocommit=True,
        init_command="SET time_zone='+00:00'",
        client_flag=CLIENT.MULTI_STATEMENTS,
        ssl_disabled=True,  # else the system's authorities are loaded each time, which takes 20 ms
    )


def _postgres(url: SplitResult, database: str) -> PostgresSession:
    loop = asyncio.new_event_loop()
    try:
        opened = loop.run_until_complete(
            asyncpg.connect(
                host=url.hostname or "127.0.0.1",
                port=url.port or 5432,
                user=unquote(url.username or "postgres"),
                password=unquote(url.password or "") or None,
                database=url.path.strip("/") or database or "postgres",
                server_settings={"timezone": "UTC", "datestyle": "ISO, YMD", "extra_float_digits": "1"},
            )
        )
    except BaseException:
        loop.close()
        raise
    return PostgresSession(loop, opened)


def literals(values: Sequence[object]) -> str:
    """`1,'a',NULL`: SQL literals that all three servers read alike; for workload values, which hold no backslash."""
    return ",".join(map(literal, values))


def literal(value: object) -> str:
    """One SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
