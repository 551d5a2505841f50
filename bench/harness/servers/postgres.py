"""PostgreSQL as the machine has it installed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from bench.harness.servers.database import Connection, Server
from bench.harness.servers.guard import alive
from bench.harness.servers.place import ServerMissing, give, run, template, version
from bench.harness.servers.process import POLL_SECONDS, STOP_SECONDS, ServerFailed
from bench.harness.usage import group

PACKAGE = "postgresql"
OLDEST = 15
ANSWER_SECONDS = 300.0
CLOSE_SECONDS = 5.0
# The administrator needs no password, everybody else the right one.
ACCESS = """\
local all,replication postgres trust
local all,replication all scram-sha-256
host all,replication postgres 127.0.0.1/32 trust
host all,replication all 127.0.0.1/32 scram-sha-256
"""
Result = TypeVar("Result")


def program(name: str) -> str:
    """Path of `name` in the oldest version on this machine that will do.  Raises ServerMissing."""
    found = {int(path.parts[-3]): path for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")}
    wanted = min((number for number in found if number >= OLDEST), default=None)
    if wanted is None:
        raise ServerMissing(
            f"PostgreSQL {OLDEST} or newer is not installed (Debian package {PACKAGE}): run `make servers`"
        )
    return str(found[wanted])


class PostgresConnection(Connection):
    """asyncpg in a thread of its own, so that it can be called from a running event loop too."""

    def __init__(self, port: int, user: str, password: str, database: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres session", daemon=True)
        self._thread.start()
        try:
            # Statements are not cached: tests change the tables under them.
            self._connection: asyncpg.Connection[asyncpg.Record] = self._wait(
                asyncpg.connect(
                    host="127.0.0.1",
                    port=port,
                    user=user,
                    password=password,
                    database=database,
                    ssl=False,
                    statement_cache_size=0,
                )
            )
        except BaseException:
            self._end_thread()
            raise

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)

    def execute(self, sql: str, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [tuple(record) for record in self._wait(self._connection.fetch(sql, *args))]

    def execute_script(self, sql: str) -> None:
        self._wait(self._connection.execute(sql))

    @property
    def open(self) -> bool:
        return not self._connection.is_closed()

    def close(self) -> None:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            self._wait(self._connection.close(timeout=CLOSE_SECONDS))
        self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Postgres(Server):
    scheme = "postgresql"
    accounts = ("postgres",)
    stop_signal = signal.SIGINT
    discard_signal = signal.SIGQUIT  # unlike SIGKILL it gives back the shared memory
    user = "postgres"

    @property
    def socket(self) -> Path:
        return self.folder / f".s.PGSQL.{self.port}"

    def kill(self) -> None:
        """SIGKILL to all of its processes: one that lived on would keep the shared memory, and no server could start
        on the data."""
        if not self.running:
            super().kill()
            return
        os.kill(self.pid, signal.SIGSTOP)  # so that it begins none meanwhile
        backends = [pid for pid in group(self.pid) if pid != self.pid]
        super().kill()
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(alive, backends)):
            if time.monotonic() > deadline:
                raise ServerFailed(f"processes of {self.scheme} on port {self.port} outlive it: {backends}")
            time.sleep(POLL_SECONDS)

    def _template(self) -> Path:
        return template(f"postgresql-{version(program('postgres'))}", self.account, self._install)

    def _install(self, data: Path) -> None:
        run(
            [
                program("initdb"),
                f"--pgdata={data}",
                f"--username={self.user}",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
            self.account,
            data.parent,
        )
        (data / "pg_hba.conf").write_text(ACCESS)

    def _command(self) -> list[str]:
        return [
            program("postgres"),
            "-D",
            str(self.data),
            f"--port={self.port}",
            f"--listen-addresses={self.host}",
            f"--unix-socket-directories={self.folder}",
            "--wal-level=logical",
            "--max-wal-senders=20",
            "--max-replication-slots=20",
            "--max-connections=200",
            "--max-wal-size=4GB",
            "--shared-buffers=256MB",
            "--track-commit-timestamp=on",
            f"--fsync={'on' if self.durable else 'off'}",
            "--log-min-error-statement=error",
            "--log-line-prefix=%m [%p] %u@%d %e ",
            *self.extra,
        ]

    def connect(self, database: str | None = None, user: str | None = None, password: str = "") -> Connection:
        return PostgresConnection(self.port, user or self.user, password, database or "postgres")

    def url(self, database: str = "", user: str | None = None, password: str | None = None) -> str:
        return super().url(database or "postgres", user, password)

    def create_database(self, name: str) -> str:
        return f"{super().create_database(name)} STRATEGY = FILE_COPY"  # half the processor time, and no log

    def databases(self) -> frozenset[str]:
        return frozenset(str(name) for (name,) in self.execute("SELECT datname FROM pg_database"))

    def database_files(self) -> frozenset[str]:
        return frozenset(os.listdir(self.data / "base"))

    def drop_database(self, name: str) -> None:
        slots = "pg_replication_slots WHERE database = $1 AND NOT active"
        quoted = name.replace('"', '""')
        with contextlib.suppress(asyncpg.PostgresError):
            self.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM {slots}", name)
            self.execute(f'DROP DATABASE IF EXISTS "{quoted}" WITH (FORCE)')

    def unique_violations(self) -> int:
        return len(re.findall(r" 23505 ERROR: ", self.log_text()))

    def failed_on_unique_keys(self) -> list[str]:
        return re.findall(r"^.* 23505 (?:ERROR|DETAIL|STATEMENT): .*$", self.log_text(), re.MULTILINE)


class StrangePostgres(Postgres):
    """A server with a system identifier of its own; others are copies of one template, and have one."""

    def _prepare(self) -> None:
        give(self.folder, self.account)
        self._install(self.data)
        (self.folder / "tmp").mkdir()
        self.log.touch()


class Standby(Postgres):
    """A standby of `primary`, from a base backup of it; `promote` makes it a server of its own, on a new timeline."""

    def __init__(self, primary: Postgres, extra: Sequence[str] = ()) -> None:
        super().__init__(extra)
        self._primary = primary

    def _prepare(self) -> None:
        give(self.folder, self.account)
        run(
            [
                program("pg_basebackup"),
                f"--host={self._primary.host}",
                f"--port={self._primary.port}",
                f"--username={self.user}",
                f"--pgdata={self.data}",
                "--checkpoint=fast",
                "--wal-method=stream",
                "--write-recovery-conf",
            ],
            self.account,
            self.folder,
        )
        (self.folder / "tmp").mkdir()
        self.log.touch()

    def caught_up(self) -> bool:
        """Tell whether it has all that the primary has written."""
        ((end,),) = self._primary.execute("SELECT pg_current_wal_insert_lsn()::text")
        ((reached,),) = self.execute(f"SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn")
        return bool(reached)

    def promote(self) -> None:
        """Returns when it takes writes."""
        self.execute("SELECT pg_promote(true, 60)")

    def take_slots(self) -> None:
        """Copy the primary's slots, as servers before 17 need a tool to do; both must be stopped."""
        folder = self.data / "pg_replslot"
        for slot in (self._primary.data / "pg_replslot").iterdir():
            shutil.copytree(slot, folder / slot.name)
        give(folder, self.account)
