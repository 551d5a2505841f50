"""A Hive warehouse that is open in this process, for tests: several feeds share one Spark, which is slow to start."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.harness.rig import Rig
from tidelock.adapters.config.loader import load
from tidelock.adapters.hive.opening import OpenedHive
from tidelock.adapters.hive.run import Follower
from tidelock.adapters.runtime.progress import PlainLines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIVE: Final = {"merge_seconds": 1, "buckets": 4, "history": True}
SPARK: Final = {"settings": {"spark.sql.shuffle.partitions": "4"}}  # small tables


def killed_at(rig: Rig, step: str) -> None:
    """Runs the command, which is killed at this step of its next merge (`bench.harness.hive_death`)."""
    program, rig.program = rig.program, [sys.executable, "-m", "bench.harness.hive_death", step]
    code = rig.run("--until-caught-up").code(600.0)
    rig.program = program
    assert code == -signal.SIGKILL, f"{step}: {rig.said()}"


class Lake:
    """`follow` does what `tidelock run --until-caught-up` does."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def follow(self, rig: Rig) -> OpenedHive:
        feed = load(rig.feed)
        hive = OpenedHive(self.spark, feed)
        folder = Path(tempfile.mkdtemp(prefix="spool", dir=self.folder))
        asyncio.run(Follower(feed, hive, folder, PlainLines(sys.stderr, feed.name)).run(until_caught_up=True))
        return hive

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Sorted."""
        return sorted(tuple(row) for row in self.spark.sql(text).collect())
