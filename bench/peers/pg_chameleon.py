"""pg_chameleon: it writes a MariaDB's row changes as JSON into a log table in PostgreSQL, and replays them there.

Its own way to begin is a copy of the tables, with the log's position of that moment.  So a turn lets it make and fill
its tables, empties them again and sets that position back to where the backlog begins, before the clock: it runs from
the start of `chameleon start_replica` until the end of the backlog is visible.  It loops with a pause of one second,
the shortest that it takes.  Where it runs into an error it is told to stop, not to leave rows out.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from bench.harness.servers.place import SEARCH, ServerMissing, account, cache, environment, give, run
from bench.peers.backlog import END, SCHEMA, BinlogBacklog
from bench.peers.peer import PeerFailed, PeerMissing, until, verify
from bench.peers.program import Program, prepare
from bench.peers.target import Target

REQUIREMENTS: Final = Path(__file__).with_name("pg_chameleon.txt")
SOURCE: Final = "backlog"
BOOKS: Final = "sch_chameleon"
BATCH_ROWS: Final = 10_000


class PgChameleon:
    """From `backlog` of a MariaDB to `target`, a PostgreSQL.  Entering raises PeerMissing."""

    def __init__(self, backlog: BinlogBacklog, target: Target) -> None:
        self.changes = backlog.changes
        self._backlog, self._target = backlog, target
        self._stack = contextlib.ExitStack()
        self._account = account()  # it refuses to run as root
        self._home = self._program = Path()

    def __enter__(self) -> Self:
        self._program = installed()
        self._home = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-chameleon-")))
        self._configure()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def catch_up(self) -> float:
        self._target.empty(self._backlog.workload)
        self._begin()
        begun = time.perf_counter()
        with Program(
            self._command("start_replica"), self._home / "replica.log", environment(self._home), self._account
        ) as running:
            return until(self._target.ended, lambda: running.failure() or _gone(running), begun)

    def verify(self) -> None:
        verify(self._backlog.url, self._target.url, self._backlog.tables)

    def _begin(self) -> None:
        """Its own tables and ours, empty, and the position of the backlog's begin."""
        execute = self._target.server.execute
        execute(f"DROP SCHEMA IF EXISTS {BOOKS} CASCADE")
        execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        for command in ("create_replica_schema", "add_source", "init_replica"):
            try:
                run(self._command(command), self._account, self._home)
            except ServerMissing as error:
                raise PeerFailed(f"`chameleon {command}` failed: {error}") from error
        file, _, offset = self._backlog.start.partition(":")
        execute(f"TRUNCATE {', '.join(f'{SCHEMA}.{table}' for table in (*self._backlog.workload.tables, END))}")
        execute(f"UPDATE {BOOKS}.t_replica_batch SET t_binlog_name = '{file}', i_binlog_position = {offset}")
        execute(f"UPDATE {BOOKS}.t_replica_tables SET t_binlog_name = NULL, i_binlog_position = NULL")
        execute(f"UPDATE {BOOKS}.t_sources SET t_binlog_name = NULL, i_binlog_position = NULL, b_consistent = true")

    def _command(self, word: str) -> list[str]:
        words = [] if word == "create_replica_schema" else ["--source", SOURCE]
        if word == "init_replica":
            words.append("--debug")  # or its errors are not seen
        return [str(self._program / "python"), "-W", "ignore", str(self._program / "chameleon"), word, *words]

    def _configure(self) -> None:
        folder = self._home / ".pg_chameleon"
        for name in ("configuration", "logs", "pid"):
            (folder / name).mkdir(parents=True)
        (folder / "configuration" / "default.yml").write_text(yaml.safe_dump(self._configuration(folder)))
        give(self._home, self._account)

    def _configuration(self, folder: Path) -> dict[str, Any]:
        source, target = self._backlog.server, self._target.server
        return {
            "pid_dir": str(folder / "pid"),
            "log_dir": str(folder / "logs"),
            "log_dest": "stdout",
            "log_level": "info",
            "log_days_keep": 1,
            "rollbar_key": "",
            "rollbar_env": "",
            "type_override": {},
            "fillfactor": {},
            "pg_conn": {
                "host": target.host,
                "port": str(target.port),
                "user": target.user,
                "password": "none",  # an empty one would swallow the next word of its connection string
                "database": "postgres",
                "charset": "utf8",
            },
            "sources": {
                SOURCE: {
                    "db_conn": {
                        "host": source.host,
                        "port": str(source.port),
                        "user": source.user,
                        "password": source.password,
                        "charset": "utf8",  # named as Python's codec
                        "connect_timeout": 10,
                    },
                    "schema_mappings": {SCHEMA: SCHEMA},
                    "limit_tables": [],
                    "skip_tables": [],
                    "grant_select_to": [],
                    "lock_timeout": "120s",
                    "my_server_id": 3,
                    "replica_batch_size": BATCH_ROWS,
                    "replay_max_rows": BATCH_ROWS,
                    "batch_retention": "1 day",
                    "copy_max_memory": "100M",
                    "copy_mode": "file",
                    "out_dir": str(self._home),
                    "sleep_loop": 1,
                    "on_error_replay": "exit",
                    "on_error_read": "exit",
                    "auto_maintenance": "disabled",
                    "gtid_enable": False,
                    "type": "mysql",
                    "keep_existing_schema": False,
                }
            },
        }


def _gone(running: Program) -> str:
    """It ends with exit code 0 also after an error."""
    return "" if running.running else f"it ended by itself: {running.said()}"


def chameleon_version() -> str:
    """The locked version."""
    lines = REQUIREMENTS.read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith("pg_chameleon=="))


def installed() -> Path:
    """The folder of its programs, in an environment of its own; made now if it is not there.  Raises PeerMissing."""
    folder = cache() / "peers" / "pg_chameleon"
    programs = folder / "bin"
    if not (programs / "chameleon").exists():
        print("peers: installing pg_chameleon into an environment of its own …", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        prepare("pg_chameleon", [_python(), "-m", "venv", "--clear", str(folder)], folder.parent, {})
        words = [
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
            "-r",
            str(REQUIREMENTS),
        ]
        prepare("pg_chameleon", [str(programs / "python"), "-m", "pip", *words], folder.parent, {})
    return programs


def _python() -> str:
    """One that the account may run too: ours may be in a home that is closed to it.  Raises PeerMissing."""
    for path in (sys.executable, *(f"{folder}/python3" for folder in SEARCH)):
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(OSError, ServerMissing):
            give(Path(folder), account())
            run([path, "-c", "import ensurepip, venv"], account(), Path(folder))
            return path
    raise PeerMissing(f"pg_chameleon refuses root, and {account()} finds no Python with venv: install python3-venv")
