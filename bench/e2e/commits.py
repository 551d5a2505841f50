"""When the first and the last change became visible at the target, by the clock that all processes of a machine share.

PostgreSQL keeps the time of every commit (`track_commit_timestamp`), so the last is read afterwards.
MySQL and MariaDB do not: there the position of the target's own binary log is looked at again and again, and its last
move is the last commit (the feed's own last word at its end included).  The first is the first look that finds a row.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from bench.servers import Server
from bench.session import Flavor, Session, connect

LOOK_SECONDS: Final = 0.02


class Commits:
    """Context manager: looks inside.  `tables`: by full name; they begin empty.

    After the end, `first` and `last` are in seconds since the epoch; 0.0: nothing was ever there.
    """

    def __init__(self, target: Server, tables: Sequence[str], receipts: str = "tidelock.tidelock_progress") -> None:
        self.first = self.last = 0.0
        self._session: Session = connect(target.url())
        self._tables, self._receipts = tables, receipts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="commits", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        with contextlib.closing(self._session):
            if error is None and self._failure is not None:
                raise self._failure
            if error is None and self._session.flavor is Flavor.POSTGRES:
                self.last = max(map(self._latest, (*self._tables, self._receipts)))

    def _look(self) -> None:
        try:
            self._until_a_row()
            if self._session.flavor is not Flavor.POSTGRES:
                self._follow()
        except Exception as error:  # told by the thread that waits
            self._failure = error

    def _until_a_row(self) -> None:
        sql = " UNION ALL ".join(f"(SELECT '1' FROM {table} LIMIT 1)" for table in self._tables)
        while not self._session.rows(sql):
            if self._stop.wait(LOOK_SECONDS):
                break
        else:
            self.first = time.time()

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
        """Of the rows that `table` has; 0.0 where it is empty or not there."""
        if self._session.rows(f"SELECT to_regclass('{table}')::text")[0][0] is None:
            return 0.0
        query = f"SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::text FROM {table}"
        return float(self._session.rows(query)[0][0] or 0.0)
