"""A session that asks a source's catalogue beside the log, kept from one question to the next."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

from psycopg import Connection, Error, OperationalError, RawCursor, connect

from tidelock.adapters.config.url import Endpoint
from tidelock.adapters.ports.source_errors import AccessDenied, SourceError
from tidelock.adapters.postgres.catalogue import Server
from tidelock.adapters.postgres.logical.conninfo import conninfo
from tidelock.adapters.postgres.logical.session import denied, lost

_ATTEMPTS = 2


class CatalogueSession:
    """Opened by the first question, and anew where it was lost meanwhile."""

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._connection: Connection[tuple[Any, ...]] | None = None

    def ask(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query with `$1`, … in it, as Python's values.  Raises SourceError."""
        for attempt in range(_ATTEMPTS):
            kept = self._connection is not None
            try:
                return RawCursor(self._opened()).execute(sql.encode(), values).fetchall()
            except OperationalError as error:
                self.close()
                if not kept or attempt + 1 == _ATTEMPTS:
                    raise lost(self._place, str(error)) from error
            except Error as error:
                self.close()
                raise _refused(self._place, error) from error
        raise AssertionError("unreachable")

    def as_server(self) -> Server:
        """It as `adapters.postgres.catalogue` asks a server; an answer blocks."""
        return _Asked(self)

    def close(self) -> None:
        """Closes it, where it is open."""
        opened, self._connection = self._connection, None
        if opened is not None:
            opened.close()

    def _opened(self) -> Connection[tuple[Any, ...]]:
        if self._connection is None:
            try:
                words = conninfo(self._place, replication=False, application="tidelock catalogue")
            except (OSError, ssl.SSLError) as error:
                raise AccessDenied(
                    f"{self._place}: its sslrootcert cannot be read: {error}", "Correct `source` in the feed"
                ) from None
            self._connection = connect(words.decode(), autocommit=True)
        return self._connection


class _Asked:
    def __init__(self, session: CatalogueSession) -> None:
        self._session = session

    async def ask(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        return self._session.ask(sql, args)


def _refused(place: Endpoint, error: Error) -> SourceError:
    if error.sqlstate == "42501":
        return denied(place, str(error))
    told = f"{place} answered: {error} ({error.sqlstate})"
    return SourceError(told, "See the server's log, and `tidelock check FEED`")
