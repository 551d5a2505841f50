"""Connections to MySQL and MariaDB servers, and what to ask one about its log."""

from __future__ import annotations

import contextlib
import io
import re
import socket
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import pymysql
from pymysql.connections import Connection
from pymysql.constants import ER

from tidelock.adapters.config.url import CONNECT_SECONDS, READ_SECONDS, Endpoint, is_pem, unverified_context
from tidelock.adapters.mysql import ed25519
from tidelock.adapters.mysql.error_numbers import meaning
from tidelock.adapters.mysql.errors import SEE_THE_LOG, DamagedLog
from tidelock.adapters.mysql.patience import WORKS, Patient
from tidelock.adapters.ports.source_errors import (
    AccessDenied,
    Busy,
    PurgedPosition,
    SourceError,
    Unreachable,
)
from tidelock.adapters.process.tcp_watch import watch_peer
from tidelock.engine.model.errors import RESYNC
from tidelock.engine.model.records import Kind, TableName

ALL_ROWS: Final = "sql_select_limit=18446744073709551615"
"""A server's own limit would cut what is read of tables, without a word."""
_MODE: Final = "sql_mode='STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'"
"""A server's own mode may take our statements for others (ORACLE, ANSI_QUOTES), or cut what is kept."""
_SETTINGS: Final = f"time_zone='+00:00',sql_big_selects=1,{ALL_ROWS},{_MODE}"
_ISOLATION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
WRITE_SECONDS: Final = 600.0  # of a server that takes nothing; what it is sent is rows, and it may be slow
SslMode: TypeAlias = Literal["disable", "prefer", "require", "verify-ca", "verify-full"]
_TYPES: Final[Mapping[str, Kind]] = {"uuid": Kind.UUID, "inet4": Kind.INET4, "inet6": Kind.INET6}
# The server's own errors, by what the operator can do about them.
_DENIED: Final = {
    ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR,
    ER.HOST_NOT_PRIVILEGED, 1698,
}  # fmt: skip
_flavors: WeakKeyDictionary[pymysql.Connection[Any], Flavor] = WeakKeyDictionary()
_LOG_ERROR: Final = 1236  # "Got fatal error … from source when reading data from binary log"

_LOST_HINT: Final = (
    f"Changes since then cannot be read by the feed: {RESYNC}; keep logs longer (binlog_expire_logs_seconds)"
)


class Address(msgspec.Struct, frozen=True):
    """A server's address and who we are there; `unix_socket` takes the place of host and port where given.

    `sslmode` as in PostgreSQL's URLs; `sslrootcert` names a PEM file of the authority.
    """

    host: str
    port: int = 3306
    user: str = ""
    password: str = ""
    database: str = ""
    sslmode: SslMode = "prefer"
    sslrootcert: str = ""
    unix_socket: str = ""
    connect_seconds: float = CONNECT_SECONDS
    read_seconds: float = READ_SECONDS

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        return f"{self.user}@{self.unix_socket or f'{self.host}:{self.port}'}"


class Flavor(msgspec.Struct, frozen=True):
    """A server's kind and version."""

    name: Literal["mysql", "mariadb"]
    version: tuple[int, int, int]

    @property
    def is_mariadb(self) -> bool:
        """True if it is MariaDB."""
        return self.name == "mariadb"


def connect(endpoint: Address) -> SourceConnection:
    """A session in utf8mb4, UTC, autocommit and a mode of our own, which reads all rows and none that is not committed,
    whatever the server's own settings are.  An answer that does not come is waited for as long as the server says that
    it works on it.  Raises AccessDenied or Unreachable."""
    connection = _connected(endpoint)
    connection._read_timeout = endpoint.read_seconds
    number = int(connection.thread_id())  # type: ignore[no-untyped-call]
    connection.patient.works = lambda: works(endpoint, number)
    return connection


def works(endpoint: Address, number: int) -> bool:
    """Tell whether session `number` of ours works on a statement, asked on a connection of its own.

    False where there is no answer.
    """
    try:
        with contextlib.closing(_connected(endpoint)) as connection:
            return bool(rows(connection, WORKS, number))
    except (SourceError, pymysql.MySQLError, OSError):
        return False


def _connected(endpoint: Address) -> SourceConnection:
    place: dict[str, Any] = {"unix_socket": endpoint.unix_socket} if endpoint.unix_socket else {}
    try:
        connection = SourceConnection(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.encode(),  # of text the driver would take Latin-1 only
            database=endpoint.database or None,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=endpoint.connect_seconds,
            read_timeout=endpoint.connect_seconds,
            write_timeout=WRITE_SECONDS,
            defer_connect=True,
            auth_plugin_map={ed25519.PLUGIN: ed25519.Login},
            **place,
            **_tls(endpoint),
        )
        connection.connect()
        rows(connection, _ISOLATION)
        watch_peer(connection._sock)
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        raise explained(error, endpoint) from error
    connection.endpoint = endpoint
    return connection


class SourceConnection(Connection):
    """Reads through `patient`.  PyMySQL loads the system's authorities also for `prefer`, which checks none.
    `endpoint`: where it leads."""

    endpoint: Address
    patient: Patient
    _sock: socket.socket
    _read_timeout: float
    _reader: io.BufferedReader | None = None

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Make the session ours in one statement; PyMySQL asks for this once it is logged in."""
        self.query(f"SET NAMES {charset},{_SETTINGS}")

    def interrupt(self) -> None:
        """End the connection, called from another thread: whoever waits for an answer gets an error."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    @property
    def _rfile(self) -> io.BufferedReader | None:
        return self._reader

    @_rfile.setter
    def _rfile(self, file: io.BufferedReader | None) -> None:
        """PyMySQL makes a file of each socket it comes to have, with TLS and without."""
        if file is None:
            self._reader = None
            return
        file.close()
        self.patient = Patient(self)
        self._reader = io.BufferedReader(self.patient)

    def _create_ssl_ctx(self, options: Any) -> Any:
        return super()._create_ssl_ctx(options) if options else unverified_context()  # type: ignore[misc]


def _tls(endpoint: Address) -> dict[str, Any]:
    match endpoint.sslmode:
        case "disable":
            return {"ssl_disabled": True}
        case "prefer":
            return {}
        case "require":
            return {"ssl": unverified_context()}
        case "verify-ca" | "verify-full" as mode if is_pem(endpoint.sslrootcert):
            import ssl  # 20 ms that most feeds save

            context = ssl.create_default_context(cadata=endpoint.sslrootcert)
            context.check_hostname = mode == "verify-full"
            return {"ssl": context}
        case "verify-ca":
            return {"ssl": {"ca": endpoint.sslrootcert or None, "check_hostname": False, "verify_mode": "required"}}
        case "verify-full":
            return {"ssl": {"ca": endpoint.sslrootcert or None, "check_hostname": True, "verify_mode": "required"}}


def explained(error: Exception, endpoint: Address) -> SourceError:
    """A driver's error in the operator's words."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    if code in _DENIED:
        return AccessDenied(
            f"{endpoint} refused: {text} ({code})",
            "Check user and password; the account needs GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* and"
            " SELECT on the tables (MariaDB: also BINLOG MONITOR)",
        )
    if code == _LOG_ERROR:
        return _log_error(text, endpoint)
    means = meaning(code, text)
    if means.passes:
        return Busy(f"{endpoint} answered: {text} ({code})", "It is tried again; see what the server lacks")
    if means.lost or isinstance(error, OSError | EOFError):
        return Unreachable(f"{endpoint} cannot be reached: {text}", "Check that the server runs, host, port and TLS")
    return SourceError(f"{endpoint} answered: {text} ({code})", SEE_THE_LOG)


def _log_error(text: str, endpoint: Address) -> SourceError:
    lost = ("purged", "not in the", "first log file", "impossible position", "position >", "Could not open log file")
    if any(sign in text for sign in lost):
        return PurgedPosition(
            f"the log of {endpoint} does not hold the position to read from: {text}",
            _LOST_HINT,
        )
    damaged = ("crc check", "truncated in the middle", "bogus data", "corrupt", "checksum")
    if any(sign in text for sign in damaged):
        return DamagedLog(f"{endpoint} finds its own log damaged: {text}")
    return SourceError(f"{endpoint} cannot send its log: {text}", SEE_THE_LOG)


def refusal(b: bytes, p: int, end: int, endpoint: Address) -> SourceError:
    """An error packet at `p`: 0xFF, code, '#' and SQLSTATE, text."""
    text = b[p + 9 : end].decode(errors="replace")
    return explained(pymysql.OperationalError(int.from_bytes(b[p + 1 : p + 3], "little"), text), endpoint)


def rows(connection: pymysql.Connection[Any], sql: str, *args: object) -> list[tuple[Any, ...]]:
    """Run a query and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, args or None)
        return list(cursor.fetchall())


def flavor(connection: pymysql.Connection[Any]) -> Flavor:
    """Return which kind of server it is, and its version; a connection is asked once."""
    if connection not in _flavors:
        _flavors[connection] = _flavor(connection)
    return _flavors[connection]


def _flavor(connection: pymysql.Connection[Any]) -> Flavor:
    text = str(rows(connection, "SELECT VERSION()")[0][0])
    found = re.search(r"(\d+)\.(\d+)\.(\d+)(?=-MariaDB)|(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        raise SourceError(f"the server's version is {text!r}", "Use MySQL 8.4 or later, or MariaDB 10.11 or later")
    major, minor, patch = (int(part) for part in found.groups() if part is not None)
    return Flavor("mariadb" if "mariadb" in text.lower() else "mysql", (major, minor, patch))


def variable(connection: pymysql.Connection[Any], name: str) -> str:
    """A global variable, or the empty string where the server has none of that name."""
    return variables(connection, name).get(name, "")


def variables(connection: pymysql.Connection[Any], *names: str) -> dict[str, str]:
    """Return the global variables of these names, as far as the server has them."""
    found = rows(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", names)
    return {str(name): str(value) for name, value in found}


def dumps_checksums(connection: pymysql.Connection[Any]) -> bool:
    """Tell whether the events that this session is sent first have checksums, as it told the server that it knows."""
    first, second = rows(connection, "SELECT @source_binlog_checksum, @master_binlog_checksum")[0]
    return (second if first is None else first) not in (None, "NONE", b"NONE")


def column_kinds(connection: pymysql.Connection[Any], table: TableName) -> dict[str, Kind]:
    """The columns that MariaDB logs as BINARY although they are uuid, inet4 or inet6, as the catalogue has them now."""
    found = rows(
        connection,
        "SELECT COLUMN_NAME, LOWER(DATA_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=%s AND TABLE_NAME=%s"
        " AND LOWER(DATA_TYPE) IN ('uuid', 'inet4', 'inet6')",
        table.schema,
        table.table,
    )
    return {str(name): _TYPES[kind] for name, kind in found}


def reader_endpoint(endpoint: Endpoint) -> Address:
    """Return an endpoint as the readers of a source take it."""
    return Address(
        endpoint.host, endpoint.port, endpoint.user, endpoint.password, endpoint.database,
        endpoint.ssl_mode,  # type: ignore[arg-type]
        endpoint.options.get("sslrootcert", ""), "", endpoint.connect_seconds, endpoint.read_seconds,
    )  # fmt: skip
