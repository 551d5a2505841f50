"""Sessions with a PostgreSQL source by libpq: connected, asked, and their errors in the operator's terms.

A replication connection (`replication=database`) takes SQL only in its simple form, so values are written into the
statement as literals, by libpq.  Calls never wait without a bound: a server that is silent is `Unreachable`.
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import AccessDenied, Busy, PurgedPosition, SourceError, Unreachable
from tidelock.adapters.postgres.logical.light_psycopg import OperationalError, pq
from tidelock.adapters.postgres.sqlstates import meaning
from tidelock.engine.model.errors import RESYNC

Cell = str | None
_DENIED: Final = ("28", "42501")
_LOST_LOG: Final = "58P01"
# libpq hands the refusal of a connection on as text alone.
_SAYS_BUSY: Final = (
    "starting up", "shutting down", "not yet accepting", "recovery mode", "too many", "remaining connection slots",
    "max_wal_senders", "not accepting connections",
)  # fmt: skip
_SAYS_DENIED: Final = (
    "password authentication failed", "no password supplied", "pg_hba.conf", "permission denied", "must be superuser",
    "does not exist", "is not permitted to log in", "authentication failed", "certificate",
    "does not support SSL", "server refused", "REPLICATION",
)  # fmt: skip


_GRANT: Final = "Grant {} at the source what `tidelock init FEED` prints"


class Session:
    """One connection.  Not safe for threads."""

    def __init__(self, place: Endpoint, connection: pq.abc.PGconn) -> None:
        self.place = place
        self.connection = connection

    @property
    def version(self) -> int:
        """The server's version: 150004 is 15.4."""
        return self.connection.server_version

    def rows(self, sql: str, *values: str | int) -> list[tuple[Cell, ...]]:
        """The rows of one statement, `%s` standing for each value.  Raises SourceError."""
        result = self.ask(sql, *values)
        return [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def run(self, sql: str, *values: str | int) -> None:
        """Run a statement without rows.  Raises SourceError."""
        self.ask(sql, *values)

    def ask(self, sql: str, *values: str | int) -> pq.abc.PGresult:
        """The result of one statement; of COPY_BOTH it is the beginning.  Raises SourceError, `Refused` for what the
        server refuses."""
        statement = sql.replace("%s", "{}").format(*map(self._literal, values)) if values else sql
        try:
            self.connection.send_query(statement.encode())
            result = self._result()
            if result.status != pq.ExecStatus.COPY_BOTH:
                self._drain()
        except OperationalError as error:
            raise lost(self.place, str(error)) from error
        if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
            raise refusal(self.place, result)
        return result

    def close(self) -> None:
        self.connection.finish()

    def _literal(self, value: str | int) -> str:
        if isinstance(value, int):
            return str(value)
        return pq.Escaping(self.connection).escape_literal(value.encode()).decode()

    def _result(self) -> pq.abc.PGresult:
        connection, deadline = self.connection, time.monotonic() + self.place.read_seconds
        while connection.flush():
            self._wait(deadline, writing=True)
        while True:
            connection.consume_input()
            if not connection.is_busy():
                break
            self._wait(deadline)
        result = connection.get_result()
        if result is None:
            raise lost(self.place, "the connection ended")
        return result

    def _drain(self) -> None:
        while self._more():
            pass

    def _more(self) -> bool:
        connection, deadline = self.connection, time.monotonic() + self.place.read_seconds
        while connection.is_busy():
            self._wait(deadline)
            connection.consume_input()
        return connection.get_result() is not None

    def _wait(self, deadline: float, *, writing: bool = False) -> None:
        left = deadline - time.monotonic()
        socket = [self.connection.socket]
        if left <= 0 or not any(select.select(socket, socket if writing else [], [], left)):
            raise Unreachable(
                f"{self.place} gave no answer in {self.place.read_seconds:.0f} s",
                "See what the server is at (pg_stat_activity)",
            )


def asked(opened: Session, sql: str, values: Sequence[str]) -> list[tuple[Cell, ...]]:
    """Answers a query with `$1`, … in this order."""
    for number in range(len(values)):
        sql = sql.replace(f"${number + 1}", "%s")
    return opened.rows(sql, *values)


class Refused(SourceError):
    """The server refuses a statement.  `code`: its SQLSTATE."""

    code = ""


def connect(place: Endpoint, *, replication: bool = False, application: str = "tidelock") -> Session:
    """Connects and logs in.  Raises SourceError."""
    from tidelock.adapters.postgres.logical.conninfo import conninfo

    try:
        words = conninfo(place, replication=replication, application=application)
    except (OSError, ssl.SSLError) as error:
        raise AccessDenied(
            f"{place}: its sslrootcert cannot be read: {error}", "Correct `source` in the feed"
        ) from None
    deadline = time.monotonic() + place.connect_seconds
    connection = pq.PGconn.connect_start(words)
    try:
        _logged_in(place, connection, deadline)
    except BaseException:
        connection.finish()
        raise
    connection.nonblocking = 1
    return Session(place, connection)


@contextmanager
def session(place: Endpoint, *, replication: bool = False) -> Iterator[Session]:
    """Opens a session for a few questions.  Raises SourceError."""
    opened = connect(place, replication=replication)
    try:
        yield opened
    finally:
        opened.close()


def _logged_in(place: Endpoint, connection: pq.abc.PGconn, deadline: float) -> None:
    if connection.status == pq.ConnStatus.BAD:
        _refused(place, connection)
    state: int = pq.PollingStatus.WRITING
    while True:
        if state == pq.PollingStatus.OK:
            return
        if state == pq.PollingStatus.FAILED:
            _refused(place, connection)
        left = deadline - time.monotonic()
        reads = [connection.socket] if state == pq.PollingStatus.READING else []
        writes = [] if reads else [connection.socket]
        if left <= 0 or not any(select.select(reads, writes, [], left)):
            raise Unreachable(
                f"{place} cannot be reached: no answer in {place.connect_seconds:.0f} s",
                "Check the source's URL in the feed, and that the server can be reached from here",
            )
        state = pq.PollingStatus(connection.connect_poll())


def _refused(place: Endpoint, connection: pq.abc.PGconn) -> NoReturn:
    said = _words(connection.error_message)
    lower = said.lower()
    if any(words in lower for words in _SAYS_BUSY):
        raise Busy(f"{place} cannot take a connection now: {said}", "See its log")
    if any(words.lower() in lower for words in _SAYS_DENIED):
        raise AccessDenied(
            f"{place} refused us: {said}",
            "Correct `source` in the feed, or at the source: ALTER ROLE … LOGIN REPLICATION PASSWORD '…'; and a line "
            "of pg_hba.conf for its database",
        )
    raise Unreachable(f"{place} cannot be reached: {said}", "Check the source's URL in the feed, and the server")


def lost(place: Endpoint, said: str) -> Unreachable:
    """The error where a connection broke."""
    told = f"the connection to {place} was lost: {_line(said)}"
    return Unreachable(told, "Start a new reader from the last position")


def refusal(place: Endpoint, result: pq.abc.PGresult) -> SourceError:
    """The error of a statement that the server refused, by its SQLSTATE."""
    code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    said = _line((result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace"))
    detail = _line((result.error_field(pq.DiagnosticField.MESSAGE_DETAIL) or b"").decode(errors="replace"))
    told = f"{place} answered: {said}{f' ({detail})' if detail else ''} ({code})"
    means = meaning(code, said)
    if not code or means.lost:
        return Unreachable(told, "Start a new reader from the last position")
    if means.passes:
        return Busy(told, "It is asked again; see its log, and pg_stat_activity for who holds what is in use")
    if code == _LOST_LOG:
        return PurgedPosition(told, f"The server has removed what the slot was to keep, as pg_resetwal does. {RESYNC}")
    if code.startswith(_DENIED):
        return AccessDenied(told, _GRANT.format(place.user))
    error = Refused(told, "See the server's log, and `tidelock check FEED`")
    error.code = code
    return error


def denied(place: Endpoint, said: str) -> AccessDenied:
    """The error where a right is missing."""
    return AccessDenied(f"{place} answered: {_line(said)}", _GRANT.format(place.user))


def _text(value: bytes | None) -> Cell:
    return None if value is None else value.decode()


def _words(said: bytes) -> str:
    return _line(said.decode(errors="replace"))


def _line(said: str) -> str:
    return " ".join(said.split())


def whole(cell: Any) -> int:
    """A number that the server told; 0 for NULL."""
    return int(cell or 0)
