"""A backlog, committed once at a source, and caught up with again and again, each time into empty tables.

A round is timed as the feed's user would: from the start of the process to its exit, everything committed.  The time
from the takeover to the last commit is kept too, so that the start and the end of a process can be told from its work.
Every round is compared with the source, row by row; one that differs ends the benchmark.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bench.delay import Delay
from bench.e2e import serial
from bench.e2e.commits import Commits
from bench.e2e.setup import FULL, SERIAL, Setup
from bench.harness.kept_log import KeptLog
from bench.harness.rig import Rig
from bench.harness.servers import Postgres, Server
from bench.harness.servers.mysql_family import MySqlFamily
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.harness.workload.named import NAMED
from bench.harness.workload.tables import replica_identity

CATCH_UP_SECONDS: Final = 900.0
OURS: Final = ("run", "capture")


@dataclasses.dataclass(frozen=True)
class Round:
    """`seconds`: from process start to exit; `flowing_seconds`: from the takeover to the last commit.

    `cpu_seconds`: by process, servers too, as seen until the last look; `ours`: of our processes, to their end.
    `peak_mb`: the most that each of our processes held, added up.  `wal_bytes`: of a PostgreSQL source's log, a change.
    `target_log_bytes`: by which the target's log has grown, a change.
    """

    setup: Setup
    changes: int
    seconds: float
    flowing_seconds: float
    cpu_seconds: Mapping[str, float]
    peak_mb: float
    load: float
    wal_bytes: float = 0.0
    target_log_bytes: float = 0.0

    @property
    def rows_per_second(self) -> float:
        return self.changes / self.seconds

    @property
    def flowing_rows_per_second(self) -> float:
        return self.changes / max(self.flowing_seconds, 0.001)

    def __str__(self) -> str:
        used = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(self.cpu_seconds.items()))
        rates = f"{self.rows_per_second:>8,.0f} rows/s, flowing {self.flowing_rows_per_second:>8,.0f}"
        wal = f"; WAL {self.wal_bytes:,.0f} bytes a change" if self.wal_bytes else ""
        return f"{self.setup.label:<52} {rates}; peak {self.peak_mb:.0f} MB; CPU s: {used}{wal}"


class Backlog:
    """Context manager: the workload's changes at a source.  The source must not be written to by others meanwhile.

    `wal_bytes`: what each of them takes in a PostgreSQL source's log, those left out that only fill the tables.
    """

    def __init__(
        self,
        source: Server,
        target: Server,
        folder: Path,
        workload: str,
        changes: int,
        seed: int,
        identity: str = FULL,
    ) -> None:
        self.wal_bytes = 0.0
        self.source, self.changes = source, changes
        self.workload = NAMED[workload]()
        self._kept: KeptLog | None = None
        if isinstance(source, MySqlFamily):
            source.execute("FLUSH BINARY LOGS")  # MySQL's GTIDs at a place are found by reading its file once
        self.rig = Rig(source, target, folder, f"e2e_{workload}")
        try:
            self.rig.make(self.workload)
            if isinstance(source, Postgres):
                tables = [f"{self.rig.schema}.{table}" for table in self.rig.tables]
                self.rig.at_source(*replica_identity(self.workload.specs, identity))
                self._kept = KeptLog(source, self.rig.schema, self.rig.name, tables)
            with unhurried(source):
                self._load(changes, seed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.rig.close()

    def _load(self, changes: int, seed: int) -> None:
        filling = min(changes, self.workload.filling)
        if filling:
            self.rig.load(self.workload, filling, seed)
        before = log_bytes(self.source) if self._kept else 0
        if changes > filling:
            self.rig.load(self.workload, changes - filling, seed)
            if self._kept:
                self.wal_bytes = round((log_bytes(self.source) - before) / (changes - filling), 1)

    def catch_up(self, setup: Setup, target: Server) -> Round:
        """Raises AssertionError where rows differ, TidelockFailed where the feed does."""
        rig = self.rig
        rig.fresh_target(target, self.workload)
        rig.options = setup.options
        if isinstance(target, Postgres):
            target.execute("CHECKPOINT")
        if setup.two_way:
            self._forget_sites()
        with contextlib.ExitStack() as stack:
            stack.enter_context(durability(target, setup.commit))
            if setup.delay_ms:
                delay = stack.enter_context(Delay(target.host, target.port, setup.delay_ms))
                rig.target_url = target.url().replace(f":{target.port}/", f":{delay.port}/")
            if self._kept:
                self._kept.begin(rig.feed, target)
            commits = stack.enter_context(Commits(target, [f"{rig.schema}.{table}" for table in rig.tables]))
            begun, log_end = time.time(), log_bytes(target)
            ended = _ended_cpu_seconds()
            seconds, usage = self._serially() if setup.system == SERIAL else self._run(target)
            ours = {"ours": round(_ended_cpu_seconds() - ended, 3)}
        round_ = Round(
            setup=setup,
            changes=self.changes,
            seconds=round(seconds, 3),
            flowing_seconds=round(commits.last - (commits.taken_over or begun), 3),
            cpu_seconds={**usage.cpu_seconds, **ours} if usage else {},
            peak_mb=round(sum(usage.peak_bytes.get(name, 0) for name in OURS) / 1e6, 1) if usage else 0.0,
            load=round(os.getloadavg()[0], 2),
            wal_bytes=self.wal_bytes,
            target_log_bytes=round((log_bytes(target) - log_end) / self.changes, 1),
        )
        if setup.system == SERIAL:  # it keeps no books
            assert rig.equal(), rig.differences()
        else:
            rig.assert_exact()
        return round_

    def _forget_sites(self) -> None:
        """The source's bookkeeping is made anew, as the target's is: they know each other by it."""
        cascade = " CASCADE" if isinstance(self.source, Postgres) else ""
        self.rig.at_source(f"DROP SCHEMA IF EXISTS tidelock{cascade}")

    def _run(self, target: Server) -> tuple[float, Usage]:
        path, output = self.rig.feed, self.rig.output
        begun = time.perf_counter()
        process = Process(["run", str(path), "--until-caught-up"], output)
        try:
            leaders = {"run": process.pid, "source": self.source.pid, "target": target.pid}
            with Usage(lambda: leaders) as usage:
                process.wait(CATCH_UP_SECONDS)
        finally:
            if process.running:
                process.kill()
        return time.perf_counter() - begun, usage

    def _serially(self) -> tuple[float, None]:
        rig = self.rig
        begun = time.perf_counter()
        serial.apply(self.source, rig.start_at, rig.target_url, rig.schema)
        return time.perf_counter() - begun, None


def log_bytes(server: Server) -> int:
    """Returns how much a server has written to its log, since it was made; of binary logs those that are there."""
    if isinstance(server, Postgres):
        return int(server.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")[0][0])
    return sum(int(row[1]) for row in server.execute("SHOW BINARY LOGS"))


def _ended_cpu_seconds() -> float:
    """Processor time of all processes that we started and that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def unhurried(source: Server) -> Iterator[None]:
    """While a backlog is made nobody waits for the disk.

    A source of PostgreSQL does not as it is; without `synchronous_commit` its log would be sent half a second later.
    """
    if not isinstance(source, MySqlFamily):
        yield
        return
    with _setting(source, "innodb_flush_log_at_trx_commit", 0):
        yield


@contextlib.contextmanager
def durability(target: Server, commit: str) -> Iterator[None]:
    """Set whether MySQL or MariaDB waits for the disk; PostgreSQL is asked by the feed."""
    if not isinstance(target, MySqlFamily):
        yield
        return
    sync = commit == "sync"
    with (
        _setting(target, "innodb_flush_log_at_trx_commit", 1 if sync else 2),
        _setting(target, "sync_binlog", 1 if sync else 0),
    ):
        yield


@contextlib.contextmanager
def _setting(server: Server, name: str, value: int) -> Iterator[None]:
    before = server.execute(f"SELECT @@GLOBAL.{name}")[0][0]
    server.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = {before}")
