"""One source transaction of about 2 GB, and what each of our processes held in memory while it passed.

Two tables are filled by one `INSERT … SELECT` each, in one transaction.  The feed runs and has nothing to do when it
commits.  With `consistency: row` it goes through Kafka, each table a group of its own, or, from PostgreSQL, through an
embedded run; with `consistency: transaction` through an embedded run, and a reader of the target must see all of it or
nothing.  Resident memory is read from /proc five times a second, the peak from the kernel's own high-water mark.  In
the end the rows of both ends are compared.  `tidelock bench scale --only giant` is the embedded run alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from bench import curve
from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, MySql, Postgres, Server
from bench.harness.servers.kafka import Kafka
from bench.harness.session import connect
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.harness.workers import Workers

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation"
LIMIT_MB: Final = 512
TABLES: Final = ("ledger", "archive")
COLUMNS: Final = "id bigint PRIMARY KEY, code varchar(64), body varchar(2000)"
ROW_BYTES: Final = 980
APPLY_SECONDS: Final = 1800.0
LOOK_SECONDS: Final = 0.5
PASSING: Final = ("innodb-buffer-pool-size=1G", "innodb-log-file-size=512M", "max-binlog-cache-size=8G")


@dataclasses.dataclass(frozen=True)
class Passed:
    """`curves`: process → (seconds since the workers started, resident MB), thinned out to one a second."""

    rows: int
    transaction_bytes: int
    source_seconds: float
    seconds: float
    load_average: float
    differences: int
    peak_mb: dict[str, float]
    curves: dict[str, list[tuple[float, float]]]

    @property
    def ok(self) -> bool:
        return self.differences == 0 and max(self.peak_mb.values()) < LIMIT_MB

    def __str__(self) -> str:
        peaks = ", ".join(f"{name} {held:.0f} MB" for name, held in sorted(self.peak_mb.items()))
        return (
            f"{self.transaction_bytes / 1e9:.2f} GB in one transaction of {self.rows:,} rows: applied"
            f" {self.seconds:.0f} s after its commit, {self.differences} differences; peaks: {peaks}"
        )


def measure(megabytes: int, workers: int) -> Passed:
    """Raises AssertionError if it is not applied in time, with what the workers said."""
    rows = megabytes * 1_000_000 // ROW_BYTES // len(TABLES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-giant-")))
        source = stack.enter_context(MariaDb([f"--{option}" for option in PASSING]))
        target, kafka = stack.enter_context(Postgres(["-c", "max_wal_size=2GB"])), stack.enter_context(Kafka())
        rig = stack.enter_context(contextlib.closing(Rig(source, target, folder, "giant", log=kafka.url(), lanes=4)))
        for table in TABLES:
            rig.table(table, COLUMNS)
        fleet = stack.enter_context(Workers(rig, [f"w{number}" for number in range(1, workers + 1)]))
        usage = stack.enter_context(Usage(lambda: fleet.pids))
        fleet.start()
        fleet.until_owned(len(TABLES))
        before = _log_bytes(rig)
        begun = time.monotonic()
        _commit(rig, rows)
        committed = time.monotonic()
        fleet.until_caught_up(APPLY_SECONDS)
        seconds = time.monotonic() - committed
        load = os.getloadavg()[0]
        fleet.stop()
        return Passed(
            rows=rows * len(TABLES),
            transaction_bytes=_log_bytes(rig) - before,
            source_seconds=round(committed - begun, 1),
            seconds=round(seconds, 1),
            load_average=round(load, 2),
            differences=rig.differences().total,
            peak_mb={name: round(held / 1e6, 1) for name, held in usage.peak_bytes.items()},
            curves={name: _thinned(usage.curve(name)) for name in usage.peak_bytes},
        )


def measure_embedded(megabytes: int, source: str, target: str, consistency: str) -> Passed:
    """Through one run.  Raises AssertionError if a part is seen with `consistency: transaction`, or all of it not in
    time."""
    rows = megabytes * 1_000_000 // ROW_BYTES // len(TABLES)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-giant-")))
        origin, server = stack.enter_context(_server(source)), stack.enter_context(_server(target))
        options = {"consistency": consistency, "lanes": 4}
        rig = stack.enter_context(contextlib.closing(Rig(origin, server, folder, "giant", **options)))
        for table in TABLES:
            rig.table(table, COLUMNS)
        rig.catch_up()
        process = rig.run()
        usage = stack.enter_context(Usage(lambda: {"run": process.pid}))
        before, begun = _log_bytes(rig), time.monotonic()
        _commit(rig, rows)
        committed = time.monotonic()
        _until_there(rig, rows, process, whole=consistency == "transaction")
        seconds, load = time.monotonic() - committed, os.getloadavg()[0]
        process.stop()
        return Passed(
            rows=rows * len(TABLES),
            transaction_bytes=_log_bytes(rig) - before,
            source_seconds=round(committed - begun, 1),
            seconds=round(seconds, 1),
            load_average=round(load, 2),
            differences=rig.differences().total,
            peak_mb={name: round(held / 1e6, 1) for name, held in usage.peak_bytes.items()},
            curves={name: _thinned(usage.curve(name)) for name in usage.peak_bytes},
        )


def _server(name: str) -> Server:
    match name:
        case "postgres":
            return Postgres(["-c", "max_wal_size=2GB"])
        case "mariadb":
            return MariaDb([f"--{option}" for option in PASSING])
        case _:
            return MySql(["--innodb-buffer-pool-size=1G", "--innodb-redo-log-capacity=1G"])


def _until_there(rig: Rig, rows: int, process: Process, *, whole: bool) -> None:
    """A look at both tables is one statement, so of one moment; `whole`: it must show all of it or nothing."""
    first, second = (f"(SELECT CONCAT(count(*), '') FROM {rig.schema}.{table})" for table in TABLES)
    session, deadline = connect(rig.target.url()), time.monotonic() + APPLY_SECONDS
    with contextlib.closing(session):
        while True:
            seen = tuple(map(int, session.rows(f"SELECT {first}, {second}")[0]))
            if seen == (rows, rows):
                return
            assert seen == (0, 0) or not whole, f"a part of the transaction is visible: {seen}"
            assert time.monotonic() < deadline, f"not applied within {APPLY_SECONDS:.0f} s"
            process.check()
            time.sleep(LOOK_SECONDS)


def _commit(rig: Rig, rows: int) -> None:
    fill = "INSERT INTO {} SELECT seq, CONCAT('code ', seq), REPEAT(MD5(seq), 30) FROM seq_1_to_{}"
    if isinstance(rig.source, Postgres):
        fill = "INSERT INTO {} SELECT s, CONCAT('code ', s), repeat(md5(s::text), 30) FROM generate_series(1, {}) AS s"
    rig.at_source("BEGIN; " + "; ".join(fill.format(table, rows) for table in TABLES) + "; COMMIT")


def _log_bytes(rig: Rig) -> int:
    """Size of the source's log in bytes so far: all files, or all that was ever written to it."""
    if isinstance(rig.source, Postgres):
        return int(rig.source.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")[0][0])
    return sum(int(size) for _, size, *_ in rig.source.execute("SHOW BINARY LOGS"))


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The largest value of each second."""
    seconds: dict[int, float] = {}
    for at, value in points:
        seconds[int(at)] = max(value, seconds.get(int(at), 0.0))
    return [(float(at), round(value, 1)) for at, value in seconds.items()]


def missed(passed: Passed) -> list[str]:
    """List what should have been seen and was not."""
    lines = [f"{passed.differences} rows differ"] if passed.differences else []
    over = {name: held for name, held in passed.peak_mb.items() if held >= LIMIT_MB}
    return lines + [f"{name} held {held:.0f} MB, {LIMIT_MB} may be" for name, held in over.items()]


def write(passed: Passed, name: str = "giant") -> None:
    """The figures to bench/results/, the curve to the page that shows it."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(dataclasses.asdict(passed), indent=1) + "\n")
    title = f"Resident memory while a transaction of {passed.transaction_bytes / 1e9:.2f} GB passes"
    (PAGE / f"{name}.svg").write_text(curve.svg(title, "MB", passed.curves, LIMIT_MB))


def command(
    megabytes: Annotated[int, typer.Option(min=1, help="Size of the transaction's row images.")] = 2000,
    workers: Annotated[int, typer.Option(min=1, help="Workers of the feed, with `row`.")] = 2,
    consistency: Annotated[str, typer.Option(help="`row`: through Kafka; `transaction`: an embedded run.")] = "row",
    source: Annotated[str, typer.Option(help="mariadb or postgres; from this through an embedded run.")] = "mariadb",
    target: Annotated[str, typer.Option(help="postgres, mariadb or mysql, in an embedded run.")] = "postgres",
    keep: Annotated[bool, typer.Option(help="Write bench/results/giant….json and the curve.")] = True,
) -> int:
    """Pass one giant transaction; exit code 3 if rows differ or a process held too much."""
    embedded = consistency == "transaction" or source == "postgres"
    passed = measure_embedded(megabytes, source, target, consistency) if embedded else measure(megabytes, workers)
    print(passed)
    if keep:
        ways = f"giant-{'whole' if consistency == 'transaction' else consistency}-{target}"
        write(passed, f"{ways}-from-{source}" if source != "mariadb" else ways if embedded else "giant")
    return 0 if passed.ok else 3


def main() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    sys.exit(typer.main.get_command(app).main(standalone_mode=False))


if __name__ == "__main__":
    main()
