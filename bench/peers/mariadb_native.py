"""MariaDB's own replication, one server to another: serial, or in parallel in its optimistic mode.

The replica is a MariaDB as tidelock's target is: same settings, binary log on, nobody waits for the disk.  In
*optimistic* mode transactions run at once before it is known whether they clash; one that does is rolled back and run
again, and all commit in the source's order.  The clock runs from START SLAVE (its two threads connect and copy the log
meanwhile) until MASTER_GTID_WAIT answers that the last transaction is committed.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import pymysql

from bench.peers.backlog import BinlogBacklog
from bench.peers.peer import CATCH_UP_SECONDS, PeerFailed, verify
from bench.peers.target import Target

WAIT_SECONDS = 1.0


class MariaDbNative:
    """`backlog` of a MariaDB; `target`: a MariaDB.  `threads`: slave_parallel_threads, 0 for one serial applier."""

    def __init__(self, backlog: BinlogBacklog, target: Target, threads: int) -> None:
        self.changes = backlog.changes
        self._backlog, self._target, self._threads = backlog, target, threads

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The replica's threads end with their turn."""

    def catch_up(self) -> float:
        backlog, execute = self._backlog, self._target.server.execute
        self._target.empty(backlog.workload)
        self._configure()
        begun = time.perf_counter()
        execute("START SLAVE")
        try:
            while execute(f"SELECT MASTER_GTID_WAIT('{backlog.end_gtid}', {WAIT_SECONDS})")[0][0] != 0:
                self._check(begun)
            return time.perf_counter() - begun
        finally:
            execute("STOP SLAVE")
            execute("RESET SLAVE ALL")

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)

    def _configure(self) -> None:
        """From the backlog's start, and as if nothing had been replicated before."""
        source = self._backlog.server
        file, _, offset = self._backlog.start.partition(":")
        for statement in (
            "RESET MASTER",  # strict GTID mode refuses numbers below those of our own DROP and CREATE
            "SET GLOBAL gtid_slave_pos = ''",
            f"SET GLOBAL slave_parallel_threads = {self._threads}",
            "SET GLOBAL slave_parallel_mode = 'optimistic'",
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port}, MASTER_USER='{source.user}'",
            f"CHANGE MASTER TO MASTER_LOG_FILE='{file}', MASTER_LOG_POS={offset}, MASTER_USE_GTID=no",
        ):
            self._target.server.execute(statement)

    def _check(self, begun: float) -> None:
        """Raises PeerFailed if a thread of the replica has stopped, or it takes too long."""
        why = self._stopped()
        if not why and time.perf_counter() - begun > CATCH_UP_SECONDS:
            why = f"it was not done after {CATCH_UP_SECONDS:.0f} s"
        if why:
            raise PeerFailed(why)

    def _stopped(self) -> str:
        server = self._target.server
        connection = pymysql.connect(
            host=server.host, port=server.port, user=server.user, cursorclass=pymysql.cursors.DictCursor
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            status = cursor.fetchone() or {}
        return str(status.get("Last_SQL_Error") or status.get("Last_IO_Error") or "")
