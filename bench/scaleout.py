"""Catch-up of one backlog: embedded, and through Kafka with one, two and three workers, in turn on the same processors.

The backlog is committed once, over three tables that nothing joins, so that each worker has one.  The rate of a
catch-up is that from the first row's commit to the last one's, as the target's clock gave them; that is what the budget
is for.
How long it took from the start of the processes is kept too: a feed that never ran makes its topics and its plan first,
and a group of workers takes seconds to form, however long the backlog.  Through Kafka the log is written and read while
it is applied: nothing is in it before the start.  Lanes are shared out: all forms have about as many in all.

What limits a form is read from the processor time of each process: a process that was busy for nearly all of the time
that rows flowed is the narrowest part; where none was and all together kept the processors busy, the machine is.
Rows for each second of processor time (`ceilings`) hold on a busy machine too: a process alone on a processor can do no
more, nor all of them together on all processors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import statistics
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
FORMS: Final = ("embedded", "1 worker", "2 workers", "3 workers")
LANES: Final = 8
TABLES: Final = ("account", "account_2", "account_3")
CATCH_UP_SECONDS: Final = 600.0
BUDGET: Final = 0.60


@dataclasses.dataclass(frozen=True)
class Round:
    """`seconds`: from the start to the last commit; `flowing_seconds`: from the first.

    `cpu_seconds`: by process, from the start on.  `flowing_cpu_seconds`: what of it was used while rows flowed.
    `load_before`: the machine's load average just before, which is others'; `load_average`: just after.
    """

    form: str
    seconds: float
    flowing_seconds: float
    load_before: float
    load_average: float
    cpu_seconds: Mapping[str, float]
    flowing_cpu_seconds: Mapping[str, float]

    def __str__(self) -> str:
        used = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return (
            f"{self.form:<9} {self.seconds:6.2f} s, flowing {self.flowing_seconds:6.2f} s, load {self.load_before}; "
            f"of a processor, while rows flowed: {used}"
        )

    @property
    def shares(self) -> dict[str, float]:
        """Share of one processor that each process used while rows flowed, the largest first."""
        shares = {name: used / self.flowing_seconds for name, used in self.flowing_cpu_seconds.items()}
        return dict(sorted(shares.items(), key=lambda one: -one[1]))

    @property
    def busy(self) -> float:
        """Share of all processors that the processes of this round used while rows flowed."""
        return sum(self.shares.values()) / (os.cpu_count() or 1)


class Bench:
    """The servers with the backlog."""

    def __init__(self, stack: contextlib.ExitStack, changes: int, seed: int) -> None:
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-scaleout-")))
        self._source, self._target = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
        self._kafka = stack.enter_context(Kafka())
        self._rig = stack.enter_context(contextlib.closing(Rig(self._source, self._target, self._folder, "scaleout")))
        self._workload = Several(*(Mix(peers=True, table=table) for table in TABLES))
        self._rig.make(self._workload)
        self._source.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        self._rig.load(self._workload, changes, seed)
        self._name = self._rig.name
        self._rounds = 0

    def embedded(self) -> Round:
        self._fresh("embedded", lanes=LANES)
        load = os.getloadavg()[0]
        begun, clock = time.time(), time.perf_counter()
        process = Process(["run", str(self._rig.feed), "--until-caught-up"], self._rig.output)
        try:
            with Usage(lambda: {"run": process.pid, **self._servers}) as usage:
                process.wait(CATCH_UP_SECONDS)
        finally:
            if process.running:
                process.kill()
        assert time.perf_counter() - clock < CATCH_UP_SECONDS
        return self._round("embedded", begun, load, usage)

    def kafka(self, count: int) -> Round:
        """`count` workers; each of the three groups has a third of the lanes, rounded up."""
        self._fresh("kafka", lanes=-(-LANES // len(TABLES)), log=self._kafka.url())
        load = os.getloadavg()[0]
        with Workers(self._rig, [f"w{number}" for number in range(1, count + 1)]) as workers:
            with Usage(lambda: {**workers.pids, "broker": self._kafka.pid, **self._servers}) as usage:
                begun = time.time()
                workers.start()
                workers.until_caught_up(CATCH_UP_SECONDS)
            workers.stop()
        for topic in self._kafka.topics():
            self._kafka.delete_topic(topic)
        return self._round(FORMS[count], begun, load, usage)

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

    def _round(self, form: str, begun: float, load: float, usage: Usage) -> Round:
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
            load_before=round(load, 2),
            load_average=round(os.getloadavg()[0], 2),
            cpu_seconds=usage.cpu_seconds,
            flowing_cpu_seconds=usage.used_between(min(moments) - begun, max(moments) - begun),
        )


def measure(changes: int, rounds: int, seed: int) -> dict[str, object]:
    """The report that is written to bench/results/.  Raises AssertionError where a round ends inexact or late."""
    done: list[Round] = []
    with contextlib.ExitStack() as stack:
        bench = Bench(stack, changes, seed)
        for _ in range(rounds):
            for count in range(len(FORMS)):
                done.append(bench.kafka(count) if count else bench.embedded())
                print(done[-1], flush=True)
    return report(done, changes, seed)


def report(done: list[Round], changes: int, seed: int) -> dict[str, object]:
    def median(form: str, field: str) -> float:
        return float(statistics.median(getattr(one, field) for one in done if one.form == form))

    def limit(form: str) -> dict[str, float]:
        """The median shares of a processor; `all`: of all processors together."""
        rounds = [one for one in done if one.form == form]
        names = dict.fromkeys(name for one in rounds for name in one.shares)
        shares = {name: round(statistics.median(one.shares.get(name, 0.0) for one in rounds), 2) for name in names}
        return {**shares, "all": round(statistics.median(one.busy for one in rounds), 2)}

    def ceilings(form: str) -> dict[str, int]:
        rounds = [one for one in done if one.form == form]
        names = dict.fromkeys(name for one in rounds for name in one.shares)
        used = {name: statistics.median(one.flowing_cpu_seconds.get(name, 0.0) for one in rounds) for name in names}
        together = statistics.median(sum(one.flowing_cpu_seconds.values()) for one in rounds)
        most = {name: round(changes / seconds) for name, seconds in used.items() if seconds}
        return {**most, "all": round(changes * (os.cpu_count() or 1) / together)}

    return {
        "changes": changes,
        "seed": seed,
        "processors": os.cpu_count(),
        "rows_per_second": {form: round(changes / median(form, "flowing_seconds")) for form in FORMS},
        "start_seconds": {form: round(median(form, "seconds") - median(form, "flowing_seconds"), 2) for form in FORMS},
        "load_before": {form: round(median(form, "load_before"), 2) for form in FORMS},
        "busy": {form: limit(form) for form in FORMS},
        "ceilings": {form: ceilings(form) for form in FORMS},
        "ratio": round(median("embedded", "flowing_seconds") / median("2 workers", "flowing_seconds"), 3),
        "ratio_with_start": round(median("embedded", "seconds") / median("2 workers", "seconds"), 3),
        "budget": BUDGET,
        "rounds": [dataclasses.asdict(one) for one in done],
    }


def command(
    changes: Annotated[int, typer.Option(min=1, help="Row changes in the backlog.")] = 600_000,
    rounds: Annotated[int, typer.Option(min=1, help="Catch-ups of each form.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the workload.")] = 1,
    keep: Annotated[bool, typer.Option(help="Write bench/results/scaleout.json.")] = True,
) -> int:
    """Measure catch-up through Kafka with 1, 2 and 3 workers against the embedded run; exit code 3 if two workers are
    slower than the budget."""
    result = measure(changes, rounds, seed)
    print(f"rows/s: {result['rows_per_second']}, ratio {result['ratio']}; start in s: {result['start_seconds']}")
    print(f"busy, as shares of one processor (all: of all): {result['busy']}")
    print(f"rows/s that each process could do alone on a processor (all: on all of them): {result['ceilings']}")
    if keep:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "scaleout.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if float(str(result["ratio"])) >= BUDGET else 3


if __name__ == "__main__":
    from bench.command import alone

    alone("workers")
