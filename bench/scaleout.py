"""Catch-up of one backlog: embedded, and through Kafka with a capture and two workers, in turn on the same processors.

The backlog is committed once, over two tables that nothing joins, so that each worker has one.  The rate of a catch-up
is that from the first row's commit to the last one's, as the target's clock gave them; that is what the budget is for.
How long it took from the start of the processes is kept too: a feed that never ran makes its topics and its plan first,
and a group of workers takes seconds to form, however long the backlog.  Through Kafka the log is written and read while
it is applied: nothing is in it before the start.  Lanes are shared out: both forms have as many in all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.harness.rig import Rig
from bench.harness.servers import MariaDb, Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.session import connect
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.harness.workers import Workers
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several

RESULTS: Final = Path(__file__).parent / "results"
FORMS: Final = ("embedded", "kafka")
LANES: Final = 8
WORKERS: Final = 2
CATCH_UP_SECONDS: Final = 600.0
BUDGET: Final = 0.60


@dataclasses.dataclass(frozen=True)
class Round:
    """`seconds`: from the start to the last commit; `flowing_seconds`: from the first.  `cpu_seconds`: by process."""

    form: str
    seconds: float
    flowing_seconds: float
    load_average: float
    cpu_seconds: Mapping[str, float]

    def __str__(self) -> str:
        used = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sorted(self.cpu_seconds.items()))
        return f"{self.form:<9} {self.seconds:6.2f} s, flowing {self.flowing_seconds:6.2f} s; CPU s: {used}"


class Bench:
    """The servers with the backlog."""

    def __init__(self, stack: contextlib.ExitStack, changes: int, seed: int) -> None:
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-scaleout-")))
        self._source, self._target = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
        self._kafka = stack.enter_context(Kafka())
        self._rig = stack.enter_context(contextlib.closing(Rig(self._source, self._target, self._folder, "scaleout")))
        self._workload = Several(Mix(peers=True), Mix(peers=True, table="account_2"))
        self._rig.make(self._workload)
        self._source.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        self._rig.load(self._workload, changes, seed)
        self._name = self._rig.name
        self._rounds = 0

    def embedded(self) -> Round:
        self._fresh("embedded", lanes=LANES)
        begun, clock = time.time(), time.perf_counter()
        process = Process(["run", str(self._rig.feed), "--until-caught-up"], self._rig.output)
        try:
            with Usage(lambda: {"run": process.pid, **self._servers}) as usage:
                process.wait(CATCH_UP_SECONDS)
        finally:
            if process.running:
                process.kill()
        assert time.perf_counter() - clock < CATCH_UP_SECONDS
        return self._round("embedded", begun, usage)

    def kafka(self) -> Round:
        self._fresh("kafka", lanes=LANES // WORKERS, log=self._kafka.url())
        with Workers(self._rig, [f"w{number}" for number in range(1, WORKERS + 1)]) as workers:
            with Usage(lambda: {**workers.pids, "broker": self._kafka.pid, **self._servers}) as usage:
                begun = time.time()
                workers.start()
                workers.until_caught_up(CATCH_UP_SECONDS)
            workers.stop()
        for topic in self._kafka.topics():
            self._kafka.delete_topic(topic)
        return self._round("kafka", begun, usage)

    @property
    def _servers(self) -> dict[str, int]:
        return {"source": self._source.pid, "target": self._target.pid}

    def _fresh(self, form: str, **options: object) -> None:
        """Empty tables, no bookkeeping, and a feed that never ran."""
        self._rounds += 1
        rig = self._rig
        rig.fresh_target(self._target, self._workload)
        rig.name = f"{self._name}_{form}_{self._rounds}"
        rig.options = dict(options)
        self._target.execute("CHECKPOINT")

    def _round(self, form: str, begun: float, usage: Usage) -> Round:
        self._rig.assert_exact()
        session = connect(self._target.url())
        try:
            moments = [
                float(moment)
                for table in self._rig.tables
                for moment in session.rows(
                    "SELECT extract(epoch FROM min(at))::text, extract(epoch FROM max(at))::text FROM"
                    f" (SELECT pg_xact_commit_timestamp(xmin) AS at FROM {self._rig.schema}.{table}) AS moments"
                )[0]
            ]
        finally:
            session.close()
        return Round(
            form=form,
            seconds=round(max(moments) - begun, 2),
            flowing_seconds=round(max(moments) - min(moments), 2),
            load_average=round(os.getloadavg()[0], 2),
            cpu_seconds=usage.cpu_seconds,
        )


def measure(changes: int, rounds: int, seed: int) -> dict[str, object]:
    """The report that is written to bench/results/.  Raises AssertionError where a round ends inexact or late."""
    done: list[Round] = []
    with contextlib.ExitStack() as stack:
        bench = Bench(stack, changes, seed)
        for _ in range(rounds):
            for one in (bench.embedded, bench.kafka):
                done.append(one())
                print(done[-1], flush=True)
    return report(done, changes, seed)


def report(done: list[Round], changes: int, seed: int) -> dict[str, object]:
    def median(form: str, field: str) -> float:
        return float(statistics.median(getattr(one, field) for one in done if one.form == form))

    return {
        "changes": changes,
        "seed": seed,
        "processors": os.cpu_count(),
        "rows_per_second": {form: round(changes / median(form, "flowing_seconds")) for form in FORMS},
        "start_seconds": {form: round(median(form, "seconds") - median(form, "flowing_seconds"), 2) for form in FORMS},
        "ratio": round(median("embedded", "flowing_seconds") / median("kafka", "flowing_seconds"), 3),
        "ratio_with_start": round(median("embedded", "seconds") / median("kafka", "seconds"), 3),
        "budget": BUDGET,
        "rounds": [dataclasses.asdict(one) for one in done],
    }


def command(
    changes: Annotated[int, typer.Option(min=1, help="Row changes in the backlog.")] = 600_000,
    rounds: Annotated[int, typer.Option(min=1, help="Catch-ups of each form.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 1,
    keep: Annotated[bool, typer.Option(help="Write bench/results/scaleout.json.")] = True,
) -> int:
    """Measure catch-up through Kafka against the embedded run; exit code 3 if it is slower than its budget."""
    result = measure(changes, rounds, seed)
    print(f"rows/s: {result['rows_per_second']}, ratio {result['ratio']}; start in s: {result['start_seconds']}")
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "scaleout.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if float(str(result["ratio"])) >= BUDGET else 3


def main() -> None:
    app = typer.Typer(add_completion=False)
    app.command()(command)
    sys.exit(typer.main.get_command(app).main(standalone_mode=False))


if __name__ == "__main__":
    main()
