"""Backlog catch-up: tidelock and PostgreSQL's native replication in turn on the same work.

The backlog is committed once at a MariaDB source and once at a PostgreSQL publisher.  Then
the two take turns, each time into empty tables, so that a machine that grows busy or slow
hurts both alike.  tidelock is timed as its user would: from the start of the process to
its exit, everything committed; native replication from CREATE SUBSCRIPTION until the last
change is visible.  For tidelock the time to the last row's commit is kept too, as the
target's clock gave it, so that its start and end can be told from its work.  Every round
is compared with the source, row by row, and one that differs ends the benchmark.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.compare import compare
from bench.peers.postgres_native import PostgresNative
from bench.servers import MariaDb, Postgres, Server
from bench.session import connect
from bench.tidelock import COMMAND, Feed, Process
from bench.workload.churn import Churn
from bench.workload.mix import Mix
from bench.workload.workload import Workload

RESULTS = Path(__file__).parent / "results"
SCHEMA = "catchup"
CATCH_UP_SECONDS = 600.0
WORKLOADS = {"mix": Mix, "churn": Churn}


@dataclasses.dataclass(frozen=True)
class Round:
    """One catch-up: `seconds` until done, `visible_seconds` until the last row was committed."""

    system: str
    seconds: float
    visible_seconds: float
    rows_per_second: int


class Differs(RuntimeError):
    """A system ended with rows that are not those of its source; the text holds the first of them."""


class Tidelock:
    """The source with its backlog, and a target that is emptied before each round."""

    def __init__(self, source: MariaDb, target: Postgres, folder: Path, command: Sequence[str], lanes: int) -> None:
        self._source, self._target, self._folder = source, target, folder
        self._command, self._lanes = command, lanes
        self._rounds = 0
        self._workload: Workload
        self._start = ""

    def load(self, workload: Workload, changes: int, seed: int) -> None:
        """Commit the backlog; nobody waits for the disk meanwhile."""
        self._workload = workload
        source = self._source
        source.execute(f"CREATE DATABASE {SCHEMA}")
        for statement in workload.ddl("mariadb"):
            source.execute(statement, database=SCHEMA)
        file, offset, *_ = source.execute("SHOW MASTER STATUS")[0]
        self._start = f"{file}:{offset}"
        with _no_flush(source):
            workload.run(source.url(SCHEMA), changes, seed)

    def catch_up(self) -> tuple[float, float]:
        """(seconds until exit, seconds until the last commit)."""
        self._rounds += 1
        target = self._target
        for schema in (SCHEMA, "tidelock"):
            target.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        for statement in self._workload.target_ddl("postgres", SCHEMA):
            target.execute(statement)
        target.execute("CHECKPOINT")
        name = f"catchup_{self._rounds}"
        feed = Feed(name, self._source.url(), target.url(), SCHEMA, start=self._start, lanes=self._lanes)
        path, output = feed.write(self._folder), self._folder / f"{name}.log"
        moment, begun = time.time(), time.perf_counter()
        process = Process(["run", str(path), "--until-caught-up"], output, self._command)
        try:
            process.wait(CATCH_UP_SECONDS)
        except BaseException:
            process.kill()
            raise
        seconds = time.perf_counter() - begun
        return seconds, _last_commit(target.url(), [f"{SCHEMA}.{t}" for t in self._workload.tables]) - moment

    def verify(self) -> None:
        """Raises Differs."""
        _verify("tidelock", self._source.url(), self._target.url(), [f"{SCHEMA}.{t}" for t in self._workload.tables])


@contextlib.contextmanager
def _no_flush(server: Server) -> Iterator[None]:
    """MariaDB writes its redo log past the page cache at every commit unless told not to: five times slower here."""
    name = "innodb_flush_log_at_trx_commit"
    before = server.execute(f"SELECT @@{name}")[0][0]
    server.execute(f"SET GLOBAL {name} = 0")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = {before}")


def _last_commit(url: str, tables: Sequence[str]) -> float:
    """When the youngest row of `tables` was committed, in seconds since the epoch."""
    session = connect(url)
    try:
        queries = (f"SELECT extract(epoch FROM max(pg_xact_commit_timestamp(xmin)))::text FROM {t}" for t in tables)
        return max(float(session.rows(query)[0][0] or 0) for query in queries)
    finally:
        session.close()


def _verify(system: str, source: str, target: str, tables: Sequence[str]) -> None:
    differences = compare(source, target, tables)
    if differences.total:
        raise Differs(f"{system}: {differences.total} rows differ\n{differences}")


def _rounds(ours: Tidelock | None, native: PostgresNative | None, count: int, changes: int) -> Iterator[Round]:
    for _ in range(count):
        if ours:
            seconds, visible = ours.catch_up()
            ours.verify()
            yield Round("tidelock", seconds, visible, round(changes / seconds))
        if native:
            seconds = native.catch_up()
            native.verify()
            yield Round("native", seconds, seconds, round(changes / seconds))


def measure(
    name: str, changes: int, rounds: int, lanes: int, seed: int, only: str, command: Sequence[str] = COMMAND
) -> dict[str, object]:
    """Run the benchmark and return what is written to `bench/results/`.  `only`: one system's name, or empty."""
    done: list[Round] = []
    with contextlib.ExitStack() as stack:
        native = ours = None
        if only != "tidelock":
            native = stack.enter_context(PostgresNative(WORKLOADS[name](peers=True), changes, seed, rounds))
        if only != "native":
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-catchup-")))
            source, target = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
            ours = Tidelock(source, target, folder, command, lanes)
            ours.load(WORKLOADS[name](peers=True), changes, seed)
        for one in _rounds(ours, native, rounds, changes):
            done.append(one)
            print(
                f"{one.system:<9} {one.rows_per_second:>8,} rows/s  {one.seconds:6.2f} s"
                f"  (last row visible {one.visible_seconds:.2f} s)",
                flush=True,
            )
    return _report(name, changes, seed, lanes, done)


def _report(name: str, changes: int, seed: int, lanes: int, done: Sequence[Round]) -> dict[str, object]:
    systems = sorted({one.system for one in done})
    medians = {
        system: round(statistics.median(one.rows_per_second for one in done if one.system == system))
        for system in systems
    }
    visible = {
        system: round(changes / statistics.median(one.visible_seconds for one in done if one.system == system))
        for system in systems
    }
    both = len(systems) == 2
    return {
        "workload": name,
        "changes": changes,
        "seed": seed,
        "lanes": lanes,
        "processors": os.cpu_count(),
        "median_rows_per_second": medians,
        "median_rows_per_second_visible": visible,
        "ratio": round(medians["tidelock"] / medians["native"], 3) if both else None,
        "ratio_visible": round(visible["tidelock"] / visible["native"], 3) if both else None,
        "rounds": [dataclasses.asdict(one) for one in done],
    }


def command(
    workload: Annotated[str, typer.Option(help="mix or churn.")] = "mix",
    changes: Annotated[int, typer.Option(min=1, help="Row changes in the backlog.")] = 200_000,
    rounds: Annotated[int, typer.Option(min=1, help="Catch-ups of each system.")] = 5,
    lanes: Annotated[int, typer.Option(min=1, help="Lanes of the feed.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 1,
    only: Annotated[str, typer.Option(help="tidelock or native alone.")] = "",
    tidelock: Annotated[str, typer.Option(help="The command to measure, without its arguments.")] = shlex.join(COMMAND),
) -> int:
    """Measure backlog catch-up against PostgreSQL's native logical replication; JSON goes to bench/results/."""
    if workload not in WORKLOADS or only not in {"", "tidelock", "native"}:
        raise typer.BadParameter(f"workload is one of {', '.join(WORKLOADS)}; only is tidelock or native")
    report = measure(workload, changes, rounds, lanes, seed, only, shlex.split(tidelock))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"catchup-{workload}{'-' + only if only else ''}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"median rows/s: {report['median_rows_per_second']}, ratio {report['ratio']}, written to {path.name}")
    return 0


if __name__ == "__main__":
    typer.run(command)
