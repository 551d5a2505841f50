"""A database server: a process, and one administrator's connection to it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.harness.servers.place import HOST
from bench.harness.servers.process import Process


class Connection(ABC):
    """A session that blocks; `execute` and `execute_script` as in `Server`."""

    @abstractmethod
    def execute(self, sql: str, args: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def execute_script(self, sql: str) -> None: ...

    @property
    @abstractmethod
    def open(self) -> bool:
        """Tell whether the server still holds its end."""

    @abstractmethod
    def close(self) -> None: ...


class Server(Process):
    """A database server of our own.  `extra` are arguments for its program, after ours, so they win.

    `durable=False` leaves out the waits for the disk: what was committed survives `kill()`, not a power cut.
    """

    host = HOST
    user: str
    password = ""

    def __init__(self, extra: Sequence[str] = (), *, durable: bool = False) -> None:
        super().__init__(extra)
        self.durable = durable
        self._lock = threading.RLock()
        self._connection: tuple[str | None, Connection] | None = None
        self._databases = 0

    @property
    @abstractmethod
    def socket(self) -> Path:
        """Its Unix socket."""

    @abstractmethod
    def connect(self, database: str | None = None, user: str | None = None, password: str = "") -> Connection:
        """A session for the caller to close; without `user`, the administrator's.  Raises what the driver raises."""

    @abstractmethod
    def unique_violations(self) -> int:
        """Returns how many statements failed on a unique key since the server's data was made."""

    @abstractmethod
    def failed_on_unique_keys(self) -> list[str]:
        """Returns what the server knows of those statements: lines of its log, or shapes of statements that failed."""

    def _probe(self) -> None:
        self.execute("SELECT 1")

    def execute(self, sql: str, *args: Any, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as the administrator and return its rows.

        One session is kept, and replaced when `database` is another than the last time.  Placeholders are the
        driver's: `%s` for MySQL and MariaDB, `$1` for PostgreSQL.
        """
        with self._lock:
            return self._session(database).execute(sql, args)

    def execute_script(self, sql: str, *, database: str | None = None) -> None:
        """Run statements separated by `;` (PostgreSQL: in one transaction, unless the script says otherwise)."""
        with self._lock:
            self._session(database).execute_script(sql)

    def _session(self, database: str | None) -> Connection:
        if self._connection is not None and self._connection[0] == database and self._connection[1].open:
            return self._connection[1]
        self._disconnect()
        connection = self.connect(database)
        self._connection = (database, connection)
        return connection

    def _disconnect(self) -> None:
        with self._lock:
            if self._connection is not None:
                _, connection = self._connection
                self._connection = None
                connection.close()

    def database(self, prefix: str = "shop") -> str:
        """Create an empty database and return its name: `prefix_1`, `prefix_2`, …"""
        self._databases += 1
        name = f"{prefix}_{self._databases}"
        self.execute(self.create_database(name))
        return name

    def create_database(self, name: str) -> str:
        """Returns the statement that makes an empty database."""
        return f"CREATE DATABASE {name}"

    @abstractmethod
    def databases(self) -> frozenset[str]:
        """Returns the names of all databases."""

    @abstractmethod
    def database_files(self) -> frozenset[str]:
        """Returns what its folder has for databases: cheap to ask, and another answer once one has come or gone."""

    @abstractmethod
    def drop_database(self, name: str) -> None:
        """Drops a database, unless somebody still holds it."""

    def url(self, database: str = "", user: str | None = None, password: str | None = None) -> str:
        """The server's URL for a feed; without `user`, the administrator's."""
        user, password = (self.user, self.password) if user is None else (user, password or "")
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        return f"{self.scheme}://{login}@{self.host}:{self.port}/{quote(database, safe='')}"
