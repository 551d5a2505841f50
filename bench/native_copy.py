"""PostgreSQL's own ways to copy tables of one server to another, beside our copy of the same tables.

`pg_dump | psql`: one session reads, one writes, and keys and indexes are made behind the rows.  Initial sync: a
subscription with `copy_data` into tables that are there with their keys, as ours are; two tables at a time, which is
PostgreSQL's default.  Both write to databases of their own at the target, and the rows of each table are counted.
"""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from bench.harness.rig import Rig, until
from bench.harness.servers.postgres import Postgres, program
from bench.harness.session import connect
from bench.harness.workload.workload import Workload

NAME: Final = "initial_sync"
# A worker for a table is started this long after the last one, 5 s by default.
QUICKLY: Final = ("ALTER SYSTEM SET wal_retrieve_retry_interval = '50ms'", "SELECT pg_reload_conf()")
SYNCED: Final = "SELECT 1 FROM pg_subscription_rel WHERE srsubstate NOT IN ('s', 'r')"


@dataclasses.dataclass(frozen=True)
class Beside:
    """One copy by another system: of `rows` in all tables, in so many seconds."""

    name: str
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> int:
        return round(self.rows / self.seconds)


def dump(rig: Rig, source: Postgres, target: Postgres, seconds: float) -> Beside:
    """Copies by `pg_dump | psql`.  Raises RuntimeError where it fails or rows are missing."""
    into = target.database("dumped")
    said = rig.folder / "dump.log"
    dumping = [program("pg_dump"), f"--dbname={source.url(rig.schema)}", f"--schema={rig.schema}", "--no-publications"]
    loading = [program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={target.url(into)}"]
    begun = time.perf_counter()
    with said.open("wb") as log:
        reader = subprocess.Popen(dumping, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        with reader, subprocess.Popen(loading, stdin=reader.stdout, stdout=log, stderr=log) as writer:
            assert reader.stdout is not None
            reader.stdout.close()  # else it would not see the writer end
            codes = writer.wait(seconds), reader.wait(seconds)
    took = time.perf_counter() - begun
    if any(codes):
        raise RuntimeError(f"pg_dump | psql ended with {codes}:\n{_end(said)}")
    return _beside("`pg_dump` into `psql`", took, rig, source, target, into)


def sync(rig: Rig, source: Postgres, target: Postgres, workload: Workload, seconds: float) -> Beside:
    """Copies by a subscription.  Raises AssertionError where that is not done in time, RuntimeError where rows are
    missing."""
    into = target.database("synced")
    for statement in QUICKLY:
        target.execute(statement)
    with closing(connect(target.url(into))) as session:
        for statement in workload.target_ddl("postgres", rig.schema):
            session.send(statement)
    tables = ", ".join(f"{rig.schema}.{table}" for table in rig.tables)
    source.execute(f"CREATE PUBLICATION {NAME} FOR TABLE {tables}", database=rig.schema)
    connection = f"host={source.host} port={source.port} user={source.user} dbname={rig.schema}"
    begun = time.perf_counter()
    target.execute(f"CREATE SUBSCRIPTION {NAME} CONNECTION '{connection}' PUBLICATION {NAME}", database=into)
    try:
        until(lambda: not target.execute(SYNCED, database=into), "the initial sync", seconds)
        took = time.perf_counter() - begun
    finally:
        target.execute(f"DROP SUBSCRIPTION {NAME}", database=into)
        source.execute(f"DROP PUBLICATION {NAME}", database=rig.schema)
    return _beside("initial sync", took, rig, source, target, into)


def _beside(name: str, took: float, rig: Rig, source: Postgres, target: Postgres, into: str) -> Beside:
    rows = 0
    for table in rig.tables:
        ours, theirs = (
            server.execute(f"SELECT count(*) FROM {rig.schema}.{table}", database=database)[0][0]
            for server, database in ((source, rig.schema), (target, into))
        )
        if ours != theirs:
            raise RuntimeError(f"{name} copied {theirs} of {ours} rows of {table}")
        rows += ours
    return Beside(name, rows, round(took, 2))


def _end(log: Path) -> str:
    lines: Sequence[str] = log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-20:])
