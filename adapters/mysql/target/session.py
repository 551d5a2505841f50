"""One session at a MySQL or MariaDB target: how it is set up, and how statements go through it.

The server's defaults differ by version and by what its operator set, so every setting that exactness rests on is made
and then read back: READ COMMITTED (no gap locks), UTC, utf8mb4, strict mode without the `NO_ZERO_…` modes (zero dates
of a MySQL source are data), zeros kept in AUTO_INCREMENT columns, foreign and unique keys checked.

Statements that need no look at the answer in between travel in one packet: aiomysql costs more per round trip than per
byte.  The server stops at the first that fails, so what an error leaves undone is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from aiomysql.connection import Connection
from pymysql import err
from pymysql.charset import charset_by_name
from pymysql.connections import MAX_PACKET_LEN
from pymysql.constants import CLIENT, CR
from pymysql.protocol import MysqlPacket

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.mysql import ed25519
from tidelock.adapters.mysql.connection import reader_endpoint, works
from tidelock.adapters.mysql.error_numbers import meaning
from tidelock.adapters.mysql.target.statements import Dialect
from tidelock.adapters.ports.sink import TargetError
from tidelock.adapters.process.gc_tuning import cut
from tidelock.adapters.process.patience import Watch
from tidelock.adapters.process.tcp_watch import watch_peer

CLOSE_SECONDS = 2.0
OLDEST = {Dialect.MYSQL: (8, 0, 19), Dialect.MARIADB: (10, 3, 3)}  # VALUES as a table, `AS` in an upsert
MODES = frozenset(
    (
        "STRICT_TRANS_TABLES",
        "STRICT_ALL_TABLES",
        "NO_ENGINE_SUBSTITUTION",
        "NO_AUTO_VALUE_ON_ZERO",
        "NO_BACKSLASH_ESCAPES",
    )
)
_SETTINGS = {
    "time_zone": "'+00:00'",
    "foreign_key_checks": "1",
    "unique_checks": "1",
    "sql_safe_updates": "0",
    "autocommit": "0",
    "completion_type": "0",
    "sql_select_limit": "18446744073709551615",
    "sql_big_selects": "1",
}
# Without these a long list of keys is read by a scan of the table.
_RANGES = {
    Dialect.MYSQL: {"range_optimizer_max_mem_size": "0"},
    Dialect.MARIADB: {"in_predicate_conversion_threshold": "0"},
}
_ENDS = (b"COMMIT", b"ROLLBACK")


class Answer(msgspec.Struct, frozen=True):
    """`affected`: rows matched by an UPDATE, changed by an INSERT or DELETE; `rows`: of a query."""

    affected: int
    rows: tuple[tuple[Any, ...], ...]


class StatementFailed(Exception):
    """Statement `index` of those sent failed with `error`; those before it took effect and had `answers`, those after
    it did not run."""

    def __init__(self, answers: Sequence[Answer], error: err.MySQLError) -> None:
        super().__init__(str(error))
        self.answers = answers
        self.index = len(answers)
        self.error = error


class _TargetConnection(Connection):  # type: ignore[misc]
    """Turns to TLS itself, right after the greeting: aiomysql cannot under uvloop, and would go on in plain text with a
    server that offers none.  Knows a login of MariaDB's that aiomysql does not."""

    endpoint: Endpoint

    async def _get_server_information(self) -> None:
        await super()._get_server_information()
        context = self.endpoint.ssl_context()
        if context is None:
            return
        if not self.server_capabilities & CLIENT.SSL:
            if self.endpoint.ssl_mode == "prefer":
                return
            raise TargetError(f"{self.endpoint} offers no TLS", "set up TLS there, or put ?sslmode=prefer on the URL")
        self.client_flag |= CLIENT.SSL
        charset: int = charset_by_name(self.charset).id  # type: ignore[attr-defined]
        self.write_packet(struct.pack("<iIB23s", self.client_flag, MAX_PACKET_LEN, charset, b""))
        await self._writer.start_tls(context, server_hostname=self._host)
        self._reader._transport = self._writer.transport
        self._secure = True

    async def _process_auth(self, plugin_name: bytes, auth_packet: MysqlPacket) -> Any:
        if plugin_name != ed25519.PLUGIN.encode():
            return await super()._process_auth(plugin_name, auth_packet)
        self.write_packet(ed25519.sign(self._password.encode("latin1"), ed25519.rest_of(auth_packet)))
        answer = await self._read_packet()
        answer.check_error()
        return answer


class TargetSession:
    """Statements raise StatementFailed; a session whose connection is lost is not `alive`, and of no further use."""

    def __init__(self, connection: Connection, dialect: Dialect, number: int, packet_bytes: int) -> None:
        """`number`: the server's id of it, for KILL."""
        self.connection = connection
        self.dialect = dialect
        self.number = number
        self.packet_bytes = packet_bytes
        self._ended = True
        self._watch = Watch(connection.endpoint.read_seconds)
        self._misplaced = False  # another server may be the one to write to by now

    @property
    def alive(self) -> bool:
        """True while the connection is of use."""
        return not self.connection.closed

    async def run(self, statements: Sequence[bytes]) -> list[Answer]:
        """Send `statements` in one packet, which the caller kept below `packet_bytes`; one answer each."""
        answers: list[Answer] = []
        self._ended = False
        self._watch.begin(self._works, self._cut)
        try:
            await self.connection.query(b";".join(statements))
            answers.append(self._answer())
            while len(answers) < len(statements):
                await self.connection.next_result()
                answers.append(self._answer())
        except err.MySQLError as error:
            if is_lost(error):
                self.drop()
            else:
                self._misplaced |= meaning(error.args[0], str(error)).elsewhere
            raise StatementFailed(answers, error) from error
        except asyncio.CancelledError:
            self.drop()
            raise
        finally:
            self._watch.end()
        self._ended = statements[-1] in _ENDS
        return answers

    async def _works(self) -> bool:
        return await asyncio.to_thread(works, reader_endpoint(self.connection.endpoint), self.number)

    def _cut(self) -> None:
        if self.connection._writer is not None:
            self.connection._writer.transport.abort()

    def _answer(self) -> Answer:
        result = self.connection._result
        return Answer(result.affected_rows, result.rows or ())

    @property
    def names(self) -> list[str]:
        """Names of the columns of the last answer."""
        return [str(column[0]) for column in self.connection._result.description or ()]

    async def ask(self, statement: str) -> Answer:
        """Run one statement and return its answer."""
        (answer,) = await self.run([statement.encode()])
        return answer

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Roll the transaction back if the block did not end it with COMMIT."""
        try:
            yield
        finally:
            if not self._ended:
                await self.rollback()

    async def commit(self) -> None:
        """Commit."""
        await self.ask("COMMIT")

    async def back_to(self, savepoint: str) -> bool:
        """Undo what ran since; the transaction goes on.  Returns False where there is none any more."""
        if self._misplaced or not self.alive:
            return False
        try:
            await self.ask(f"ROLLBACK TO SAVEPOINT {savepoint}")
        except StatementFailed:
            return False
        return True

    async def rollback(self) -> bool:
        """Roll back.  Returns whether the session is clean again; else it is dropped."""
        if self.alive:
            try:
                await self.ask("ROLLBACK")
            except StatementFailed:
                self.drop()
        if self._misplaced:
            self.drop()
        return self.alive

    def drop(self) -> None:
        """Close the socket without a word; the server ends the session when it notices."""
        if self.connection._writer is not None:
            self.connection._writer.transport.abort()
        self.connection.close()

    async def close(self) -> None:
        """Take leave of the server, which ends the session, and return once the socket is closed."""
        writer = self.connection._writer
        if writer is not None:
            with contextlib.suppress(err.MySQLError, OSError):
                await self.connection.ensure_closed()
                async with asyncio.timeout(CLOSE_SECONDS):
                    await writer.wait_closed()
        self.drop()


def is_lost(error: err.MySQLError) -> bool:
    """Tell whether the connection is gone, so that no answer will come.

    Errors without a number are the driver's own.
    """
    code = error.args[0] if error.args else None
    return not isinstance(code, int) or code == 0 or meaning(code, str(error)).lost


async def open_session(endpoint: Endpoint, lock_seconds: int) -> TargetSession:
    """Connect and set up.  Raises TargetError for a server that cannot be used, else what aiomysql raises."""
    connection = _TargetConnection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user or None,
        password=endpoint.password.encode().decode("latin1"),  # which the driver encodes back
        db=endpoint.database or None,
        charset="utf8mb4",
        connect_timeout=endpoint.connect_seconds,
        client_flag=CLIENT.FOUND_ROWS,
        autocommit=None,
    )
    connection.endpoint = endpoint
    try:
        async with asyncio.timeout(endpoint.connect_seconds):
            await connection._connect()
        watch_peer(connection._writer.transport.get_extra_info("socket"))
        return await _set_up(connection, endpoint, lock_seconds)
    except TimeoutError:
        connection.close()
        words = f"no answer within {endpoint.connect_seconds:.0f} s"
        raise err.OperationalError(CR.CR_CONN_HOST_ERROR, words) from None
    except BaseException as error:
        connection.close()
        cut(error)
        raise


async def _set_up(connection: Connection, endpoint: Endpoint, lock_seconds: int) -> TargetSession:
    dialect = Dialect.MARIADB if "mariadb" in connection.server_version.lower() else Dialect.MYSQL
    session = TargetSession(connection, dialect, connection.thread_id(), 0)
    isolation = "transaction_isolation" if dialect is Dialect.MYSQL else "tx_isolation"
    kept = (
        f"SELECT @@version,@@sql_mode,@@time_zone,@@{isolation},@@foreign_key_checks,@@max_allowed_packet,"
        "CONNECTION_ID()"
    )
    try:
        *_, answer, _ = await session.run([*settings(dialect, lock_seconds), kept.encode(), b"ROLLBACK"])
    except StatementFailed:
        if session.alive:  # an old server does not know all of the settings
            _check_version(await _value(session, "SELECT @@version"), dialect, endpoint)
        raise
    ((version, modes, zone, level, checks, packet, number),) = answer.rows
    _check_version(version, dialect, endpoint)
    if set(modes.split(",")) != MODES or zone != "+00:00" or level != "READ-COMMITTED" or checks != 1:
        raise TargetError(
            f"{endpoint} does not keep our session's settings (sql_mode {modes}, time_zone {zone}, isolation {level})",
            "connect to the server itself: something between changes or shares sessions",
        )
    session.number = number
    session.packet_bytes = packet - 1024  # the server counts the packet's head too
    return session


def settings(dialect: Dialect, lock_seconds: int) -> list[bytes]:
    """Statements that make any session, of whichever driver, one that our literals are exact for."""
    named = {
        "sql_mode": f"'{','.join(sorted(MODES))}'",
        "innodb_lock_wait_timeout": str(lock_seconds),
        "lock_wait_timeout": str(lock_seconds),
        **_SETTINGS,
        **_RANGES[dialect],
    }
    return [
        b"SET NAMES utf8mb4",
        b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        b"SET SESSION " + ",".join(f"{name}={value}" for name, value in named.items()).encode(),
    ]


def _check_version(version: str, dialect: Dialect, endpoint: Endpoint) -> None:
    digits = version.split("-")[0].split(".")
    oldest = OLDEST[dialect]
    if tuple(int(part) for part in digits if part.isdigit()) < oldest:
        raise TargetError(
            f"{endpoint} is {dialect.value} {version}", f"use {dialect.value} {'.'.join(map(str, oldest))} or later"
        )


async def _value(session: TargetSession, query: str) -> Any:
    ((value,),) = (await session.ask(query)).rows
    return value
