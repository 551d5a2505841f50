"""Compares a share of all rows each round, round after round, while the feed runs (`tidelock verify --every`).

Each round starts Spark where its tables are not small, compares the next share (`adapters.verify.rotation`) and stops
Spark again, so that nothing is held between rounds.  The place is kept in a file, so that a restart goes on; without
it, a run begins anew.  A *pass* is once through all tables.

The known differences of a table are those of its last complete pass, or of the present one so far, where that is more:
a figure that fell to 0 when a pass begins would hide differences that nobody has repaired.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tidelock.adapters.config.feed import Feed
from tidelock.adapters.process import private_files
from tidelock.adapters.verify.report import VerifyReport
from tidelock.adapters.verify.rotation import RotationPlace, Share, share
from tidelock.adapters.verify.verify import VerifyProgress, examine, spark_for
from tidelock.adapters.web.exposition import Page

KINDS: Final = ("missing", "extra", "different")


class FoundDifferences(msgspec.Struct):
    """Differences of a table by kind: of its last whole pass, and of the present one so far."""

    before: dict[str, int] = {}
    now: dict[str, int] = {}

    def known(self, kind: str) -> int:
        """Returns the known differences of a kind."""
        return max(self.before.get(kind, 0), self.now.get(kind, 0))


class ScheduleState(msgspec.Struct):
    """The state between rounds.  `place`: where the next share begins.  `covered`: rows of the present pass so far, of
    about `total`.

    `rows`: compared since the file was begun; `succeeded`: when the last round ended, seconds since the epoch.
    """

    place: RotationPlace = RotationPlace()
    tables: dict[str, FoundDifferences] = {}
    covered: int = 0
    total: int = 0
    rows: int = 0
    passes: int = 0
    rounds: int = 0
    failures: int = 0
    succeeded: float = 0.0

    def take(self, part: Share, report: VerifyReport, now: float) -> None:
        """Adds the result of one round."""
        for at, told in zip(part.ranges, report.tables, strict=True):
            found = self.tables.setdefault(told.table, FoundDifferences())
            if at.first:
                found.now = {}
            for kind in KINDS:
                found.now[kind] = found.now.get(kind, 0) + getattr(told, kind)
            if at.last:
                found.before, found.now = found.now, {}
            self.covered += at.cut.rows
            self.rows += told.source_rows
        self.place, self.total = part.ranges[-1].behind, part.total
        if self.place.table is None:
            self.passes, self.covered = self.passes + 1, 0
        self.rounds, self.succeeded = self.rounds + 1, now

    @property
    def share(self) -> float:
        """The share of the present pass that is done, 0 to 1."""
        return min(self.covered / self.total, 1.0) if self.total else 0.0


_STATE: Final = msgspec.json.Decoder(ScheduleState)


def load(path: Path) -> ScheduleState:
    """Reads the state; a file that is no state of ours counts as none."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return _STATE.decode(path.read_bytes())
    return ScheduleState()


def store(path: Path, state: ScheduleState) -> None:
    """Writes the state, whole or not at all.  Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    private_files.write(path, msgspec.json.format(msgspec.json.encode(state), indent=2))


def place_of(feed: Feed) -> Path:
    """Returns where a feed's state is kept by default."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "tidelock" / f"{feed.name}.verify.json"


def round_of(
    feed: Feed, tables: Sequence[str], part: float, state: ScheduleState, wait_seconds: float, progress: VerifyProgress
) -> VerifyReport:
    """Compares the next share, and notes in `state` what was found.

    Raises NotComparable, Refused, Missing, SparkFailed, SourceError, TargetError.
    """
    chosen = asyncio.run(share(feed, tables, part, state.place))
    with spark_for(feed, chosen.plan, progress) as spark:
        report = examine(feed, chosen.plan, spark, wait_seconds, progress)
    state.take(chosen, report, time.time())
    return report


def metrics(state: ScheduleState, feed: str) -> str:
    """Returns the state in Prometheus' text format, with the feed's name."""
    page = Page({"feed": feed})
    differences = [
        ({"table": table, "kind": kind}, found.known(kind))
        for table, found in sorted(state.tables.items())
        for kind in KINDS
    ]
    page.one("verify_rows_total", "counter", "Source rows compared.", state.rows)
    page.add("verify_differences", "gauge", "Rows that differ, as far as passes have found.", *differences)
    page.one("verify_covered_ratio", "gauge", "How much of the present pass is done.", state.share)
    page.one("verify_passes_total", "counter", "Times that all tables were compared.", state.passes)
    page.one("verify_rounds_total", "counter", "Rounds that ended well.", state.rounds)
    page.one("verify_failures_total", "counter", "Rounds that could not be done.", state.failures)
    page.one("verify_last_success_timestamp_seconds", "gauge", "When a round ended well.", state.succeeded)
    return page.text
