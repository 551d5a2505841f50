"""The data source of Spark's: how long from Spark's start until the first file of a stream is there.

`tidelock bench stream` lets a worker publish what a source writes, without end, and starts a stream into Parquet files
in a process of its own, some times: with a new checkpoint, then, after a SIGKILL, from where that stood.  *Spark's
start* is when the session is open; how long that took itself is told beside it.  In the end the files of each stream
are compared with a read of the topic up to where the stream came.
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
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres
from bench.harness.servers.kafka import Kafka
from bench.harness.tidelock import Process
from bench.harness.workers import Workers
from bench.harness.workload.mix import Mix
from bench.outcome import Outcome
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session
from tidelock.adapters.spark_stream import TidelockSource

GOAL_SECONDS: Final = 15.0
LIMIT_SECONDS: Final = 600.0
MORE_BATCHES: Final = 2
COLUMNS: Final = ("op", "log_partition", "log_record", "log_row")
LIFE: Final = """
import sys, time
from tidelock.adapters.config.feed import Spark
from tidelock.adapters.spark.session import session
from tidelock.adapters.spark_stream import TidelockSource
feed, place, columns = sys.argv[1], sys.argv[2], sys.argv[3:]
begun = time.monotonic()
with session(Spark(), "stream") as spark:
    print("session", time.monotonic() - begun, time.monotonic(), flush=True)
    spark.dataSource.register(TidelockSource)
    stream = spark.readStream.format("tidelock").option("feed", feed).load().select(*columns).writeStream
    stream = stream.format("parquet").option("checkpointLocation", place + ".checkpoint")
    stream.start(place).awaitTermination()
"""


@dataclasses.dataclass(frozen=True)
class Start:
    """One start of the stream.  `session`: seconds until Spark was open; `first`: from then until a file was there.
    `load`: of the machine at that moment, with the stream itself.
    """

    restart: bool
    session: float
    first: float
    load: float


class Stream:
    """A stream into files at `place`."""

    def __init__(self, rig: Rig, place: Path) -> None:
        self._rig, self._place = rig, place
        self._written = place / "_spark_metadata"  # names a batch's files once they are whole

    def run(self, restart: bool) -> Start:
        """Starts it, waits for its first batch and some more, and kills it."""
        there = self._last()
        said = self._place.with_suffix(".log")
        said.unlink(missing_ok=True)
        words = [str(self._rig.feed), str(self._place), *COLUMNS]
        life = Process(words, said, [sys.executable, "-c", LIFE])

        def came(batches: int) -> bool:
            life.check()
            return self._last() >= there + batches

        try:
            until(lambda: came(1), "the first batch", LIMIT_SECONDS)
            now, load = time.monotonic(), os.getloadavg()[0]
            until(lambda: came(1 + MORE_BATCHES), "more of them", LIMIT_SECONDS)
        finally:
            life.kill()
        told = next(line for line in said.read_text().splitlines() if line.startswith("session "))
        opened, at = map(float, told.split()[1:])
        return Start(restart, round(opened, 2), round(now - at, 2), round(load, 1))

    def differences(self, spark: Any) -> int:
        """Returns how many changes the files miss, have twice, or have too many, up to where the stream came."""
        ends = Path(f"{self._place}.checkpoint", "offsets", str(self._last())).read_text().splitlines()[-1]
        whole = spark.read.format("tidelock").option("feed", str(self._rig.feed)).option("endingOffsets", ends).load()
        whole, there = whole.select(*COLUMNS), spark.read.parquet(str(self._place)).select(*COLUMNS)
        return int(whole.exceptAll(there).count()) + int(there.exceptAll(whole).count())

    def _last(self) -> int:
        """Returns the number of the last batch whose files are there; -1: none are."""
        return max((int(path.name.partition(".")[0]) for path in self._written.glob("[0-9]*")), default=-1)


def command(
    times: Annotated[int, typer.Option(min=1, help="New streams; each is killed and started once more.")] = 3,
    changes: Annotated[int, typer.Option(min=1000, help="In the topic before.")] = 100_000,
    rate: Annotated[float, typer.Option(min=1, help="Changes a second meanwhile.")] = 500,
    keep: Annotated[bool, typer.Option(help="Write bench/results/stream-first.json.")] = True,
) -> int:
    """Tells how soon a stream of changes shows its first file; exit code 3 if a change is lost or doubled."""
    with contextlib.ExitStack() as stack:
        source, beside = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
        kafka = stack.enter_context(Kafka())
        outcome = Outcome("stream-first", {"source": source})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-stream-")))
        rig = stack.enter_context(contextlib.closing(Rig(source, beside, folder, "stream", log=kafka.url())))
        work = rig.make(Mix())
        with Workers(rig, ["w1"]) as workers:
            workers.start()
            rig.load(work, changes)
            workers.until_caught_up(LIMIT_SECONDS)
            busy = rig.work(work, 100_000_000, 2, rate)
            streams = [Stream(rig, folder / f"changes{number}") for number in range(times)]
            starts = []
            for stream in streams:
                for restart in (False, True):
                    starts.append(stream.run(restart))
                    print(starts[-1], flush=True)
            busy.stop()
        with session(Spark(), "compared") as spark:
            spark.dataSource.register(TidelockSource)
            differences = sum(stream.differences(spark) for stream in streams)
        measured = {"changes": changes, "rate": rate, "starts": starts, "differences": differences}
        told = shown(changes, rate, starts, differences)
        print(json.dumps(told["rows"]), flush=True)
        if keep:
            outcome.write({**measured, "shown": told})
    return 0 if differences == 0 else 3


def shown(changes: int, rate: float, starts: list[Start], differences: int) -> dict[str, Any]:
    """For `bench.report`."""
    rows = []
    for restart, name in ((False, "new"), (True, "from its checkpoint, after a SIGKILL")):
        these = [start for start in starts if start.restart is restart]
        firsts = [start.first for start in these]
        opened = statistics.median(start.session for start in these)
        rows.append([
            name, str(len(these)), f"{opened:.1f}", f"{min(firsts):.1f}", f"{statistics.median(firsts):.1f}",
            f"{max(firsts):.1f}", f"{max(start.load for start in these):.0f}", str(differences),
        ])  # fmt: skip
    return {
        "title": f"A stream's first file: {changes:,} changes in the topic, {rate:,.0f}/s beside",
        "text": f"Goal: within {GOAL_SECONDS:.0f} s of Spark's start on a loaded machine; nothing lost or doubled.",
        "header": ("stream", "starts", "s until Spark is open", "least", "median", "most", "load", "lost or doubled"),
        "rows": rows,
    }


if __name__ == "__main__":
    from bench.command import alone

    alone("stream")
