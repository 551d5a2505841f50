"""`python -m bench.harness.hive_death STEP run FEED`: `tidelock` that kills itself at a step of a merge into Hive.

Steps are counted from the beginning of the first merge on, so what a start does to mend an earlier death is not one.
Buckets are small here, so tables get more of them along the way.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from typing import Any, Final, NamedTuple

from tidelock.adapters.hive import bucket_count, merger
from tidelock.adapters.hive.files import Files
from tidelock.adapters.hive.manifest import Manifests
from tidelock.adapters.hive.merger import Merger
from tidelock.adapters.hive.part_files import PartFiles
from tidelock.adapters.hive.partitions import Partitions
from tidelock.adapters.hive.warehouse import Warehouse

BUCKET_BYTES: Final = 16 << 10


class Step(NamedTuple):
    """The death before or behind the `nth` call of a method.  `by_spark`: of a merge that Spark makes."""

    owner: Any
    method: str
    nth: int = 1
    behind: bool = True
    by_spark: bool = False


STEPS: Final = {
    "before the first part": Step(PartFiles, "write", behind=False),
    "behind a table's part": Step(PartFiles, "write"),
    "behind a part of open versions": Step(PartFiles, "write", 2),
    "behind the parts of a day": Step(Merger, "_merged"),
    "before the manifest": Step(Manifests, "commit", behind=False),
    "behind the manifest's draft": Step(Files, "_drafted"),
    "behind the manifest": Step(Manifests, "commit"),
    "behind a table in the metastore": Step(Warehouse, "_make"),
    "before a table's partitions move": Step(Partitions, "move", behind=False),
    "behind the move of a table's": Step(Partitions, "move"),
    "before a history's partitions move": Step(Partitions, "move", 2, behind=False),
    "behind the move of a history's": Step(Partitions, "move", 2),
    "behind older manifests": Step(Manifests, "kept"),
    "amid the removal of what is old": Step(Files, "remove"),
    "behind the merge": Step(Merger, "merge"),
    "Spark: before a table's parts": Step(Warehouse, "write", behind=False, by_spark=True),
    "Spark: behind a table's parts": Step(Warehouse, "write", by_spark=True),
    "Spark: behind open versions": Step(Warehouse, "write", 2, by_spark=True),
    "Spark: behind versions that ended": Step(Warehouse, "write", 3, by_spark=True),
}


def dying(step: Step) -> None:
    """Lets this process die at the step."""
    merging = threading.Event()
    calls = itertools.count(1)
    once, merge = getattr(step.owner, step.method), Merger.merge

    def died(*given: Any, **named: Any) -> Any:
        last = merging.is_set() and next(calls) == step.nth
        done = once(*given, **named) if step.behind or not last else None
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def begun(self: Merger, manifest: Any, stretch: Any, batches: Any) -> Any:
        if batches:
            merging.set()
        return (died if step.owner is Merger and step.method == "merge" else merge)(self, manifest, stretch, batches)

    setattr(step.owner, step.method, died)
    Merger.merge = begun  # type: ignore[method-assign]
    bucket_count.BYTES = BUCKET_BYTES  # type: ignore[misc]
    if step.by_spark:
        merger.MOST_DIRECT_BYTES = -1  # type: ignore[misc]


def main() -> None:
    from tidelock.adapters.cli import main as tidelock

    dying(STEPS[sys.argv.pop(1)])
    tidelock()


if __name__ == "__main__":
    main()
