"""Merges into a Hive warehouse: how many changes a second a feed keeps up with, and whether the tables are right.

`tidelock bench hive --rate 5300 --changes 1590000` lets a source write for five minutes in six tables, with a
history of each.  The rate that was *kept* is the changes over the time from the first write until the tables stand at
the last one.  In the end the current rows and the open versions of each table are compared with the source's
by digests that Spark SQL makes; versions that ended are not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.harness.rig import Rig, until
from bench.harness.servers import MariaDb, Postgres
from bench.harness.session import connect
from bench.harness.tidelock import Process
from bench.harness.usage import Usage
from bench.harness.workload.mix import Mix
from bench.harness.workload.several import Several
from bench.outcome import Outcome
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.files import LocalFiles
from tidelock.adapters.hive.manifest import Manifest, latest_in
from tidelock.adapters.hive.opening import opened
from tidelock.engine.model.records import Position

GOAL_CHANGES_PER_SECOND: Final = 5000
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 120.0
DIGEST: Final = (
    "coalesce(sum(crc32(cast(concat_ws('|', id, email, balance, {at}, payload, version) AS binary))), 0), count(*)"
)
AT_SOURCE: Final = DIGEST.format(at="date_format(updated_at, '%Y-%m-%d %H:%i:%s.%f')")
IN_HIVE: Final = DIGEST.format(at="date_format(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')")


@dataclasses.dataclass(frozen=True)
class Merged:
    """One trial.  `late`: seconds from the last write until the tables stood there.  `cpu`: seconds of processor that
    the feed used meanwhile, with its Java and its capture process.
    """

    tables: int
    history: bool
    format: str
    merge_seconds: int
    rate: float
    changes: int
    seconds: float
    late: float
    merges: int
    cpu: float
    differences: int

    @property
    def kept(self) -> int:
        return round(self.changes / self.seconds)

    def __str__(self) -> str:
        paced = f"written at {self.rate:,.0f}/s" if self.rate else "written before"
        return (
            f"{self.tables} tables{' with history' if self.history else ''}, {self.format}, a merge each "
            f"{self.merge_seconds} s: {self.changes:,} changes {paced}, {self.merges} merges, {self.seconds:.1f} s, "
            f"{self.cpu:.1f} s of processor, "
            f"{self.kept:,} changes/s kept, {self.late:.1f} s behind the last write, {self.differences} differences"
        )


class Trial:
    """A feed into a warehouse in a folder."""

    def __init__(self, rig: Rig, tables: int) -> None:
        self.rig = rig
        self._warehouse = rig.folder / "warehouse"
        rig.target_url = f"hive://{self._warehouse}"
        self._workload = Several(*(Mix(table=f"account{number}") for number in range(tables)))
        rig.make(self._workload)

    def run(self, changes: int, rate: float, limit: float) -> tuple[float, float, int, float]:
        """Returns seconds in all, seconds behind the last write, merges, and seconds of processor.

        `rate` 0: all is written before.
        """
        if not rate:
            self.rig.load(self._workload, changes)
        process = self.rig.run()
        try:
            until(lambda: self._stood(process) is not None, "Spark", START_SECONDS)
            with Usage(lambda: {"feed": process.pid}) as usage:
                begun = time.monotonic()
                if rate:
                    self.rig.work(self._workload, changes, 1, rate).join()
                written = time.monotonic()
                file, _, offset = self.rig.here().partition(":")
                end = Position(file, int(offset))
                until(lambda: self._shown(process, end), "the last change", limit)
                now = time.monotonic()
            return now - begun, now - written, self._at(process).number, sum(usage.cpu_seconds.values())
        finally:
            os.kill(process.pid, signal.SIGTERM)  # not to Java beside it
            process.code(STOP_SECONDS)

    def _shown(self, process: Process, end: Position) -> bool:
        """Tells whether the tables are at `end` and readers see it."""
        at = self._at(process)
        return at.position.order >= end.order and f"merge {at.number}: " in self.rig.said()

    def _stood(self, process: Process) -> Manifest | None:
        process.check()
        return latest_in(LocalFiles(), f"{self._warehouse}/_tidelock/{self.rig.name}/manifests")

    def _at(self, process: Process) -> Manifest:
        found = self._stood(process)
        assert found is not None, "the feed has begun"
        return found

    def differences(self, history: bool) -> int:
        """Returns the number of tables, histories too, that are not the source's."""
        found = 0
        session = connect(self.rig.source.url())
        with contextlib.closing(session), opened(load(self.rig.feed)) as hive:
            for table in self.rig.tables:
                name = f"{self.rig.schema}.{table}"
                wanted = tuple(map(int, session.rows(f"SELECT {AT_SOURCE} FROM {name}")[0]))
                asked = [name, *([f"{name}_history WHERE valid_to IS NULL"] if history else [])]
                for place in asked:
                    there = tuple(map(int, hive.spark.sql(f"SELECT {IN_HIVE} FROM {place}").collect()[0]))
                    found += there != wanted
        return found


def command(
    tables: Annotated[int, typer.Option(min=1, help="Small tables.")] = 6,
    changes: Annotated[int, typer.Option(min=100, help="In all of them.")] = 300_000,
    rate: Annotated[float, typer.Option(min=0, help="Changes a second; 0: written before, as a backlog.")] = 5000,
    merge_seconds: Annotated[int, typer.Option(min=1, help="As the feed says it.")] = 10,
    format: Annotated[str, typer.Option(help="orc, parquet, or the feed's default.")] = "",
    history: Annotated[bool, typer.Option(help="Keep every version.")] = True,
    seconds: Annotated[float, typer.Option(min=1, help="How long the feed may take behind the last write.")] = 1800.0,
    keep: Annotated[bool, typer.Option(help="Write bench/results/hive-….json.")] = True,
) -> int:
    """Keep a Hive warehouse beside a busy source; exit code 3 if a table differs."""
    options = {"merge_seconds": merge_seconds, "history": history, **({"format": format} if format else {})}
    with contextlib.ExitStack() as stack:
        source, beside = stack.enter_context(MariaDb()), stack.enter_context(Postgres())
        outcome = Outcome(f"hive-{'steady' if rate else 'backlog'}", {"source": source})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelock-lake-")))
        rig = stack.enter_context(contextlib.closing(Rig(source, beside, folder, "lake", hive=options)))
        trial = Trial(rig, tables)
        took, late, merges, cpu = trial.run(changes, rate, seconds)
        print(rig.said()[-3000:], flush=True)
        measured = (round(took, 2), round(late, 2), merges, round(cpu, 2))
        stored = load(rig.feed).hive.format
        merged = Merged(tables, history, stored, merge_seconds, rate, changes, *measured, trial.differences(history))
        print(merged, flush=True)
        if keep:
            outcome.write({**dataclasses.asdict(merged), "shown": shown(merged)})
    return 0 if merged.differences == 0 else 3


def shown(merged: Merged) -> dict[str, object]:
    """For `bench.report`."""
    written = f"{merged.rate:,.0f} changes/s" if merged.rate else "written before"
    kind = f"{merged.tables} tables{' with history' if merged.history else ''} ({merged.format})"
    header = ("changes", "merges", "s", "changes/s", "s behind the last write", "CPU s", "tables that differ")
    numbers = [f"{merged.changes:,}", str(merged.merges), f"{merged.seconds:,.1f}", f"{merged.kept:,}"]
    return {
        "title": f"Hive: {kind}, a merge each {merged.merge_seconds} s, {written}",
        "text": f"Goal: {GOAL_CHANGES_PER_SECOND:,} changes/s kept, and no table that differs.",
        "header": header,
        "rows": [[*numbers, f"{merged.late:,.1f}", f"{merged.cpu:,.1f}", str(merged.differences)]],
    }


if __name__ == "__main__":
    from bench.command import alone

    alone("hive")
