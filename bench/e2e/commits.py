"""Times of a feed's takeover and of the commit of its last change, by the clock that all processes here share.

Between these two moments lies all the work on a backlog, also where it is one transaction; before and after them lie
the start and the end of a process.  PostgreSQL keeps the time of every commit (`track_commit_timestamp`), so both are
read afterwards.  MySQL and MariaDB do not: there a thread looks until the owner's row is there, and then at the
position of the target's own binary log, whose last move is the last commit (the feed's own last word included).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from bench.harness.servers import Server
from bench.harness.session import Flavor, Session, connect

LOOK_SECONDS: Final = 0.02
OWNER: Final = "tidelock.tidelock_owner"


class Commits:
    """Context manager: the feed runs inside.  `tables`: by full name; they and the bookkeeping are not there before.

    Afterwards `taken_over` and `last` are in seconds since the epoch; 0.0: it did not happen.
    """

    def __init__(self, target: Server, tables: Sequence[str]) -> None:
        self.taken_over = self.last = 0.0
        self._session: Session = connect(target.url())
        self._tables = tables
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="commits", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        if self._session.flavor is not Flavor.POSTGRES:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.closing(self._session):
            if self._thread.ident is not None:
                self._stop.set()
                self._thread.join()
            elif error is None:
                self.taken_over = self._latest(OWNER)
                self.last = max(map(self._latest, self._tables))
        if error is None and self._failure is not None:
            raise self._failure

    def _look(self) -> None:
        try:
            while not self._owned() and not self._stop.wait(LOOK_SECONDS):
                pass
            self.taken_over = time.time()
            self._follow()
        except Exception as error:  # told by the thread that waits
            self._failure = error

    def _owned(self) -> bool:
        there = "SELECT 1 FROM information_schema.tables WHERE CONCAT(table_schema, '.', table_name)"
        if not self._session.rows(f"{there} = '{OWNER}'"):
            return False
        return bool(self._session.rows(f"SELECT 1 FROM {OWNER} WHERE epoch > 0"))

    def _follow(self) -> None:
        mariadb = self._session.flavor is Flavor.MARIADB
        statement = "SHOW MASTER STATUS" if mariadb else "SHOW BINARY LOG STATUS"
        before, stopped = None, False
        while True:
            place = self._session.rows(statement)[0][:2]
            if place != before:
                before, self.last = place, time.time()
            if stopped:
                return
            stopped = self._stop.wait(LOOK_SECONDS)

    def _latest(self, table: str) -> float:
        """Returns when the youngest row of `table` was committed; 0.0 where it is empty or not there."""
        if self._session.rows(f"SELECT to_regclass('{table}')::text")[0][0] is None:
            return 0.0
        query = f"SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::text FROM {table}"
        return float(self._session.rows(query)[0][0] or 0.0)
