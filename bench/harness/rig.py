"""One feed between two servers, as a test or a proof needs it: a schema on both sides, the feed's file, its runs.

A rig's schema has a name of its own, the same at both ends, so that many rigs share two servers.  At a PostgreSQL
source it is in a database of that name, where nothing else is found first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pymysql

from bench.harness.compare import Differences, NotComparable, Pair, compare
from bench.harness.forking import COMMAND, start
from bench.harness.numbers import numbers
from bench.harness.servers import Postgres, Server
from bench.harness.session import Flavor, Session, connect
from bench.harness.tidelock import Feed, Process
from bench.harness.workload.workload import Counts, Workload
from tidelock.engine.model.records import Position

RUN_SECONDS = 120.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, LENGTHENED = 0.02, 0.15, 1.25
# What takes long to ask is asked less often: asking takes the processor from what is waited for.
PAUSES_A_QUESTION, LONGEST_REST_SECONDS = 4.0, 1.0
COMMAND_SECONDS = 30.0
# What an answer of a server that was stopped, or has ended the session, may be.
LOST = (OSError, pymysql.Error, asyncpg.InterfaceError, asyncpg.PostgresError)
_numbers = numbers()


@dataclasses.dataclass(frozen=True)
class Said:
    """The end of a command, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def tidelock(
    *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = COMMAND_SECONDS
) -> Said:
    """Run a command that ends by itself.  Raises subprocess.TimeoutExpired, and then kills it."""
    with open(os.memfd_create("out"), "w+b") as out, open(os.memfd_create("err"), "w+b") as error:
        process = start(arguments, out, error, environment=environment)
        try:
            code = process.wait(seconds)
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        error.seek(0)
        return Said(code, out.read().decode(), error.read().decode())


class Rig:
    """`tables`: names that `differences` compares.  `options`: keys of the feed; `rules`: its `tables`, if not all.

    `program`: the `tidelock` that `run` starts, in the folder `cwd`; this checkout's, here, unless a test sets them.
    """

    def __init__(self, source: Server, target: Server, folder: Path, name: str, **options: Any) -> None:
        self.source, self.target = source, target
        self.name = self.schema = f"{name}_rig{next(_numbers)}"
        self.tables: list[str] = []
        self.folder = folder
        self.output = folder / f"{self.name}.log"
        self.rules: Sequence[Mapping[str, Any]] = ()
        self.options = options
        self.program: Sequence[str] = COMMAND
        self.cwd: Path | None = None
        self.source_url, self.target_url = self.source_place, target.url()
        self._violations = target.unique_violations()
        self._processes: list[Process] = []
        self._compared: tuple[tuple[str, str], Session, Session] | None = None
        self._session = self._source_made()
        self._target = connect(target.url())
        self._target.send(f"CREATE {'SCHEMA' if isinstance(target, Postgres) else 'DATABASE'} {self.schema}")
        self._enter()
        self.start_at = self.here()

    @property
    def source_place(self) -> str:
        """The administrator's URL of the source."""
        return self.source.url(self.schema if isinstance(self.source, Postgres) else "")

    def _source_made(self) -> Session:
        made = connect(self.source.url())
        made.send(self.source.create_database(self.schema))
        if not isinstance(self.source, Postgres):
            made.send(f"USE {self.schema}")
            return made
        made.send(f"ALTER DATABASE {self.schema} SET search_path = {self.schema}")
        made.close()
        made = connect(self.source_place)
        made.send(f"CREATE SCHEMA {self.schema}")
        return made

    # ------------------------------------------------------------------ both ends

    @property
    def flavor(self) -> Flavor:
        """The kind of server that the source is."""
        return self._session.flavor

    def make(self, workload: Workload) -> Workload:
        """The workload's tables at both ends."""
        self.at_source(*workload.ddl(self._session.flavor))
        self.make_target(workload)
        self.tables = workload.tables
        return workload

    def make_target(self, workload: Workload) -> None:
        self.at_target(*workload.target_ddl(self._target.flavor, self.schema))

    def table(self, name: str, source: str, target: str | None = None) -> None:
        """A table from its column list at each end; `target` None: the same."""
        self.at_source(f"CREATE TABLE {name} ({source})")
        self.at_target(f"CREATE TABLE {self.schema}.{name} ({source if target is None else target})")
        self.tables.append(name)

    def at_source(self, *statements: str) -> None:
        """Run in the schema, each statement in its own transaction."""
        for statement in statements:
            self._session.send(statement)

    def at_target(self, *statements: str) -> None:
        for statement in statements:
            self._target.send(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """From the target; every value is text (PostgreSQL: cast it)."""
        return self._target.rows(sql)

    def here(self) -> str:
        """The source's position, as `start` takes it."""
        if isinstance(self.source, Postgres):
            return "now"
        statement = "SHOW MASTER STATUS" if self._session.flavor is Flavor.MARIADB else "SHOW BINARY LOG STATUS"
        file, offset, *_ = self._session.rows(statement)[0]
        return f"{file}:{offset}"

    def place(self) -> Position:
        """The end of the source's log now."""
        if isinstance(self.source, Postgres):
            end = self._session.rows("SELECT (pg_current_wal_lsn() - '0/0')::bigint::text")[0][0]
            return Position("server/timeline", int(end))
        file, _, offset = self.here().rpartition(":")
        return Position(file, int(offset))

    def purge(self) -> None:
        """Remove all log files at the source but a new one; MariaDB keeps a file until InnoDB has flushed it."""
        self.at_source("FLUSH LOGS")
        self.purge_before_here()

    def purge_before_here(self) -> None:
        """Remove all log files at the source but the one that is written."""
        last = self.here().partition(":")[0]

        def gone() -> bool:
            self.at_source(f"PURGE BINARY LOGS TO '{last}'")
            return str(self._session.rows("SHOW BINARY LOGS")[0][0]) == last

        until(gone, "purged logs")

    def reconnect(self) -> None:
        """After a server was restarted."""
        self.disconnect()
        self._session, self._target = connect(self.source_place), connect(self.target.url())
        self._enter()

    def _enter(self) -> None:
        if not isinstance(self.source, Postgres):
            self._session.send(f"USE {self.schema}")
        self._target.send(
            f"SET search_path = {self.schema}" if self._target.flavor is Flavor.POSTGRES else f"USE {self.schema}"
        )

    def load(self, workload: Workload, changes: int, seed: int = 1, rate: float | None = None) -> Counts:
        return workload.run(self._session, changes, seed, rate)

    def work(self, workload: Workload, changes: int, seed: int = 1, rate: float | None = None) -> Work:
        """Start the workload in a thread, on a session of its own."""
        return Work(workload, self.source.url(self.schema), changes, seed, rate)

    # ------------------------------------------------------------------ the feed

    @property
    def feed(self) -> Path:
        """The feed's file, written as it now is."""
        options = {"start": self.start_at, **self.options}
        feed = Feed(
            self.name,
            self.source_url,
            self.target_url,
            self.schema,
            start=options.pop("start"),
            lanes=options.pop("lanes", 8),
            tables=self.rules,
            options=options,
        )
        return feed.write(self.folder)

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        """Start `tidelock run`; it is killed with the rig, if not before."""
        words = ["run", str(self.feed), *arguments]
        process = Process(words, self.output, self.program, environment, self.cwd)
        self._processes.append(process)
        return process

    def begin_here(self) -> None:
        """Have the first run begin at the source's place of now; elsewhere than at PostgreSQL `start_at` says it."""
        if isinstance(self.source, Postgres):
            done = self.command("init", "--apply")
            assert done.code == 0, f"{done.out}\n{done.err}"

    def catch_up(self, seconds: float = RUN_SECONDS) -> float:
        """Run until caught up, and return how long that took.  Raises TidelockFailed."""
        begun = time.perf_counter()
        self.run("--until-caught-up").wait(seconds)
        return time.perf_counter() - begun

    def catch_up_code(self, environment: Mapping[str, str] | None = None) -> int:
        return self.run("--until-caught-up", environment=environment).code(RUN_SECONDS)

    def command(self, *words: str) -> Said:
        """`tidelock WORDS FEED`, or with FEED in the place of `@`."""
        path = str(self.feed)
        return tidelock(*(path if word == "@" else word for word in (words if "@" in words else (*words, "@"))))

    def said(self) -> str:
        """Output of the runs."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    # ------------------------------------------------------------------ the verdict

    def differences(self) -> Differences:
        """Compares both ends by sessions that stay: tests ask again and again, and a new one costs more than a look."""
        places = (self.source_place, self.target.url())
        if self._compared is not None and self._compared[0] == places:
            with contextlib.suppress(*LOST):
                return self._compare(*self._compared[1:])
        self._end_comparing()
        source = connect(places[0])
        try:
            target = connect(places[1])
        except BaseException:
            source.close()
            raise
        self._compared = (places, source, target)
        return self._compare(source, target)

    def _compare(self, source: Session, target: Session) -> Differences:
        pairs: list[str | Pair] = [f"{self.schema}.{table}" for table in self.tables]
        try:
            return compare(source, target, pairs)
        except NotComparable:
            raise
        except BaseException:  # nobody knows what the sessions are in
            self._end_comparing()
            raise

    def _end_comparing(self) -> None:
        if self._compared is not None:
            _, *sessions = self._compared
            self._compared = None
            _close(*sessions)

    def equal(self) -> bool:
        """No row differs; a table or column that is not there yet is a difference too."""
        try:
            return self.differences().total == 0
        except NotComparable:
            return False

    def unique_violations(self) -> int:
        """At the target since the rig was made (or `fresh_target`)."""
        return self.target.unique_violations() - self._violations

    def parked(self) -> int:
        return self._count("tidelock_parked")

    def receipts(self) -> int:
        return self._count("tidelock_progress")

    def epoch(self) -> int:
        """Returns how many runs have taken the feed over."""
        return int(self._kept("epoch", "tidelock_owner"))

    def _count(self, table: str) -> int:
        return int(self._kept("count(*)", table))

    def _kept(self, what: str, table: str) -> str:
        place = f"{self.options.get('schema', 'tidelock')}.{table}"
        return str(self.rows(f"SELECT CONCAT({what}, '') FROM {place} WHERE feed='{self.name}'")[0][0])

    def assert_exact(self) -> None:
        differences = self.differences()
        assert differences.total == 0, f"{differences}\n{self.said()[-2000:]}"
        assert self.unique_violations() == 0, "the target's log holds unique violations"
        assert self.parked() == 0, "rows are parked"

    # ------------------------------------------------------------------ the end

    def fresh_target(self, target: Server, workload: Workload) -> None:
        """Go on with empty tables at `target`, from the start; the bookkeeping of all feeds there goes too."""
        self.target, self.target_url = target, target.url()
        self._target.close()
        self._target = connect(target.url())
        cascade = " CASCADE" if self._target.flavor is Flavor.POSTGRES else ""
        self.at_target(*(f"DROP SCHEMA IF EXISTS {schema}{cascade}" for schema in (self.schema, "tidelock")))
        self.make_target(workload)
        self._enter()
        self._violations = target.unique_violations()

    def close(self) -> None:
        for process in self._processes:
            if process.running:
                process.kill()
        if isinstance(self.source, Postgres):
            with contextlib.suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError, AssertionError):
                self._drop_slots()
        self.disconnect()

    def _drop_slots(self) -> None:
        """A slot holds the log of a server that many share, and there are few."""
        admin = connect(self.source_place)
        try:
            ours = f"FROM pg_replication_slots WHERE database = '{self.schema}'"
            admin.send(f"SELECT pg_terminate_backend(active_pid) {ours} AND active")
            until(lambda: not admin.rows(f"SELECT 1 {ours} AND active"), "slots that nobody reads")
            admin.send(f"SELECT pg_drop_replication_slot(slot_name) {ours}")
        finally:
            admin.close()

    def disconnect(self) -> None:
        """Close the rig's own sessions, also where the server is gone."""
        self._end_comparing()
        _close(self._session, self._target)


def _close(*sessions: Session) -> None:
    for session in sessions:
        with contextlib.suppress(*LOST):
            session.close()


class Work:
    """A workload that runs while other things happen."""

    def __init__(self, workload: Workload, url: str, changes: int, seed: int, rate: float | None) -> None:
        self.made = 0
        self._result: list[Counts] = []
        self._failure: list[BaseException] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(workload, url, changes, seed, rate), daemon=True)
        self._thread.start()

    def _run(self, workload: Workload, url: str, changes: int, seed: int, rate: float | None) -> None:
        try:
            self._result.append(workload.run(url, changes, seed, rate, self._stop, self._note))
        except BaseException as error:
            self._failure.append(error)

    def _note(self, made: int) -> None:
        self.made = made

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> Counts:
        """End it after its current packet."""
        self._stop.set()
        return self.join()

    def join(self) -> Counts:
        """Raises what the workload raised."""
        self._thread.join()
        if self._failure:
            raise self._failure[0]
        return self._result[0]


def until(true: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Raises AssertionError if `true` stays false."""
    deadline = time.monotonic() + seconds
    pause, asked = FIRST_PAUSE_SECONDS, time.monotonic()
    while not true():
        now = time.monotonic()
        assert now < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(max(pause, min(LONGEST_REST_SECONDS, PAUSES_A_QUESTION * (now - asked))))
        pause, asked = min(LONGEST_PAUSE_SECONDS, pause * LENGTHENED), time.monotonic()


def kill_at_random(rig: Rig, kills: int, rng: random.Random, longest_seconds: float, work: Work) -> None:
    """Start the replicator and SIGKILL it at a random moment, `kills` times, while `work` goes on.

    The moment is counted from the takeover, one time in five from the start.  Every other time only the process itself
    is killed, and its children must notice.  The feed must have run before.
    """
    for number in range(kills):
        epoch = rig.epoch()
        process = rig.run()
        while number % 5 != 4 and rig.epoch() == epoch:
            process.check()
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, longest_seconds))
        process.check()
        if number % 2:
            os.kill(process.pid, signal.SIGKILL)
            process.code(5.0)
        else:
            process.kill()
    assert work.running, "the work ended before the last kill"
