"""One connection to a PostgreSQL target: how it is set up, how it is given up so that the server lets go of its locks.

Statements are sent as scripts over the simple protocol, with the data of their COPYs: many statements, one round trip,
one answer.  Prepared statements lost: BEGIN, receipt, rows and COMMIT would each wait for the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import asyncpg

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.postgres.target.copy_text import CopyCommand
from tidelock.adapters.postgres.target.failures import SERVER_ERRORS, elsewhere
from tidelock.adapters.postgres.target.script_protocol import ScriptProtocol
from tidelock.adapters.process.gc_tuning import cut
from tidelock.adapters.process.patience import Watch
from tidelock.adapters.process.tcp_watch import watch_peer

RELEASE_SECONDS = 30.0
POLL_SECONDS = 0.02
SCRIPT_CHARACTERS = 32 << 20
NAME_BYTES = 63
_COPY_DONE = b"c\0\0\0\4"


def application_name(feed: str, group: int) -> str:
    """Name the application: `tidelock/<feed>`, and `/<group>` after group 0.

    The server cuts names at 63 bytes: a hash keeps those apart.
    """
    name = f"tidelock/{feed}" + (f"/{group}" if group else "")
    if len(name) <= NAME_BYTES:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: NAME_BYTES - 17]}~{digest}"


class SessionSettings:
    """The settings that all sessions of a sink share.  `lock_timeout_seconds` bounds every wait for a lock.  `stamps`:
    triggers that stamp rows stand aside (`adapters.stamps`)."""

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        synchronous_commit: bool,
        lock_timeout_seconds: float,
        stamps: bool = False,
    ) -> None:
        self.endpoint = endpoint
        self.name = name
        self.settings = {
            "application_name": name,
            "timezone": "UTC",
            "datestyle": "ISO, YMD",
            "intervalstyle": "postgres",
            "lc_monetary": "C",
            "xmloption": "content",
            "array_nulls": "on",  # else NULL in an array is a text
            "transform_null_equals": "off",
            "quote_all_identifiers": "off",  # the names of types, too
            "row_security": "off",  # what it hides is refused, and not passed over
            "standard_conforming_strings": "on",
            "default_transaction_isolation": "read committed",
            "default_transaction_deferrable": "off",
            "synchronous_commit": "on" if synchronous_commit else "off",
            "lock_timeout": f"{max(1, round(lock_timeout_seconds * 1000))}ms",
            "statement_timeout": "0",
            "idle_in_transaction_session_timeout": "0",
            # Our joins look rows up by key; a plan that reads the whole table suits statistics, not us.
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "jit": "off",
            # So that the server finds out by itself that we are gone, and lets go of our locks.
            "tcp_keepalives_idle": "15",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "3",
            **({"tidelock.apply": "on"} if stamps else {}),
        }

    async def connect(self) -> asyncpg.Connection[asyncpg.Record]:
        """Connect.  Raises one of `SERVER_ERRORS`."""
        endpoint = self.endpoint
        try:
            connection = await asyncpg.connect(
                host=endpoint.host,
                port=endpoint.port,
                user=endpoint.user or None,
                password=endpoint.password or None,
                database=endpoint.database or None,
                ssl=self._ssl(),
                timeout=endpoint.connect_seconds,
                command_timeout=endpoint.read_seconds,  # of its own commands, all short; see `TargetSession` for ours
                server_settings=self.settings,
                statement_cache_size=0,  # none is prepared, and a cached plan would outlive a DDL statement
            )
            watch_peer(connection._transport.get_extra_info("socket"))
            return connection
        except BaseException as error:
            cut(error)
            raise

    def _ssl(self) -> Any:
        """Choose TLS: `prefer` falls back to plain text in asyncpg only when given by name."""
        mode = self.endpoint.ssl_mode
        return mode if mode == "prefer" else self.endpoint.ssl_context() or False


class TargetSession:
    """A connection of one lane.  A dead one is discarded, never used again."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], settings: SessionSettings) -> None:
        self.connection = connection
        self._settings = settings
        self._pid = connection.get_server_pid()
        self._protocol = ScriptProtocol(connection)
        self._watch = Watch(settings.endpoint.read_seconds)
        self._misplaced = False  # another server may be the one to write to by now

    @classmethod
    async def open(cls, settings: SessionSettings) -> TargetSession:
        """Open a session.  Raises one of `SERVER_ERRORS`."""
        return cls(await settings.connect(), settings)

    @property
    def alive(self) -> bool:
        """True while the connection is of use."""
        return not self.connection.is_closed()

    async def run(self, statements: Iterable[str | CopyCommand]) -> None:
        """Send the statements in as few packets as their size allows; stops at the first error."""
        for script, data in _packets(statements):
            messages = script_messages(script, data)
            self._watch.begin(self._works, self.connection._transport.abort)
            try:
                self._protocol.begin()
                self.connection._transport.write(messages)
                await self._protocol.answer()
            except asyncpg.PostgresError as error:
                self._misplaced |= elsewhere(error)
                raise
            finally:
                self._watch.end()

    async def _works(self) -> bool:
        """Tell whether the server works on a script of ours."""
        connection = await self._settings.connect()
        try:
            return bool(await connection.fetchval(_WORKS, self._pid, self._settings.name))
        finally:
            connection.terminate()

    async def back_to(self, savepoint: str) -> bool:
        """Undo what ran since; the transaction goes on.  Returns False where there is none any more."""
        if self._misplaced or not self.alive:
            return False
        try:
            await self.run([f"ROLLBACK TO SAVEPOINT {savepoint}", f"RELEASE SAVEPOINT {savepoint}"])
        except SERVER_ERRORS:
            return False
        return True

    async def rollback(self) -> None:
        """Roll back: then the server holds no lock of ours, or could not be reached within `RELEASE_SECONDS`.

        ROLLBACK is sent whatever state the driver believes in: after a cancelled statement it does not know yet.
        """
        if self.alive:
            with contextlib.suppress(*SERVER_ERRORS):
                async with asyncio.timeout(RELEASE_SECONDS):
                    await self.connection.execute("ROLLBACK")
                if self._misplaced:
                    self.connection.terminate()
                return
        await self.discard()

    async def discard(self) -> None:
        """Give the connection up and wait until its server process is gone: a lost client is noticed late there."""
        self.connection.terminate()
        with contextlib.suppress(*SERVER_ERRORS):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._end_backend()

    async def _end_backend(self) -> None:
        connection = await self._settings.connect()
        try:
            while await connection.fetchval(_END_ONE, self._pid, self._settings.name):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
        finally:
            connection.terminate()

    async def close(self) -> None:
        """Close in order; a transaction in flight is rolled back."""
        try:
            await self.connection.close(timeout=self._settings.endpoint.connect_seconds)
        except SERVER_ERRORS:
            self.connection.terminate()


# The name guards against a process number that another session has taken since.
_END_ONE = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2"

_WORKS = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND application_name = $2 AND state NOT LIKE 'idle%'"

END_OLDER = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1 "
    "AND datname = current_database() AND usename = current_user AND backend_start < "
    "(SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())"
)
"""Ask all older sessions of a name to end; returns how many are still there."""


def _packets(statements: Iterable[str | CopyCommand]) -> Iterator[tuple[str, list[bytes]]]:
    """Neighbouring statements joined to scripts, each with the data of its COPYs; a server takes at most 1 GiB."""
    waiting: list[str] = []
    data: list[bytes] = []
    size = 0
    for statement in statements:
        text, more = (statement.command, [statement.data]) if isinstance(statement, CopyCommand) else (statement, [])
        if waiting and size + len(text) + sum(map(len, more)) > SCRIPT_CHARACTERS:
            yield ";\n".join(waiting), data
            waiting, data, size = [], [], 0
        waiting.append(text)
        data += more
        size += len(text) + sum(map(len, more))
    if waiting:
        yield ";\n".join(waiting), data


def script_messages(script: str, data: Iterable[bytes]) -> bytes:
    """Spell a script and the `data` of its COPYs, in their order, as the messages that a server takes at once."""
    text = script.encode()
    parts = [b"Q" + (len(text) + 5).to_bytes(4, "big"), text, b"\0"]
    for lines in data:
        parts += (b"d" + (len(lines) + 4).to_bytes(4, "big"), lines, _COPY_DONE)
    return b"".join(parts)
