"""pgloader beside us: one copy of a MariaDB database into PostgreSQL, tables and indexes made on the way.

It reads each table once and writes it once, does not follow changes, and cannot log in to MySQL 9.  Its load command
holds the passwords, so it is a file that only we can read.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness.servers import Server
from bench.harness.servers.place import program

_COMMAND = """\
LOAD DATABASE FROM {source} INTO {target}
WITH include drop, create tables, create indexes, reset no sequences
INCLUDING ONLY TABLE NAMES MATCHING {tables};
"""


def copy(source: Server, target: Server, database: str, tables: Sequence[str], folder: Path, seconds: float) -> float:
    """Copy tables of `database` at a MariaDB into a new database of a PostgreSQL; returns how long it took.  Raises
    ServerMissing where pgloader is not installed, RuntimeError where it fails."""
    command = folder / "pgloader.load"
    command.touch(mode=0o600)
    into = target.database("pgloader")
    names = ", ".join(f"'{table}'" for table in tables)
    command.write_text(
        _COMMAND.format(
            source=source.url(database).replace("mariadb://", "mysql://"), target=target.url(into), tables=names
        )
    )
    begun = time.perf_counter()
    done = subprocess.run(
        [program("pgloader", "pgloader"), "--on-error-stop", "--root-dir", str(folder), str(command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )
    took = time.perf_counter() - begun
    for table in tables:
        there = [
            server.execute(f"SELECT count(*) FROM {database}.{table}", database=name)[0][0]
            for server, name in ((source, database), (target, into))
        ]
        if done.returncode or there[0] != there[1]:
            raise RuntimeError(f"pgloader copied {there[1]} of {there[0]} rows of {table}:\n{done.stdout[-3000:]}")
    return took
