"""Row Copy at full size: tables of millions of rows are copied while they change, through SIGKILLs; and how fast.

`tidelock bench copying --rows 5000000` fills five tables at the source (`bench.harness.workload.filled`), then lets a
feed with `start: copy` copy them while changes go on in all of them and in the tables of *mix* and *churn* beside
them.  The run is killed at moments spread over the copy, and started again.  In the end no row differs, nothing is
parked, no staged table is left, and no chunk was merged twice: a trigger on the bookkeeping, in the transaction of the
merge itself, has counted them.

Without changes and kills the same gives the rate: `seconds` from the start of the process to its exit, `copying` from
the moment when the copy began, which is when Spark starts, to the last merge, by the target's clock.  Beside it stand
other ways to copy the same tables: pgloader where it is installed (MariaDB to PostgreSQL), and `pg_dump | psql` and
the initial sync of a subscription (between two PostgreSQL servers, also after changes and kills: then nothing changes
any more).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench import native_copy, pgloader
from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, MySql, Postgres, Server, ServerMissing
from bench.harness.session import Flavor
from bench.harness.tidelock import Process
from bench.harness.workload.churn import Churn
from bench.harness.workload.filled import Filled
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from bench.native_copy import Beside
from bench.outcome import Outcome, table
from tidelock.adapters.ports.staging import staged_prefix

GOAL_ROWS_PER_SECOND: Final = 50_000
GOAL_RATIO: Final = 0.6
PAIRS: Final = (("mariadb", "postgres"), ("mysql", "mysql"))
SERVERS: Final[Mapping[str, type[Server]]] = {"mariadb": MariaDb, "mysql": MySql, "postgres": Postgres}
BESIDE_CHANGES: Final = 4000
SETTLED_CHANGES: Final = 2000
LAST_KILL_AT: Final = 0.9
LONGEST_REST_SECONDS: Final = 1.0
STOP_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True)
class Copied:
    """One trial.  `again`: chunks that were merged more than once; `killed`: chunks merged at each kill.

    `left`: tables with staged rows that are still there in the end.
    """

    source: str
    target: str
    rows: int
    changes: int
    rate: float
    killed: tuple[int, ...]
    chunks: int
    merged: int
    again: int
    seconds: float
    copying: float
    differences: int
    unique_violations: int
    parked: int
    left: int

    @property
    def exact(self) -> bool:
        return self.merged >= self.chunks and not (
            self.differences or self.again or self.unique_violations or self.parked or self.left
        )

    @property
    def rows_per_second(self) -> int:
        return round(self.rows / self.copying)

    def __str__(self) -> str:
        return (
            f"{self.source} → {self.target}: {self.rows:,} rows in {self.chunks} chunks, {self.changes:,} changes "
            f"beside ({self.rate:,.0f}/s), {len(self.killed)} kills (at {', '.join(map(str, self.killed))} chunks): "
            f"{self.copying:.1f} s of copying, {self.rows_per_second:,} rows/s, {self.seconds:.1f} s in all; "
            f"{self.differences} differences, {self.again} chunks merged again, {self.unique_violations} unique "
            f"violations, {self.parked} parked, {self.left} staged tables left"
        )


class Trial:
    """A feed whose source tables hold rows already, and whose target counts what is merged."""

    def __init__(self, rig: Rig, rows: int) -> None:
        self.rig = rig
        self._filled, beside = Filled(rows, rig.flavor), (Mix(), Churn())
        self.workload = Several(self._filled, *beside)
        rig.make(self.workload)
        rig.start_at = "copy"
        rig.at_source(*self._filled.fill())
        rig.load(Several(*beside), BESIDE_CHANGES)
        if rig.flavor is Flavor.POSTGRES:
            rig.at_source("ANALYZE")
        prepared = rig.command("init", "@", "--apply")
        assert prepared.code == 0, prepared.err
        self._count_merges()

    def run(self, rate: float, kills: int, seed: int, seconds: float) -> Copied:
        """`rate`: of changes a second beside it, 0 for none.  `seconds`: how long it may take at most.  Raises
        AssertionError, TidelockFailed."""
        rng, begun = random.Random(seed), time.perf_counter()
        if not rate:
            self.rig.catch_up(seconds)
            return self.copied(0, rate, (), time.perf_counter() - begun)
        work = self.rig.work(self.workload, 1_000_000_000, seed, rate)
        process, killed = self._through_kills(kills, rng, seconds)
        _until(process, lambda: self.merged >= self.chunks, "all chunks merged", seconds)
        copied_at = work.made
        _until(process, lambda: work.made >= copied_at + SETTLED_CHANGES, "changes after the copy", seconds)
        changes = work.stop().changes
        process.stop()
        self.rig.catch_up(seconds)
        return self.copied(changes, rate, killed, time.perf_counter() - begun)

    def _through_kills(self, kills: int, rng: random.Random, seconds: float) -> tuple[Process, tuple[int, ...]]:
        """The run after the last kill, and how many chunks were merged at each kill.  Every other time only the process
        itself is killed, and its children must notice."""
        killed = list[int]()
        process = self.rig.run()
        for number, share in enumerate(sorted(rng.uniform(0.0, LAST_KILL_AT) for _ in range(kills))):
            _until(process, lambda at=share: self.chunks and self.merged >= at * self.chunks, "a merge", seconds)  # type: ignore[misc]
            time.sleep(rng.uniform(0.0, LONGEST_REST_SECONDS))  # any moment will do
            killed.append(self.merged)
            if number % 2:
                os.kill(process.pid, signal.SIGKILL)
                process.code(STOP_SECONDS)
            else:
                process.kill()
            process = self.rig.run()
        return process, tuple(killed)

    # ------------------------------------------------------------------ what the target counts

    def _count_merges(self) -> None:
        """A row of `merges` for each chunk that is planned (`merged` NULL) and each that is merged, as it is stored."""
        self._merges = f"{self.rig.schema}_counted.merges"
        columns = "table_name varchar(255), chunk int, merged bigint, at"
        if isinstance(self.rig.target, Postgres):
            counter = f"{self.rig.schema}_counted.counter"
            self.rig.at_target(
                f"CREATE SCHEMA {self.rig.schema}_counted",
                f"CREATE TABLE {self._merges} ({columns} timestamptz DEFAULT clock_timestamp())",
                f"CREATE FUNCTION {counter}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {self._merges} "
                "VALUES (NEW.table_name, NEW.chunk, NEW.rows_merged); RETURN NULL; END $$",
                f"CREATE TRIGGER {self.rig.schema} AFTER INSERT OR UPDATE ON tidelock.tidelock_chunks FOR EACH ROW "
                f"WHEN (NEW.feed = '{self.rig.name}') EXECUTE FUNCTION {counter}()",
            )
            return
        self.rig.at_target(
            f"CREATE DATABASE {self.rig.schema}_counted",
            f"CREATE TABLE {self._merges} (n bigint AUTO_INCREMENT PRIMARY KEY, {columns} timestamp(6) DEFAULT now(6))",
            *(
                f"CREATE TRIGGER tidelock.{self.rig.schema}_{event} AFTER {event} ON tidelock.tidelock_chunks "
                f"FOR EACH ROW INSERT INTO {self._merges} (table_name, chunk, merged) "
                f"SELECT NEW.table_name, NEW.chunk, NEW.rows_merged FROM DUAL WHERE NEW.feed = '{self.rig.name}'"
                for event in ("INSERT", "UPDATE")
            ),
        )

    @property
    def chunks(self) -> int:
        """Planned; 0 before the copy begins."""
        return self._number(f"count(DISTINCT {'table_name, chunk' if self._mysql else '(table_name, chunk)'})")

    @property
    def merged(self) -> int:
        return self._number("count(merged)")

    @property
    def _mysql(self) -> bool:
        return not isinstance(self.rig.target, Postgres)

    def _number(self, what: str) -> int:
        return int(self.rig.rows(f"SELECT CONCAT({what}, '') FROM {self._merges}")[0][0])

    def copied(self, changes: int, rate: float, killed: tuple[int, ...], seconds: float) -> Copied:
        """`changes`, `rate`, `killed`, `seconds`: of whoever ran the feed."""
        span = "extract(epoch FROM max(at) - min(at)) * 1e6"
        if self._mysql:
            span = "timestampdiff(microsecond, min(at), max(at))"
        [(copying, rows)] = self.rig.rows(f"SELECT CONCAT({span}, ''), CONCAT(sum(merged), '') FROM {self._merges}")
        again = self.rig.rows(
            f"SELECT table_name FROM {self._merges} WHERE merged IS NOT NULL "
            "GROUP BY table_name, chunk HAVING count(*) > 1"
        )
        return Copied(
            source=type(self.rig.source).__name__,
            target=type(self.rig.target).__name__,
            rows=int(rows),
            changes=changes,
            rate=rate,
            killed=killed,
            chunks=self.chunks,
            merged=self.merged,
            again=len(again),
            seconds=round(seconds, 2),
            copying=round(float(copying) / 1e6, 2),
            differences=self.rig.differences().total,
            unique_violations=self.rig.unique_violations(),
            parked=self.rig.parked(),
            left=self._left(),
        )

    def _left(self) -> int:
        """Returns how many staged tables of the feed are at the target."""
        asked = "SELECT CONCAT(table_name, '') FROM information_schema.tables WHERE table_schema = 'tidelock'"
        return sum(name.startswith(staged_prefix(self.rig.name, 0)) for (name,) in self.rig.rows(asked))


def _until(process: Process, true: Callable[[], object], what: str, seconds: float) -> None:
    """While the process runs.  Raises AssertionError, TidelockFailed."""

    def looked() -> bool:
        process.check()
        return bool(true())

    until(looked, what, seconds)


def command(
    rows: Annotated[int, typer.Option(min=100, help="In the five tables together.")] = 5_000_000,
    rate: Annotated[float, typer.Option(min=0, help="Changes a second meanwhile; 0 measures the rate.")] = 0,
    kills: Annotated[int, typer.Option(min=0, help="SIGKILLs on the way, where there are changes.")] = 5,
    pairs: Annotated[str, typer.Option(help="As source-target.")] = ",".join(map("-".join, PAIRS)),
    seed: Annotated[int, typer.Option(help="Of changes and kills.")] = 1,
    chunk_rows: Annotated[int, typer.Option(help="As the feed says it; 0: its default.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="How long one trial may take.")] = 3600.0,
    keep: Annotated[bool, typer.Option(help="Write bench/results/copying-….json.")] = True,
) -> int:
    """Copy tables that change, through kills, and compare every row; exit code 3 if one trial is not exact."""
    options = {"copy": {"chunk_rows": chunk_rows}} if chunk_rows else {}
    exact = True
    for pair in pairs.split(","):
        with contextlib.ExitStack() as stack:
            source, target = (stack.enter_context(SERVERS[name]()) for name in pair.split("-"))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-copying-")))
            outcome = Outcome(f"copying-{pair}{'-changing' if rate else ''}", {"source": source, "target": target})
            rig = stack.enter_context(contextlib.closing(Rig(source, target, folder, "copying", **options)))
            trial = Trial(rig, rows)
            copied = trial.run(rate, kills, seed, seconds)
            print(copied, flush=True)
            exact = exact and copied.exact
            beside = list(_beside(trial, copied, seconds))
            part = shown(copied, beside)
            print(table(part["header"], part["rows"]), flush=True)
            if keep:
                outcome.write({**dataclasses.asdict(copied), "beside": beside, "shown": part})
    return 0 if exact else 3


def shown(copied: Copied, beside: Sequence[Beside]) -> dict[str, Any]:
    """For `bench.report`; `beside`: other ways to copy the same tables."""
    changing = f"{copied.rate:,.0f} changes/s meanwhile and {len(copied.killed)} SIGKILLs"
    text = f"Goal: at least {GOAL_ROWS_PER_SECOND:,} rows/s and {GOAL_RATIO:g} of pgloader's rate."
    if copied.rate:
        text = "Goal: no difference, and no chunk merged twice."
    header = ("by", "rows", "chunks", "changes", "s of copying", "rows/s", "s in all", "differences", "again", "parked")
    numbers = (copied.rows, copied.chunks, copied.changes, copied.copying, copied.rows_per_second, copied.seconds)
    found = (copied.differences, copied.again, copied.parked)
    others = [
        [
            one.name,
            f"{one.rows:,}",
            "–",
            "–",
            f"{one.seconds:,}",
            f"{one.rows_per_second:,}",
            f"{one.seconds:,}",
            *"–––",
        ]
        for one in beside
    ]
    return {
        "title": f"{copied.source} → {copied.target}, {changing if copied.rate else 'nothing changes meanwhile'}",
        "text": text,
        "header": header,
        "rows": [["Tidelock", *(f"{number:,}" for number in (*numbers, *found))], *others],
    }


def _beside(trial: Trial, copied: Copied, seconds: float) -> Iterator[Beside]:
    """Other ways to copy the same tables."""
    rig = trial.rig
    source, target = rig.source, rig.target
    if isinstance(source, Postgres) and isinstance(target, Postgres):
        yield native_copy.dump(rig, source, target, seconds)
        yield native_copy.sync(rig, source, target, trial.workload, seconds)
    if isinstance(source, MariaDb) and isinstance(target, Postgres) and not copied.rate:
        try:
            took = pgloader.copy(source, target, rig.schema, rig.tables, rig.folder, seconds)
            yield Beside("pgloader", copied.rows, round(took, 2))
        except ServerMissing as error:
            print(f"no comparison: {error} (`python -m bench.harness.servers.install pgloader`)", flush=True)


if __name__ == "__main__":
    from bench.command import alone

    alone("copying")
