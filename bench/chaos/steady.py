"""Steady work on a source that may end at any moment: a packet that was cut off is finished when the source is back.

Every transaction writes its number into a table beside the workload's, which the feed does not replicate.  A source
that keeps what it acknowledged (`sync_binlog=1`) tells by that number which transactions of a packet it holds; the
others are sent again, so the workload's model and the source never part.
"""

from __future__ import annotations

import collections
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Final

import pymysql

from bench.harness.servers import Server
from bench.harness.session import Session, connect
from bench.harness.workload.workload import Transaction, Workload

PACKETS_PER_SECOND: Final = 20
AGAIN_SECONDS: Final = 0.1
FOREVER: Final = 10**12
# The server goes, is gone or is not there yet; everything else is a mistake of the workload and ends it.
_AWAY: Final = {0, 1040, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2006, 2013, 2014}


class Steady:
    """`changes`: how many the source has committed.  `cut`: how many packets the source's end cut off."""

    def __init__(self, workload: Workload, source: Server, database: str, seed: int, rate: float) -> None:
        self.changes = self.cut = 0
        self._source, self._database, self._rate = source, database, rate
        self._marks = f"{database}_marks"
        self._numbered = zip(itertools.count(1), workload.transactions(FOREVER, seed), strict=False)
        self._waiting: collections.deque[tuple[int, Transaction]] = collections.deque()
        self._session: Session | None = None
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="steady work", daemon=True)

    def prepare(self) -> None:
        """The table of numbers, before anything is replicated."""
        session = connect(self._source)
        session.send(
            f"CREATE DATABASE {self._marks}; CREATE TABLE {self._marks}.mark (id int PRIMARY KEY, number bigint"
            f" NOT NULL) ENGINE=InnoDB; INSERT INTO {self._marks}.mark VALUES (1, 0)"
        )
        session.close()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After the packet that is on its way, and when all of it is committed.  Raises what the work raised."""
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises what the work raised."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            for due in self._dues():
                self._fill()
                while self._waiting:
                    self._send()
                self._stop.wait(max(due - time.monotonic(), 0.0))
            if self._session is not None:
                self._session.close()
        except BaseException as error:
            self._failure = error

    def _dues(self) -> Iterator[float]:
        """Yield when the packet after the next is due; what was missed while the source was away is not made up for."""
        due = time.monotonic()
        while not self._stop.is_set():
            due = max(due, time.monotonic() - 1.0) + 1.0 / PACKETS_PER_SECOND
            yield due

    def _fill(self) -> None:
        held = 0
        while held < self._rate / PACKETS_PER_SECOND:
            self._waiting.append(next(self._numbered))
            held += len(self._waiting[-1][1].kinds)

    def _send(self) -> None:
        try:
            if self._session is None:
                self._session = connect(self._source, self._database)
                self._drop_until(int(self._session.rows(f"SELECT number FROM {self._marks}.mark")[0][0]))
            if self._waiting:
                self._session.send(";".join(self._rendered()))
                self._drop_until(self._waiting[-1][0])
        except (OSError, pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
            if isinstance(error, pymysql.Error) and error.args[0] not in _AWAY:
                raise
            self.cut += self._session is not None
            self._session = None
            time.sleep(AGAIN_SECONDS)

    def _rendered(self) -> Iterator[str]:
        for number, transaction in self._waiting:
            mark = f"UPDATE {self._marks}.mark SET number = {number}"
            yield f"BEGIN;{';'.join(transaction.statements)};{mark};COMMIT"

    def _drop_until(self, number: int) -> None:
        """These are committed."""
        while self._waiting and self._waiting[0][0] <= number:
            self.changes += len(self._waiting.popleft()[1].kinds)
